/**
 * Copies of the keys that operators take away from the boot host, and which of the keys that are
 * here have been copied.
 */
import { z } from 'zod';
import type { Clock } from '../base/clock.ts';
import { type Fault, MusterError } from '../base/errors.ts';
import { parsed } from '../base/foreign-json.ts';
import { BMC_SCOPE, KEYS, MUSTER_SCOPE } from '../store/keys.ts';
import type { Store } from '../store/store.ts';
import type { EncryptionKeyset } from './encryption.ts';
import { type Aged, allGenerations, type Keyset } from './keyset.ts';
import type { Pki } from './pki.ts';

type Keys = Pick<Pki, 'scopes' | 'keysets' | 'encryption' | 'dataKeys' | 'exported'>;

/** A keyset with its secrets in the clear. */
interface ExportedKeyset {
  readonly name: string;
  readonly primary: string;
  readonly distrusted: readonly string[];
  readonly generations: readonly {
    readonly id: string;
    readonly createdAt: number;
    /** PEM, or base64 for a key that encrypts Secrets. */
    readonly key: string;
    /** PEM; of CAs. */
    readonly certificate?: string;
  }[];
}

/** All keys of a cluster or of Muster itself, in the clear. */
export interface ExportedScope {
  readonly scope: string;
  readonly keysets: readonly ExportedKeyset[];
}

/** Which keys an operator has a copy of. */
export interface Copied {
  readonly scope: string;
  readonly generations: readonly string[];
}

/** Reads all keys of a scope, in the clear. */
export async function exportScope(pki: Keys, scope: string): Promise<ExportedScope> {
  const encryption = await pki.encryption(scope);
  const opened = [...(await pki.keysets(scope)).values()].map((keyset) => keyPairs(pki, scope, keyset));
  const keysets = await Promise.all(opened);
  const data = scope === MUSTER_SCOPE ? await dataKeysOf(pki) : [];
  return { scope, keysets: [...keysets, ...(encryption ? [symmetric(encryption)] : []), ...data] };
}

/** The keys of encrypted data filesystems, as one keyset with generations MACHINE/FILESYSTEM. */
async function dataKeysOf({ dataKeys }: Keys): Promise<readonly ExportedKeyset[]> {
  const generations = (await dataKeys.all()).map(({ machine, filesystem, since, key }) => ({
    id: `${machine}/${filesystem}`,
    createdAt: since,
    key: key.reveal(),
  }));
  return generations.length === 0 ? [] : [{ name: 'data-keys', primary: '', distrusted: [], generations }];
}

async function keyPairs(pki: Keys, scope: string, keyset: Keyset): Promise<ExportedKeyset> {
  const generations = allGenerations(keyset).map(async (one) => ({
    id: one.id,
    createdAt: one.createdAt,
    key: (await pki.exported(scope, keyset.name, one)).reveal(),
    ...(one.certificate !== undefined && { certificate: one.certificate }),
  }));
  return {
    name: keyset.name,
    primary: keyset.primary,
    distrusted: keyset.distrusted.map(({ id }) => id),
    generations: await Promise.all(generations),
  };
}

const symmetric = (keyset: EncryptionKeyset): ExportedKeyset => ({
  name: keyset.name,
  primary: keyset.primary,
  distrusted: keyset.distrusted.map(({ id }) => id),
  generations: allGenerations(keyset).map(({ id, createdAt, key }) => ({
    id,
    createdAt,
    key: key.reveal(),
  })),
});

/** What scopes have that are no clusters. */
const OF_MUSTER: Readonly<Record<string, string | undefined>> = {
  [MUSTER_SCOPE]: 'the keys of Muster itself',
  [BMC_SCOPE]: 'the CA of BMCs',
};

/** The ids of all generations that are here; no key is brought into the clear for that. */
async function generationsHere(pki: Keys, scope: string): Promise<readonly string[]> {
  const encryption = await pki.encryption(scope);
  const keysets = [...(await pki.keysets(scope)).values(), ...(encryption ? [encryption] : [])];
  const ids = keysets.flatMap((keyset) => allGenerations<Aged>(keyset).map(({ id }) => id));
  return scope === MUSTER_SCOPE ? [...ids, ...(await pki.dataKeys.ids())] : ids;
}

/** The ids of all generations in an export. */
export const generationsOf = ({ keysets }: Pick<ExportedScope, 'keysets'>): readonly string[] =>
  keysets.flatMap(({ generations }) => generations.map(({ id }) => id));

const record = z.object({ v: z.literal(1), at: z.int(), generations: z.array(z.string()) });

export interface Exports {
  /** Notes that an operator has a copy of these keys. */
  copied(copies: readonly Copied[]): Promise<void>;
  /** A warning for each scope that has a key of which there is no copy. */
  warnings(): Promise<readonly Fault[]>;
}

/**
 * Opens the notes about copies. They are read from the store when a method is called.
 *
 * @throws {MusterError} E_NO_KEYS (`copied`) for a scope that has no keys
 */
export function openExports({
  store,
  pki,
  clock,
}: {
  readonly store: Store;
  readonly pki: Keys;
  readonly clock: Clock;
}): Exports {
  const known = async (scope: string): Promise<ReadonlySet<string>> => {
    const stored = await store.get(KEYS.exported.key(scope));
    const read = stored && record.safeParse(parsed(stored.value));
    return new Set(read?.success ? read.data.generations : []);
  };
  return {
    async copied(copies) {
      const scopes = new Set(await pki.scopes());
      for (const { scope } of copies)
        if (!scopes.has(scope)) throw new MusterError('E_NO_KEYS', `${scope} has no keys`);
      await store.commit(
        copies.map(({ scope, generations }) => ({
          key: KEYS.exported.key(scope),
          put: JSON.stringify({ v: 1, at: clock.now(), generations }),
        })),
      );
    },
    async warnings() {
      const missing = await Promise.all(
        (await pki.scopes()).map(async (scope) => {
          const there = await known(scope);
          const ids = await generationsHere(pki, scope);
          return ids.every((id) => there.has(id)) ? [] : [scope];
        }),
      );
      return missing.flat().map((scope) => ({
        code: 'E_NOT_EXPORTED',
        message: `only this host has ${OF_MUSTER[scope] ?? `all keys of cluster ${scope}`}; make a copy with \`muster pki export --all -o FILE\``,
      }));
    },
  };
}
