/**
 * The vault as the server uses it: asynchronous operations, because the key is in another process,
 * muster-signer, or behind the same table of requests in this one (signer/requests.ts).
 */
import type { Millis } from '../base/duration.ts';
import { Secret } from '../base/secret.ts';
import type { LeafOrder } from './issue.ts';
import { type KeyAlgorithm, PublicKey } from './keys.ts';
import type { Generation, OpenGeneration } from './keyset.ts';
import { type AuthorityName, isAuthority, type KeysetName } from './keysets.ts';
import { type Envelope, newVaultKey, type Sealer, sealerFrom } from './sealer.ts';
import type { Ask, MadeGeneration } from './signer/requests.ts';
import { openService } from './signer/service.ts';
import type { BackupSignature } from './signer/signing-key.ts';
import { IN_PROCESS } from './signer/site.ts';
import type { IssuedPem } from './x509.ts';

/** Where a keyset is: a cluster's name or Muster's own scope, and the keyset. */
interface Place {
  readonly scope: string;
  readonly keyset: KeysetName;
}

interface Making extends Place {
  readonly now: Millis;
  readonly lifetime?: Millis | undefined;
  /** Trusted generations, each of which signs a bridge to the new one if it has room. */
  readonly bridgesFrom: readonly Generation[];
}

export interface Vault {
  /** The ids of the key that seals, and of all that open. */
  keys(): Promise<{ readonly primary: string; readonly ids: readonly string[] }>;
  /** Seals a text. `record` is the name of the store's record; opening needs the same name. */
  seal(record: string, text: string): Promise<Envelope>;
  /**
   * Returns the sealed text.
   *
   * @throws {MusterError} E_VAULT_KEY when it was sealed with a key that this vault does not have,
   *   E_VAULT_RECORD when the envelope was changed or belongs to another record; E_SIGNER_REFUSED
   */
  open(record: string, envelope: unknown): Promise<string>;
  /** The text sealed with the first key, or the same envelope. Throws as {@link open}. */
  rewrap(record: string, envelope: Envelope): Promise<Envelope>;
  /** Makes a key of a keyset; a CA gets its certificate and bridges. */
  make(order: Making & { readonly algorithm?: KeyAlgorithm | undefined }): Promise<Generation>;
  /**
   * Takes a key that was made elsewhere.
   *
   * @throws {MusterError} E_SIGNER_REFUSED when nobody at the host allowed it
   */
  take(order: Making & { readonly taken: OpenGeneration }): Promise<Generation>;
  /** The generation with another certificate of the same key, which begins `now`. */
  certify(order: Place & { readonly now: Millis; readonly generation: Generation }): Promise<Generation>;
  /**
   * Signs a certificate.
   *
   * @throws {MusterError} E_SIGNER_REFUSED when the holder is not in the inventory, has not the
   *   role for it, or had many lately
   */
  issue(order: IssueRequest): Promise<IssuedPem>;
  /**
   * The private key of a keyset for a control plane, PEM.
   *
   * @throws {MusterError} E_SIGNER_REFUSED for another machine, another keyset, or too often
   */
  handOut(order: Place & { readonly machine: string; readonly generation: Generation }): Promise<Secret>;
  /**
   * Any private key, PEM.
   *
   * @throws {MusterError} E_SIGNER_REFUSED when nobody at the host allowed it
   */
  export(order: Place & { readonly generation: Generation }): Promise<Secret>;
  /** Signs the hash of a backup's archive, in hexadecimal. */
  signBackup(sha256: string): Promise<BackupSignature>;
}

export type { Envelope };
export { newVaultKey };

interface IssueRequest extends LeafOrder {
  readonly scope: string;
  /** The one that signs. */
  readonly generation: Generation;
}

const keyOf = ({ id, sealed }: Generation) => ({ id, sealed });
const authorityOf = ({ id, sealed, certificate = '' }: Generation) => ({ id, sealed, certificate });

/** A vault whose operations ask. */
export function vaultOver(ask: Ask): Vault {
  const making = ({ scope, keyset, now, lifetime, bridgesFrom }: Making) => ({
    ...{ scope, keyset, now, lifetime },
    bridgesFrom: isAuthority(keyset) ? bridgesFrom.map(authorityOf) : [],
  });
  const generationOf = (made: MadeGeneration, now: Millis): Generation => ({
    ...made,
    createdAt: now,
    publicKey: PublicKey.fromPem(made.publicKey),
  });
  return {
    keys: () => ask('keys', {}),
    seal: (record, text) => ask('seal', { record, text }),
    open: async (record, sealed) => (await ask('open', { record, sealed })).text,
    rewrap: (record, sealed) => ask('rewrap', { record, sealed }),
    make: async (order) =>
      generationOf(await ask('make', { ...making(order), algorithm: order.algorithm }), order.now),
    take: async ({ taken: { key, certificate }, ...order }) =>
      generationOf(await ask('take', { ...making(order), key: key.pem(), certificate }), order.now),
    async certify({ scope, keyset, now, generation }) {
      const asked = { scope, keyset: keyset as AuthorityName, now, generation: authorityOf(generation) };
      return { ...generation, createdAt: now, ...(await ask('certify', asked)) };
    },
    issue: ({ generation, publicKey, holder, cluster, ...order }) =>
      ask('issue', {
        ...order,
        generation: authorityOf(generation),
        publicKey: publicKey.spki.toString('base64'),
        holder: {
          name: holder.name,
          addresses: [...holder.addresses],
          ...(holder.dns && { dns: [...holder.dns] }),
        },
        cluster: {
          name: cluster.name,
          dnsDomain: cluster.dnsDomain,
          serviceAddresses: [...cluster.serviceAddresses],
          endpointNames: { dns: [...cluster.endpointNames.dns], ips: [...cluster.endpointNames.ips] },
        },
      }),
    handOut: async ({ generation, ...order }) =>
      new Secret((await ask('handOut', { ...order, generation: keyOf(generation) })).text),
    export: async ({ generation, ...order }) =>
      new Secret((await ask('export', { ...order, generation: keyOf(generation) })).text),
    signBackup: (sha256) => ask('signBackup', { sha256 }),
  };
}

/** The envelope under the vault's first key; undefined when that sealed it already. */
export async function rewrapped(
  vault: Pick<Vault, 'rewrap'>,
  record: string,
  sealed: Envelope,
): Promise<Envelope | undefined> {
  const again = await vault.rewrap(record, sealed);
  return again.ct === sealed.ct ? undefined : again;
}

/**
 * A vault in this process, from the text of its key file: see sealerFrom of sealer.ts.
 *
 * @throws {MusterError} E_VAULT_KEY when a line is not a vault key, or there is none
 */
export const vaultFrom = (text: string, source: string): Vault => vaultWith(sealerFrom(text, source));

/** A vault whose key is in this process. */
export const vaultWith = (sealer: Sealer): Vault =>
  vaultOver(openService({ sealer, site: IN_PROCESS, note: () => {} }) as Ask);
