/**
 * The documents of `spec.kubernetes.apiServer`: which files they become, and which flags of
 * kube-apiserver name them.
 */
import type { Plain } from '../../base/yaml-text.ts';
import { APISERVER_DIRECTORY } from '../../pki/hierarchy.ts';
import type { ApiServerSpec } from '../../resources/apiserver-spec.ts';
import type { WebhookKubeconfig } from '../../resources/kubeconfig-spec.ts';
import { kubeconfigPath, secretPath, webhooksOf } from '../../resources/webhook-secrets.ts';
import { type ClusterFault, clusterError, clusterFault } from '../model/fault.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';

export const ADMISSION_CONFIG = `${APISERVER_DIRECTORY}/admission.yaml`;
const AUTHENTICATION = `${APISERVER_DIRECTORY}/authentication.yaml`;
const AUTHORIZATION = `${APISERVER_DIRECTORY}/authorization.yaml`;
const OIDC_CA = `${APISERVER_DIRECTORY}/oidc-ca.pem`;

/** The file that each document becomes, and the flag that names it. */
const FILES = {
  auditWebhook: { flag: 'audit-webhook-config-file', path: kubeconfigPath('audit') },
  authentication: { flag: 'authentication-config', path: AUTHENTICATION },
  tokenWebhook: { flag: 'authentication-token-webhook-config-file', path: kubeconfigPath('token') },
  authorization: { flag: 'authorization-config', path: AUTHORIZATION },
  oidcCA: { flag: 'oidc-ca-file', path: OIDC_CA },
} as const satisfies Partial<Record<keyof ApiServerSpec, { readonly flag: string; readonly path: string }>>;

/**
 * The files that kube-apiserver reads only when it starts. It reads the others again by itself
 * (authentication and authorization within a minute, tokens and keys of webhooks too).
 */
export const POLICIES_READ_AT_START: readonly string[] = [
  FILES.auditWebhook.path,
  FILES.tokenWebhook.path,
  OIDC_CA,
];

type Documents = keyof typeof FILES;

const given = (spec: ApiServerSpec): readonly Documents[] =>
  (Object.keys(FILES) as Documents[]).filter((name) => spec[name] !== undefined);

/** The flags that name the files, each with its document. */
export const policyFlags = (
  spec: ApiServerSpec = {},
): Readonly<Record<string, { readonly value: string; readonly by: string }>> =>
  Object.fromEntries(
    given(spec).map((name) => [FILES[name].flag, { value: FILES[name].path, by: `apiServer.${name}` }]),
  );

/** A file of these documents. */
interface PolicyFile {
  readonly path: string;
  /** A document, or the text itself. */
  readonly content: Plain | { readonly text: string };
}

/** A kubeconfig as its reader wants it: with the paths of its secrets. */
function kubeconfig(path: string, config: WebhookKubeconfig): Plain {
  const users = config.users?.map(({ name, user }, n) => {
    const { token, 'client-key-data': key, ...rest } = user;
    return {
      name,
      user: {
        ...rest,
        ...(token && { tokenFile: secretPath(path, n, 'token') }),
        ...(key && { 'client-key': secretPath(path, n, 'key') }),
      },
    };
  });
  return { ...config, ...(users && { users }) } as Plain;
}

/** An AuthorizationConfiguration with the paths of its kubeconfigs. */
const authorization = (document: NonNullable<ApiServerSpec['authorization']>): Plain =>
  ({
    ...document,
    authorizers: document.authorizers.map(({ webhook, ...rest }) => ({
      ...rest,
      ...(webhook && {
        webhook: {
          ...webhook,
          connectionInfo:
            webhook.connectionInfo.type === 'KubeConfig'
              ? { type: 'KubeConfigFile', kubeConfigFile: kubeconfigPath(`authorizer-${rest.name}`) }
              : { type: 'InClusterConfig' },
        },
      }),
    })),
  }) as Plain;

