/** Where the secrets of webhooks' kubeconfigs are, in a Cluster and on its control planes. */
import type { ApiServerSpec } from './apiserver-spec.ts';
import type { WebhookKubeconfig } from './kubeconfig-spec.ts';
import type { SecretReference } from './secret-spec.ts';

/** The directory of the webhooks' kubeconfigs; kube-apiserver's pod sees it. */
const DIRECTORY = '/etc/kubernetes/apiserver/webhooks';

/** A webhook of an API server. */
interface Webhook {
  /** Path of its kubeconfig on control planes. */
  readonly path: string;
  readonly config: WebhookKubeconfig;
  /** Where the kubeconfig is in the Cluster, from `apiServer` on. */
  readonly at: readonly (string | number)[];
}

/** The path of the kubeconfig of the webhook with this name. */
export const kubeconfigPath = (name: string): string => `${DIRECTORY}/${name}.conf`;

/** All webhooks. */
export function webhooksOf(spec: ApiServerSpec | undefined): readonly Webhook[] {
  const { auditWebhook, tokenWebhook, authorization } = spec ?? {};
  return [
    ...(auditWebhook ? [{ path: kubeconfigPath('audit'), config: auditWebhook, at: ['auditWebhook'] }] : []),
    ...(tokenWebhook ? [{ path: kubeconfigPath('token'), config: tokenWebhook, at: ['tokenWebhook'] }] : []),
    ...(authorization?.authorizers ?? []).flatMap(({ name, webhook }, n) =>
      webhook?.connectionInfo.type === 'KubeConfig'
        ? [
            {
              path: kubeconfigPath(`authorizer-${name}`),
              config: webhook.connectionInfo.kubeConfig,
              at: ['authorization', 'authorizers', n, 'webhook', 'connectionInfo', 'kubeConfig'],
            },
          ]
        : [],
    ),
  ];
}

/** A value of a Secret that control planes get as a file. */
export interface WebhookSecret {
  readonly path: string;
  readonly from: SecretReference['valueFrom'];
  readonly at: readonly (string | number)[];
}

/** The files of secrets beside a webhook's kubeconfig. */
export const secretPath = (path: string, user: number, what: 'token' | 'key'): string =>
  path.replace(/\.conf$/, `-${user}.${what}`);

/** All secrets of webhooks. */
export const webhookSecrets = (spec: ApiServerSpec | undefined): readonly WebhookSecret[] =>
  webhooksOf(spec).flatMap(({ path, config, at }) =>
    (config.users ?? []).flatMap(({ user }, n) =>
      (['token', 'client-key-data'] as const).flatMap((field) => {
        const from = user[field]?.valueFrom;
        const what = field === 'token' ? 'token' : 'key';
        return from === undefined
          ? []
          : [{ path: secretPath(path, n, what), from, at: [...at, 'users', n, 'user', field] }];
      }),
    ),
  );
