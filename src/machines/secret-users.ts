/**
 * Which documents refer to Secrets: one index for the whole daemon, which follows the documents. A
 * machine with such a document needs an agent, because values of Secrets are in no configuration.
 */
import type { DocumentId } from '../resources/candidate.ts';
import type { Catalog, CatalogChange } from '../resources/catalog.ts';
import type { Kind } from '../resources/kinds.ts';
import { hostSecretsOf, type SecretUsed, secretsOf } from '../resources/secret-references.ts';
import type { Memberships } from './membership.ts';

/** A reference with the document that holds it. */
export interface SecretUser extends SecretUsed {
  readonly document: DocumentId;
}

export interface SecretUsers {
  /** How many documents give machines values of Secrets. */
  readonly size: number;
  /**
   * Whether a machine's documents may refer to a Secret. It is also true where a Profile with a
   * selector does that and may select the machine. Constant time.
   */
  mayUse(machine: string): boolean;
  /** Names of the Secrets to which documents refer. */
  names(): ReadonlySet<string>;
  /** All references to a Secret, by document. */
  of(secret: string): readonly SecretUser[];
  /**
   * Calls `listener` after a document began or ceased to refer to Secrets. Returns a function that
   * unsubscribes it.
   */
  subscribe(listener: () => void): () => void;
  close(): void;
}

/** The kinds of which machines get values of Secrets. */
const KINDS = ['Cluster', 'Profile', 'Machine'] as const satisfies readonly Kind[];

/** Returns whether the document began or ceased to refer to Secrets. */
function put(
  index: Map<DocumentId, readonly SecretUser[]>,
  id: DocumentId,
  found: readonly SecretUser[],
): boolean {
  if (found.length === 0) return index.delete(id);
  const before = index.has(id);
  index.set(id, found);
  return !before;
}

/** Opens the index. */
export function followSecretUsers(
  catalog: Catalog,
  memberships: Pick<Memberships, 'clusterOf'>,
): SecretUsers {
  const listeners = new Set<() => void>();
  const users = new Map<DocumentId, readonly SecretUser[]>();
  /** Webhooks, hooks of Clusters, keys of name servers, BMCs: the boot host uses these itself. */
  const own = new Map<DocumentId, readonly SecretUser[]>();
  /** Names of the Profiles among them that have a selector. */
  const selecting = new Set<string>();
  const note = ({ kind, name, entry }: CatalogChange): boolean => {
    const document = entry?.document;
    const id: DocumentId = `${kind}/${name}`;
    const found = [...secretsOf(document), ...hostSecretsOf(document)].map((used) => ({
      ...used,
      document: id,
    }));
    const isOwn = ({ use }: SecretUsed): boolean => use === 'signature' || use === 'bmc';
    const changed = [
      put(
        users,
        id,
        found.filter((used) => !isOwn(used)),
      ),
      put(own, id, found.filter(isOwn)),
    ];
    if (kind !== 'Profile') return changed.includes(true);
    const selects = (document?.spec as { selector?: object } | undefined)?.selector !== undefined;
    if (selects && users.has(id)) selecting.add(name);
    else selecting.delete(name);
    return changed.includes(true);
  };
  const all = (): readonly SecretUser[] => [...users.values(), ...own.values()].flat();
  for (const kind of [...KINDS, 'Network', 'Webhook'] as const)
    for (const entry of catalog.list(kind)) note({ kind, name: entry.document.metadata.name, entry });
  const unsubscribe = catalog.subscribe((changes) => {
    if (changes.filter(note).length > 0) for (const listener of listeners) listener();
  });
  const uses = (kind: (typeof KINDS)[number], name: string | undefined): boolean =>
    name !== undefined && users.has(`${kind}/${name}`);
  return {
    get size() {
      return users.size;
    },
    mayUse(machine) {
      if (users.size === 0) return false;
      const spec = catalog.get('Machine', machine)?.document.spec;
      if (spec === undefined) return false;
      return (
        uses('Machine', machine) ||
        uses('Cluster', memberships.clusterOf(machine)) ||
        (spec.profile === undefined ? selecting.size > 0 : uses('Profile', spec.profile))
      );
    },
    names: () => new Set(all().map(({ secret }) => secret)),
    of: (secret) => all().filter((used) => used.secret === secret),
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close() {
      unsubscribe();
      listeners.clear();
    },
  };
}