/** The files of a control plane, except the audit policy. */
export const policyFiles = (spec: ApiServerSpec = {}): readonly PolicyFile[] => [
  ...(spec.authentication ? [{ path: AUTHENTICATION, content: spec.authentication as Plain }] : []),
  ...(spec.authorization ? [{ path: AUTHORIZATION, content: authorization(spec.authorization) }] : []),
  ...(spec.oidcCA ? [{ path: OIDC_CA, content: { text: `${spec.oidcCA.trim()}\n` } }] : []),
  ...webhooksOf(spec).map(({ path, config }) => ({ path, content: kubeconfig(path, config) })),
];

/** Flags that an API server refuses together with a document, and ends. */
const EXCLUDED: readonly {
  readonly document: 'authentication' | 'authorization';
  readonly flags: RegExp;
  readonly when?: (spec: ApiServerSpec) => boolean;
  readonly why: string;
}[] = [
  {
    document: 'authentication',
    flags: /^oidc-/,
    why: 'write the issuer into apiServer.authentication.jwt',
  },
  {
    document: 'authentication',
    flags: /^anonymous-auth$/,
    when: ({ authentication }) => authentication?.anonymous !== undefined,
    why: 'apiServer.authentication.anonymous says it already',
  },
  {
    document: 'authorization',
    flags: /^authorization-(mode|policy-file|webhook-)/,
    why: 'write the authorizer into apiServer.authorization.authorizers',
  },
];

/** A path as messages have it: `authorizers[0].webhook`. */
const pathOf = (at: readonly (string | number)[]): string =>
  at
    .map((step) => (typeof step === 'number' ? `[${step}]` : `.${step}`))
    .join('')
    .slice(1);

/** Faults of the documents together with flags. */
export function documentFaults({ apiServer = {}, flags }: ResolvedCluster): readonly ClusterFault[] {
  const own = flags['kube-apiserver'];
  const path = (flag: string): string => `overrides.flags.kube-apiserver.${flag}`;
  const excluded = EXCLUDED.filter(
    ({ document, when }) => apiServer[document] !== undefined && (when?.(apiServer) ?? true),
  ).flatMap(({ document, flags: names, why }) =>
    Object.keys(own)
      .filter((flag) => names.test(flag))
      .map((flag) =>
        clusterError(path(flag), `an API server ends with this flag and apiServer.${document}; ${why}`),
      ),
  );
  const moved = given(apiServer).flatMap((name) =>
    own[FILES[name].flag] === FILES[name].path
      ? []
      : [clusterError(path(FILES[name].flag), `it follows from apiServer.${name}; remove one of the two`)],
  );
  const issuer = [own['service-account-issuer'] ?? []].flat();
  const same = (apiServer.authentication?.jwt ?? []).flatMap(({ issuer: { url } }, n) =>
    issuer.includes(url)
      ? [
          clusterError(
            `apiServer.authentication.jwt[${n}].issuer.url`,
            'this is the issuer of the cluster’s own service accounts; an API server ends with it',
          ),
        ]
      : [],
  );
  const oidc =
    apiServer.oidcCA !== undefined && own['oidc-issuer-url'] === undefined
      ? [
          clusterError(
            'apiServer.oidcCA',
            'it has no effect without the flag oidc-issuer-url; in apiServer.authentication each issuer has its certificateAuthority',
          ),
        ]
      : [];
  const open = webhooksOf(apiServer).flatMap(({ at, config }) =>
    config.clusters.flatMap(({ cluster: { server } }, n) =>
      server.startsWith('http://')
        ? [
            clusterFault(
              'warning',
              pathOf(['apiServer', ...at, 'clusters', n, 'cluster', 'server']),
              'http:// shows what API servers send, tokens among it, to everybody on the way, and lets them answer; use https://',
            ),
          ]
        : [],
    ),
  );
  return [...excluded, ...moved, ...same, ...oidc, ...open];
}
