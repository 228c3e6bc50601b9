/**
 * An audit policy (audit.k8s.io/v1) in a document. The rules are those of kube-apiserver
 * (pkg/apis/audit/validation), which ends at a policy without rules; fields that it does not know
 * it would drop with a warning.
 */
import { z } from 'zod';

const texts = (description: string) => z.array(z.string()).optional().meta({ description });
const stages = z
  .array(z.enum(['RequestReceived', 'ResponseStarted', 'ResponseComplete', 'Panic']))
  .optional()
  .meta({ description: 'Stages of a request that are not recorded.' });

const resources = z.strictObject({
  group: z
    .string()
    .refine((group) => !/[/A-Z]/.test(group), 'a group has no version and no capital letters, e.g. "apps"')
    .optional()
    .meta({ description: 'API group; empty for pods, secrets and others of the core.' }),
  resources: texts('Resources, and subresources after a slash; absent: all of the group.'),
  resourceNames: texts('Names of objects; absent: all.'),
});

const rule = z
  .strictObject({
    level: z.enum(['None', 'Metadata', 'Request', 'RequestResponse']).meta({
      description: 'How much is recorded; RequestResponse of Secrets would write them to the log.',
    }),
    users: texts('Users; absent: all.'),
    userGroups: texts('Groups of users; absent: all.'),
    verbs: texts('Verbs, e.g. get; absent: all.'),
    resources: z.array(resources).optional().meta({ description: 'Kinds of objects; absent: all.' }),
    namespaces: texts('Namespaces; absent: all.'),
    nonResourceURLs: texts('Paths that are no objects, e.g. /healthz*.'),
    omitStages: stages,
    omitManagedFields: z
      .boolean()
      .optional()
      .meta({ description: 'Whether managedFields are left out of the objects that are recorded.' }),
  })
  .superRefine((of, context) => {
    const say = (path: string[], message: string): void =>
      context.addIssue({ code: 'custom', path, message });
    const urls = of.nonResourceURLs ?? [];
    if (urls.length > 0 && ((of.resources ?? []).length > 0 || (of.namespaces ?? []).length > 0))
      say(['nonResourceURLs'], 'a rule has resources and namespaces, or nonResourceURLs; write two rules');
    for (const url of urls)
      if (url !== '*' && (!url.startsWith('/') || /\*./.test(url)))
        say(['nonResourceURLs'], `"${url}" is not a path; it begins with "/", and "*" is at its end only`);
    for (const { resourceNames = [], resources: of_ = [] } of of.resources ?? [])
      if (resourceNames.length > 0 && of_.length === 0)
        say(['resources'], 'resourceNames need resources in the same entry');
  });

export const auditPolicySpec = z.strictObject({
  apiVersion: z.literal('audit.k8s.io/v1').meta({ description: 'Always audit.k8s.io/v1.' }),
  kind: z.literal('Policy').meta({ description: 'Always Policy.' }),
  metadata: z.looseObject({}).optional().meta({ description: 'Not used by the API server.' }),
  rules: z
    .array(rule)
    .min(1, 'an API server ends at a policy without rules; `level: None` records nothing')
    .meta({ description: 'Rules; the first one that matches a request counts.' }),
  omitStages: stages,
  omitManagedFields: z
    .boolean()
    .optional()
    .meta({ description: 'Whether managedFields are left out of the objects that are recorded.' }),
});
