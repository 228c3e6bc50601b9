/**
 * A kubeconfig that a document contains, by which an API server reaches a webhook. Its secrets are
 * in Secrets; Muster writes them to files beside it.
 */
import { z } from 'zod';
import { urlOf } from './fields.ts';
import { secretReference } from './secret-spec.ts';

const base64 = z
  .string()
  .regex(/^[A-Za-z0-9+/\s]+={0,2}\s*$/, 'not base64; encode the PEM file with `base64 -w0`');
const text = (description: string) => z.string().min(1).meta({ description });

const SECRET =
  'a secret is not written into a document: `muster secret put NAME KEY` keeps it, and {valueFrom: {secret: NAME, key: KEY}} names it here';
const fromSecret = (description: string) =>
  z
    .strictObject(secretReference.shape, {
      error: ({ code }) => (code === 'invalid_type' ? SECRET : undefined),
    })
    .optional()
    .meta({ description });

const cluster = z.strictObject({
  server: urlOf(/^https?:$/, 'not an https:// URL, nor an http:// one').meta({
    description:
      'URL of the webhook. With http:// what is sent, and what is answered, can be read and changed.',
  }),
  'certificate-authority-data': base64
    .optional()
    .meta({ description: 'CA of the webhook, PEM in base64. Default: the CAs of the host.' }),
  'tls-server-name': text('Name in the certificate of the webhook, if it is not that of the URL.').optional(),
  'proxy-url': text('Proxy through which the webhook is reached.').optional(),
});

const user = z.strictObject({
  token: fromSecret('The bearer token, in a Secret. A new value is used within a minute.'),
  'client-certificate-data': base64.optional().meta({ description: 'Client certificate, PEM in base64.' }),
  'client-key-data': fromSecret('Key of the client certificate, PEM, in a Secret.'),
});

/** A kubeconfig of one webhook. */
export const webhookKubeconfig = z
  .strictObject({
    apiVersion: z.literal('v1').meta({ description: 'Always v1.' }),
    kind: z.literal('Config').meta({ description: 'Always Config.' }),
    clusters: z
      .array(
        z.strictObject({
          name: text('Name of the cluster in this file.'),
          cluster: cluster.meta({ description: 'How the webhook is reached.' }),
        }),
      )
      .min(1)
      .meta({ description: 'The webhook.' }),
    users: z
      .array(
        z.strictObject({
          name: text('Name of the user in this file.'),
          user: user.meta({ description: 'The credential.' }),
        }),
      )
      .optional()
      .meta({ description: 'Credentials for the webhook.' }),
    contexts: z
      .array(
        z.strictObject({
          name: text('Name of the context.'),
          context: z
            .strictObject({
              cluster: text('Name of one of clusters.'),
              user: z.string().optional().meta({ description: 'Name of one of users; empty: none.' }),
              namespace: z
                .string()
                .optional()
                .meta({ description: 'A namespace, as kubectl writes it; an API server does not read it.' }),
            })
            .meta({ description: 'The cluster with the credential.' }),
        }),
      )
      .min(1)
      .meta({ description: 'Clusters with credentials.' }),
    preferences: z.strictObject({}).optional().meta({ description: 'Empty, as kubectl writes it.' }),
    'current-context': text('Name of the context that is used.'),
  })
  .superRefine((config, context) => {
    const say = (path: (string | number)[], message: string): void =>
      context.addIssue({ code: 'custom', path, message });
    const has = (list: readonly { readonly name: string }[], name: string): boolean =>
      list.some((one) => one.name === name);
    if (!has(config.contexts, config['current-context']))
      say(['current-context'], `contexts has no "${config['current-context']}"`);
    for (const [n, { context: of }] of config.contexts.entries()) {
      if (!has(config.clusters, of.cluster))
        say(['contexts', n, 'context', 'cluster'], `clusters has no "${of.cluster}"`);
      if (of.user !== undefined && of.user !== '' && !has(config.users ?? [], of.user))
        say(['contexts', n, 'context', 'user'], `users has no "${of.user}"`);
    }
    for (const [n, { user: of }] of (config.users ?? []).entries())
      if ((of['client-certificate-data'] === undefined) !== (of['client-key-data'] === undefined))
        say(['users', n, 'user'], 'a client certificate needs its key, and a key its certificate');
  });

export type WebhookKubeconfig = z.output<typeof webhookKubeconfig>;
