/** Which Secrets a document refers to. */
import type { Document, KubernetesSpec } from './kinds.ts';
import type { NodeConfig } from './nodeconfig.ts';
import type { RegistryLogin, RegistrySpec } from './registry-spec.ts';
import { referenceIn } from './secret-spec.ts';
import { webhookSecrets } from './webhook-secrets.ts';
import type { Path } from './yaml.ts';

/** What a machine, or for `signature` and `bmc` the boot host, does with the value. */
export type SecretUse = 'file' | 'password' | 'login' | 'signature' | 'bmc';

/** A reference in a document. */
export interface SecretUsed {
  readonly secret: string;
  readonly key: string;
  readonly use: SecretUse;
  /** The field that holds it. */
  readonly path: Path;
}

const NONE: readonly SecretUsed[] = [];
const memoUsed = new WeakMap<Document, readonly SecretUsed[]>();

/** The references whose values the boot host alone uses to reach machines: no agent gets them. */
export function hostSecretsOf(document: Document | undefined): readonly SecretUsed[] {
  const bmc = document !== undefined && 'bmc' in document.spec ? document.spec.bmc : undefined;
  const password = bmc?.credentials?.password.valueFrom;
  if (password === undefined) return NONE;
  return [{ ...password, use: 'bmc', path: ['spec', 'bmc', 'credentials', 'password'] }];
}

/** All other references of a document, in their order. A document is searched once. */
export function secretsOf(document: Document | undefined): readonly SecretUsed[] {
  if (document === undefined) return NONE;
  let used = memoUsed.get(document);
  if (used === undefined) {
    used = search(document);
    memoUsed.set(document, used);
  }
  return used;
}

function search({ spec }: Document): readonly SecretUsed[] {
  const kubernetes = 'kubernetes' in spec ? spec.kubernetes : undefined;
  const config = 'config' in spec ? spec.config : undefined;
  if ('secret' in spec) return [{ ...spec.secret.valueFrom, use: 'signature', path: ['spec', 'secret'] }];
  const names = 'names' in spec ? spec.names?.key?.valueFrom : undefined;
  const hooks = 'hooks' in spec ? spec.hooks : undefined;
  const found: SecretUsed[] = [
    ...(names ? [{ ...names, use: 'signature' as const, path: ['spec', 'names', 'key'] }] : []),
    ...(hooks ?? []).map(({ secret }, n) => ({
      ...secret.valueFrom,
      use: 'signature' as const,
      path: ['spec', 'hooks', n, 'secret'],
    })),
    ...inWebhooks(kubernetes),
    ...inRegistries(kubernetes?.registries ?? []),
    ...(config === undefined ? [] : inConfig(config)),
  ];
  return found.length === 0 ? NONE : found;
}

const inWebhooks = (kubernetes: KubernetesSpec | undefined): readonly SecretUsed[] =>
  webhookSecrets(kubernetes?.apiServer).map(({ from, at }) => ({
    ...from,
    use: 'file',
    path: ['spec', 'kubernetes', 'apiServer', ...at],
  }));

function inRegistries(registries: readonly RegistrySpec[]): readonly SecretUsed[] {
  const used = (login: RegistryLogin | undefined, ...at: Path): SecretUsed[] =>
    login === undefined
      ? []
      : [
          {
            ...login.password.valueFrom,
            use: 'login',
            path: ['spec', 'kubernetes', 'registries', ...at, 'login', 'password'],
          },
        ];
  return registries.flatMap(({ login, mirrors = [] }, n) => [
    ...used(login, n),
    ...mirrors.flatMap((mirror, k) => used(mirror.login, n, 'mirrors', k)),
  ]);
}

function inConfig({ users = [], files = [] }: NodeConfig): readonly SecretUsed[] {
  const found: SecretUsed[] = [];
  for (const [n, { passwordHash }] of users.entries()) {
    const named = referenceIn(passwordHash);
    if (named)
      found.push({ ...named, use: 'password', path: ['spec', 'config', 'users', n, 'passwordHash'] });
  }
  for (const [n, { content }] of files.entries()) {
    const named = referenceIn(content);
    if (named) found.push({ ...named, use: 'file', path: ['spec', 'config', 'files', n, 'content'] });
  }
  return found;
}
