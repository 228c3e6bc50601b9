/**
 * What an API server reads from files, as documents in a Cluster; and additions to static pods.
 * Muster writes the files, mounts them and sets the flags.
 */
import { z } from 'zod';
import { auditPolicySpec } from './audit-policy-spec.ts';
import { authenticationSpec, authorizationSpec, pemCertificates } from './authn-spec.ts';
import { absolutePath } from './fields.ts';
import { webhookKubeconfig } from './kubeconfig-spec.ts';

export const apiServer = z.strictObject({
  auditPolicy: auditPolicySpec
    .optional()
    .meta({ description: "What the audit log records, in the place of Muster's own policy." }),
  auditWebhook: webhookKubeconfig.optional().meta({
    description: 'Where audit events are sent to, besides the log on the machine: a kubeconfig.',
  }),
  authentication: authenticationSpec
    .optional()
    .meta({ description: 'How users are recognised: tokens of OIDC issuers, anonymous requests.' }),
  tokenWebhook: webhookKubeconfig
    .optional()
    .meta({ description: 'Who is asked about bearer tokens that are not known: a kubeconfig.' }),
  authorization: authorizationSpec
    .optional()
    .meta({ description: 'Who may do what, in the place of the flag authorization-mode (Node, RBAC).' }),
  oidcCA: pemCertificates.optional().meta({
    description: 'CAs of the issuer of the flags oidc-*, PEM. In `authentication` each issuer has its own.',
  }),
});
export type ApiServerSpec = z.output<typeof apiServer>;

const quantity = z
  .union([z.string(), z.number()])
  .refine((text) => /^([0-9]+(\.[0-9]*)?|\.[0-9]+)(m|k|Ki|[MGTPE]i?)?$/.test(String(text)), {
    error: 'not a quantity; write it like "250m", "1.5" or "512Mi"',
  })
  .transform(String);
const quantities = (description: string) =>
  z
    .strictObject({
      cpu: quantity.optional().meta({ description: 'Processors, e.g. 250m.' }),
      memory: quantity.optional().meta({ description: 'Memory, e.g. 512Mi.' }),
    })
    .optional()
    .meta({ description });

const podAddition = z.strictObject({
  volumes: z
    .array(
      z.strictObject({
        path: absolutePath.meta({ description: 'Directory or file of the host; the same path in the pod.' }),
        type: z
          .enum(['Directory', 'DirectoryOrCreate', 'File', 'FileOrCreate', 'Socket'])
          .optional()
          .meta({ description: 'What is at the path. Default DirectoryOrCreate.' }),
        readOnly: z.boolean().optional().meta({ description: 'Whether the pod only reads. Default true.' }),
      }),
    )
    .optional()
    .meta({ description: 'Further directories or files of the host that the pod sees.' }),
  env: z
    .record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'not the name of a variable'), z.string())
    .optional()
    .meta({ description: 'Environment variables.' }),
  resources: z
    .strictObject({
      requests: quantities('What is reserved; each value replaces that of kubeadm.'),
      limits: quantities('What the pod may use at most. A limit of memory ends it when it is reached.'),
    })
    .optional()
    .meta({ description: 'Resources of the container.' }),
  priorityClassName: z.enum(['system-node-critical', 'system-cluster-critical']).optional().meta({
    description: 'Which pods kubelet ends first when it lacks resources. Default system-node-critical.',
  }),
});
export type PodAddition = z.output<typeof podAddition>;

export const staticPods = z.strictObject({
  etcd: podAddition.optional().meta({ description: 'etcd, where it runs as a static pod.' }),
  'kube-apiserver': podAddition.optional().meta({ description: 'The API server.' }),
  'kube-controller-manager': podAddition.optional().meta({ description: 'The controller manager.' }),
  'kube-scheduler': podAddition.optional().meta({ description: 'The scheduler.' }),
});
