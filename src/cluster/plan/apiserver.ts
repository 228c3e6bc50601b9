/**
 * Files of kube-apiserver that do not belong to the PKI: audit policy and admission configuration.
 */
import type { PlanLine } from '../../agent/wire/plan.ts';
import { type Plain, yamlText } from '../../base/yaml-text.ts';
import type { NodeConfig, NodeFile } from '../../resources/nodeconfig.ts';
import { webhookSecrets } from '../../resources/webhook-secrets.ts';
import { ADMISSION_CONFIG, policyFiles } from '../components/policies.ts';
import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';
import { AUDIT_POLICY } from '../resolve/derive.ts';
import type { ResolvedClusters } from '../resolve/resolved-clusters.ts';
import { auditPolicy } from './audit-policy.ts';
import { put } from './lines.ts';

/**
 * Admission configuration with the Pod Security Standard of namespaces that name none. A pod below
 * the level is refused, a workload that would create such a pod gets a warning, and pods that are
 * not `restricted` are noted in the audit log. kube-system is exempt, because the programs that
 * every node needs run there.
 */
const admission = ({ podSecurity }: ResolvedCluster): Plain => ({
  apiVersion: 'apiserver.config.k8s.io/v1',
  kind: 'AdmissionConfiguration',
  plugins: [
    {
      configuration: {
        apiVersion: 'pod-security.admission.config.k8s.io/v1',
        defaults: {
          audit: podSecurity === 'privileged' ? 'privileged' : 'restricted',
          'audit-version': 'latest',
          enforce: podSecurity,
          'enforce-version': 'latest',
          warn: podSecurity,
          'warn-version': 'latest',
        },
        exemptions: { namespaces: ['kube-system'], runtimeClasses: [], usernames: [] },
        kind: 'PodSecurityConfiguration',
      },
      name: 'PodSecurity',
    },
  ],
});

/** The lines of a control plane; none for other machines. */
export const apiserverLines = (resolved: ResolvedCluster, machine: ClusterMachine): readonly PlanLine[] =>
  machine.roles.includes('control-plane')
    ? [
        put(ADMISSION_CONFIG, yamlText(admission(resolved)), 0o600),
        put(AUDIT_POLICY, yamlText((resolved.apiServer?.auditPolicy as Plain) ?? auditPolicy), 0o600),
        ...policyFiles(resolved.apiServer).map(({ path, content }) =>
          put(path, isText(content) ? content.text : yamlText(content), 0o600),
        ),
      ]
    : [];

const isText = (content: Plain | { readonly text: string }): content is { readonly text: string } =>
  typeof content === 'object' && content !== null && typeof (content as { text?: unknown }).text === 'string';

/**
 * Adds the secrets of API servers' webhooks to the configurations of control planes, whose agents
 * bring them like those of their documents.
 */
export const withWebhookSecrets =
  (configuration: (machine: string) => NodeConfig, clusters: Pick<ResolvedClusters, 'clusterOf'>) =>
  (name: string): NodeConfig => {
    const config = configuration(name);
    const { resolved } = clusters.clusterOf(name) ?? {};
    const machine = resolved?.machines.find((one) => one.name === name);
    if (!machine?.roles.includes('control-plane')) return config;
    const secrets = webhookSecrets(resolved?.apiServer).map(
      ({ path, from }): NodeFile => ({ path, mode: '0600', content: { valueFrom: from } }),
    );
    return secrets.length === 0 ? config : { ...config, files: [...(config.files ?? []), ...secrets] };
  };
