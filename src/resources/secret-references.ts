/** Which Secrets a document refers to. */
import type { Document } from './kinds.ts';
import { referenceIn } from './secret-spec.ts';
import { webhookSecrets } from './webhook-secrets.ts';
import type { Path } from './yaml.ts';

/** What a machine does with the value. */
export type SecretUse = 'file' | 'password';

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

/** All references of a document, in their order. A document is searched once. */
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
  const found: SecretUsed[] = [];
  if ('kubernetes' in spec)
    for (const { from, at } of webhookSecrets(spec.kubernetes?.apiServer))
      found.push({ ...from, use: 'file', path: ['spec', 'kubernetes', 'apiServer', ...at] });
  const { users = [], files = [] } = ('config' in spec ? spec.config : undefined) ?? {};
  for (const [n, { passwordHash }] of users.entries()) {
    const named = referenceIn(passwordHash);
    if (named)
      found.push({ ...named, use: 'password', path: ['spec', 'config', 'users', n, 'passwordHash'] });
  }
  for (const [n, { content }] of files.entries()) {
    const named = referenceIn(content);
    if (named) found.push({ ...named, use: 'file', path: ['spec', 'config', 'files', n, 'content'] });
  }
  return found.length === 0 ? NONE : found;
}
