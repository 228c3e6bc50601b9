/** What kube-apiserver reads besides the PKI: which requests it records, which pods it admits. */
import type { PlanLine } from '../../agent/plan.ts';
import { type Plain, yamlText } from '../../base/yaml-text.ts';
import { ADMISSION_CONFIG, AUDIT_POLICY } from '../spec/derive.ts';
import type { ClusterMachine, ResolvedCluster } from '../spec/resolved-cluster.ts';
import { auditPolicy } from './audit-policy.ts';
import { put } from './lines.ts';

/**
 * Kubernetes' Pod Security Standards where a namespace says nothing: a pod below the level is
 * refused, whatever would make one is warned of, and what is not `restricted` is noted in the audit
 * log. kube-system runs what a node is made of.
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

/** Of control planes. */
export const apiserverLines = (resolved: ResolvedCluster, machine: ClusterMachine): readonly PlanLine[] =>
  machine.roles.includes('control-plane')
    ? [
        put(ADMISSION_CONFIG, yamlText(admission(resolved)), 0o600),
        put(AUDIT_POLICY, yamlText(auditPolicy), 0o600),
      ]
    : [];
