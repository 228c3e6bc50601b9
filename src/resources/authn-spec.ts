/**
 * AuthenticationConfiguration and AuthorizationConfiguration (apiserver.config.k8s.io) in a
 * document, with the rules of kube-apiserver (pkg/apis/apiserver/validation). Expressions in CEL
 * are not checked. Webhooks have their kubeconfig inside instead of its path.
 */
import { X509Certificate } from 'node:crypto';
import { z } from 'zod';
import { parseDuration } from '../base/duration.ts';
import { urlOf } from './fields.ts';
import { webhookKubeconfig } from './kubeconfig-spec.ts';

/** The versions that API servers from 1.34 on read. */
const apiVersion = z
  .enum(['apiserver.config.k8s.io/v1', 'apiserver.config.k8s.io/v1beta1'], {
    error: 'write apiserver.config.k8s.io/v1, which API servers from 1.34 on read',
  })
  .meta({ description: 'apiserver.config.k8s.io/v1; v1beta1 is read as well.' });
const text = (description: string) => z.string().min(1).meta({ description });
const optional = (description: string) => z.string().optional().meta({ description });

/** Certificates in PEM. */
export const pemCertificates = z.string().refine((pem) => {
  const found = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  try {
    return found.length > 0 && found.every((one) => new X509Certificate(one) !== undefined);
  } catch {
    return false;
  }
}, 'not certificates in PEM (-----BEGIN CERTIFICATE-----)');

const httpsUrl = urlOf(/^https:$/, 'not an https:// URL');

const claimOrExpression = (description: string) =>
  z
    .strictObject({
      claim: optional('Name of the claim.'),
      prefix: optional('Text in front of the value; "" for none. Needed with claim.'),
      expression: optional('CEL expression instead of a claim.'),
    })
    .superRefine((of, context) => {
      const say = (message: string): void => context.addIssue({ code: 'custom', message });
      if ((of.claim === undefined) === (of.expression === undefined))
        say('either claim or expression is needed');
      if (of.claim !== undefined && of.prefix === undefined)
        say('claim needs a prefix; write prefix: "" for none');
      if (of.expression !== undefined && of.prefix !== undefined)
        say('prefix belongs to claim; an expression adds its own');
    })
    .meta({ description });

