/** Makes new generations of keysets, and leaves as the table in hierarchy.ts says. */
import type { Millis } from '../base/duration.ts';
import {
  AUTHORITIES,
  BACK_DATED,
  type ClusterNames,
  type Holder,
  type LeafName,
  leafOf,
  lifetimeOf,
  TRANSPORT_BEGINS,
} from './hierarchy.ts';
import { type KeyAlgorithm, PrivateKey, type PublicKey } from './keys.ts';
import { generationId, type OpenGeneration } from './keyset.ts';
import { type AuthorityName, isAuthority, type KeysetName } from './keysets.ts';
import { type CertificateFacts, type IssuedPem, readAuthority, type Signer, selfSign } from './x509.ts';

const beginning = (begins: 'back-dated' | 'transport', now: Millis): Millis =>
  begins === 'transport' ? TRANSPORT_BEGINS : ((now - BACK_DATED) as Millis);

export interface GenerationOptions {
  readonly now: Millis;
  readonly algorithm?: KeyAlgorithm;
  /** How long a CA is valid; as the table in hierarchy.ts says by default. */
  readonly lifetime?: Millis;
}

/** A new generation of a keyset; for a CA with its self-signed certificate. */
export async function newGeneration(name: KeysetName, options: GenerationOptions): Promise<OpenGeneration> {
  const key = await PrivateKey.generate(options.algorithm);
  const publicKey = key.publicKey();
  const generation = { id: generationId(publicKey), createdAt: options.now, publicKey, key };
  if (!isAuthority(name)) return generation;
  const { pem } = await selfSign(authorityFacts(name, publicKey, options), key);
  return { ...generation, certificate: pem };
}

/**
 * Why a CA cannot sign a bridge to another generation; undefined if it can. Programs in Go count
 * every CA below one, also those of the same name (crypto/x509, Certificate.isValid).
 */
export function noRoomForBridge(certificate: string, now: Millis): string | undefined {
  const { isCa, maySign, pathLength, notAfter } = readAuthority(certificate);
  if (!isCa || !maySign) return 'its certificate does not let it sign others';
  if (pathLength === 0) return 'its path length is 0: no CA may follow below it';
  return notAfter <= now ? 'it has ended' : undefined;
}

/** The generation with another certificate of the same key, which begins and ends by `options`. */
export async function certifiedAgain(
  name: AuthorityName,
  one: OpenGeneration,
  options: GenerationOptions,
): Promise<OpenGeneration> {
  const { pem } = await selfSign(authorityFacts(name, one.publicKey, options), one.key);
  return { ...one, createdAt: options.now, certificate: pem };
}

function authorityFacts(
  name: AuthorityName,
  publicKey: PublicKey,
  { now, lifetime = AUTHORITIES[name].lifetime }: GenerationOptions,
): CertificateFacts {
  const authority = AUTHORITIES[name];
  return {
    subject: { commonName: authority.commonName },
    sans: { dns: authority.pathLength === undefined ? [authority.commonName] : [], ips: [] },
    publicKey,
    purposes: [],
    ca: true,
    ...(authority.pathLength !== undefined && { pathLength: authority.pathLength }),
    notBefore: beginning(authority.begins, now),
    notAfter: (now + lifetime) as Millis,
  };
}

/** What a leaf's certificate is made of. */
export interface LeafOrder {
  readonly leaf: LeafName;
  readonly holder: Holder;
  readonly cluster: ClusterNames;
  /** From the machine's CSR, or of a key made here. The request decides nothing else. */
  readonly publicKey: PublicKey;
  readonly now: Millis;
  /** See lifetimeOf of hierarchy.ts. */
  readonly lifetime?: Millis | undefined;
}

/** The contents of an order's certificate; pure. */
function leafFacts({ leaf, holder, cluster, publicKey, now, lifetime }: LeafOrder): CertificateFacts {
  const row = leafOf(leaf);
  return {
    subject: row.subject(holder),
    sans: row.sans(holder, cluster),
    publicKey,
    purposes: row.purposes,
    ca: false,
    notBefore: beginning(row.begins, now),
    notAfter: (now + lifetimeOf(leaf, lifetime)) as Millis,
  };
}

/** Signs an order; `signer` is the primary generation of the leaf's parent. */
export const issueLeaf = (signer: Signer, order: LeafOrder): Promise<IssuedPem> =>
  signer.issue(leafFacts(order));