const issuer = z
  .strictObject({
    url: httpsUrl.meta({ description: 'URL of the issuer, as in the claim iss.' }),
    discoveryURL: httpsUrl.optional().meta({ description: 'URL of the discovery document, if elsewhere.' }),
    certificateAuthority: pemCertificates
      .optional()
      .meta({ description: 'CAs of the issuer, PEM. Default: the CAs of the host.' }),
    audiences: z
      .array(z.string().min(1))
      .min(1)
      .meta({ description: 'Audiences of which a token needs one, mostly the id of the client.' }),
    audienceMatchPolicy: z
      .literal('MatchAny')
      .optional()
      .meta({ description: 'MatchAny; needed with more than one audience.' }),
    egressSelectorType: z.enum(['controlplane', 'cluster']).optional().meta({
      description: 'How the API server reaches the issuer, with an egress selector (from 1.34 on).',
    }),
  })
  .superRefine((of, context) => {
    const say = (path: string, message: string): void =>
      context.addIssue({ code: 'custom', path: [path], message });
    if (of.audiences.length > 1 && of.audienceMatchPolicy === undefined)
      say('audienceMatchPolicy', 'more than one audience needs audienceMatchPolicy: MatchAny');
    if (of.discoveryURL === of.url) say('discoveryURL', 'leave it out where it is the same as url');
    for (const field of ['url', 'discoveryURL'] as const)
      if (of[field] !== undefined && /[?#@]/.test(of[field]))
        say(field, 'the URL has no login, no "?" and no "#"');
  });

const jwt = z.strictObject({
  issuer: issuer.meta({ description: 'Who signs the tokens.' }),
  claimValidationRules: z
    .array(
      z.strictObject({
        claim: optional('Claim that must have requiredValue.'),
        requiredValue: optional('The value that the claim must have.'),
        expression: optional('CEL expression that must be true.'),
        message: optional('Text for the log where the expression is false.'),
      }),
    )
    .optional()
    .meta({ description: 'What else must hold for a token.' }),
  claimMappings: z
    .strictObject({
      username: claimOrExpression('Where the name of the user comes from.'),
      groups: claimOrExpression('Where the groups of the user come from.').optional(),
      uid: z
        .strictObject({
          claim: optional('Name of the claim.'),
          expression: optional('CEL expression instead of a claim.'),
        })
        .optional()
        .meta({ description: 'Where the uid of the user comes from.' }),
      extra: z
        .array(
          z.strictObject({
            key: text('Key, lower-case, with a domain, e.g. example.org/tenant.'),
            valueExpression: text('CEL expression of the value.'),
          }),
        )
        .optional()
        .meta({ description: 'Further attributes of the user.' }),
    })
    .meta({ description: 'How a token becomes a user.' }),
  userValidationRules: z
    .array(
      z.strictObject({
        expression: text('CEL expression about the user that must be true.'),
        message: optional('Text for the log where it is false.'),
      }),
    )
    .optional()
    .meta({ description: 'What must hold for the user.' }),
});

/** How API servers recognise users. */
export const authenticationSpec = z.strictObject({
  apiVersion,
  kind: z.literal('AuthenticationConfiguration').meta({ description: 'Always AuthenticationConfiguration.' }),
  jwt: z
    .array(jwt)
    .max(64)
    .optional()
    .superRefine((all, context) => {
      for (const [n, { issuer: of }] of (all ?? []).entries())
        if (all!.findIndex((other) => other.issuer.url === of.url) !== n)
          context.addIssue({
            code: 'custom',
            path: [n, 'issuer', 'url'],
            message: 'this issuer is listed twice',
          });
    })
    .meta({ description: 'Issuers of tokens (OIDC).' }),
  anonymous: z
    .strictObject({
      enabled: z.boolean().meta({ description: 'Whether requests without a credential are taken.' }),
      conditions: z
        .array(z.strictObject({ path: text('Path that may be asked, e.g. /livez.') }))
        .optional()
        .meta({ description: 'The paths alone that may be asked anonymously.' }),
    })
    .superRefine((of, context) => {
      if (!of.enabled && (of.conditions ?? []).length > 0)
        context.addIssue({ code: 'custom', path: ['conditions'], message: 'conditions need enabled: true' });
    })
    .optional()
    .meta({ description: 'Requests without a credential, in the place of the flag anonymous-auth.' }),
});

const ttl = (description: string) =>
  z
    .string()
    .refine((written) => parseDuration(written) !== undefined, 'not a duration; write it like "30s"')
    .optional()
    .meta({ description });

const webhook = z.strictObject({
  authorizedTTL: ttl('How long an allowed request is remembered. Default 5m.'),
  cacheAuthorizedRequests: z
    .boolean()
    .optional()
    .meta({ description: 'Whether allowed requests are remembered (from 1.34 on).' }),
  unauthorizedTTL: ttl('How long a denied request is remembered. Default 30s.'),
  cacheUnauthorizedRequests: z
    .boolean()
    .optional()
    .meta({ description: 'Whether denied requests are remembered (from 1.34 on).' }),
  timeout: z
    .string()
    .refine(
      (written) => (parseDuration(written) ?? 0) > 0 && (parseDuration(written) ?? 0) <= 30_000,
      'not a duration up to 30s',
    )
    .meta({ description: 'How long an answer may take, at most 30s.' }),
  subjectAccessReviewVersion: z.enum(['v1', 'v1beta1']).meta({ description: 'Version of the question: v1.' }),
  matchConditionSubjectAccessReviewVersion: z
    .literal('v1')
    .optional()
    .meta({ description: 'Version that matchConditions see; needed with these.' }),
  failurePolicy: z
    .enum(['NoOpinion', 'Deny'])
    .meta({ description: 'What counts where the webhook does not answer.' }),
  connectionInfo: z
    .discriminatedUnion(
      'type',
      [
        z.strictObject({
          type: z.literal('KubeConfig').meta({ description: 'By a kubeconfig.' }),
          kubeConfig: webhookKubeconfig.meta({ description: 'How the webhook is reached.' }),
        }),
        z.strictObject({
          type: z
            .literal('InClusterConfig')
            .meta({ description: 'By the Service account of the API server.' }),
        }),
      ],
      {
        error: ({ input }) =>
          (input as { type?: unknown } | undefined)?.type === 'KubeConfigFile'
            ? 'write type: KubeConfig, and the kubeconfig itself as kubeConfig: Muster makes the file'
            : undefined,
      },
    )
    .meta({
      description:
        'How the webhook is reached: {type: KubeConfig, kubeConfig: …}, with the kubeconfig itself, or {type: InClusterConfig}.',
    }),
  matchConditions: z
    .array(z.strictObject({ expression: text('CEL expression about the request.') }))
    .max(64)
    .optional()
    .meta({ description: 'The requests for which the webhook is asked.' }),
});

const authorizer = z
  .strictObject({
    type: z
      .enum(['Node', 'RBAC', 'Webhook'], {
        error: 'Node, RBAC or Webhook; a file does not take others, and AlwaysAllow would open the cluster',
      })
      .meta({ description: 'Node and RBAC, which the cluster itself needs, or Webhook.' }),
    name: z
      .string()
      .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, 'lower-case letters, digits and dashes')
      .max(63)
      .meta({ description: 'Name of the authorizer, for metrics.' }),
    webhook: webhook.optional().meta({ description: 'The webhook, of type Webhook.' }),
  })
  .superRefine((of, context) => {
    if ((of.type === 'Webhook') !== (of.webhook !== undefined))
      context.addIssue({
        code: 'custom',
        path: ['webhook'],
        message: 'type Webhook needs it, and other types have none',
      });
    const conditions = of.webhook?.matchConditions ?? [];
    if (conditions.length > 0 && of.webhook?.matchConditionSubjectAccessReviewVersion === undefined)
      context.addIssue({
        code: 'custom',
        path: ['webhook', 'matchConditionSubjectAccessReviewVersion'],
        message: 'matchConditions need matchConditionSubjectAccessReviewVersion: v1',
      });
  });

/** Who may do what. */
export const authorizationSpec = z.strictObject({
  apiVersion,
  kind: z.literal('AuthorizationConfiguration').meta({ description: 'Always AuthorizationConfiguration.' }),
  authorizers: z
    .array(authorizer)
    .superRefine((all, context) => {
      for (const type of ['Node', 'RBAC'] as const)
        if (all.filter((one) => one.type === type).length !== 1)
          context.addIssue({
            code: 'custom',
            message: `one authorizer of type ${type} is needed: kubelets and Muster's objects rely on it`,
          });
      for (const [n, { name }] of all.entries())
        if (all.findIndex((one) => one.name === name) !== n)
          context.addIssue({ code: 'custom', path: [n, 'name'], message: 'this name is listed twice' });
    })
    .meta({ description: 'Authorizers, asked in this order until one decides.' }),
});
