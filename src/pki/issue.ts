/** Makes new generations of keysets, and leaves as the table in hierarchy.ts says. */
import type { Millis } from '../base/duration.ts';
import {
  AUTHORITIES,
  type AuthorityName,
  BACK_DATED,
  type ClusterNames,
  type Holder,
  type KeysetName,
  type LeafName,
  leafOf,
  TRANSPORT_BEGINS,
} from './hierarchy.ts';
import { type KeyAlgorithm, PrivateKey, type PublicKey } from './keys.ts';
import { type Generation, generationId } from './keyset.ts';
import { type CertificateFacts, type IssuedPem, type Signer, selfSign } from './x509.ts';

const beginning = (begins: 'back-dated' | 'transport', now: Millis): Millis =>
  begins === 'transport' ? TRANSPORT_BEGINS : ((now - BACK_DATED) as Millis);

/** A new generation of a keyset; for a CA with its self-signed certificate. */
export async function newGeneration(
  name: KeysetName,
  options: { readonly now: Millis; readonly algorithm?: KeyAlgorithm },
): Promise<Generation> {
  const key = await PrivateKey.generate(options.algorithm);
  const publicKey = key.publicKey();
  const generation = { id: generationId(publicKey), createdAt: options.now, publicKey, key };
  if (name === 'sa') return generation;
  const { pem } = await selfSign(authorityFacts(name, publicKey, options.now), key);
  return { ...generation, certificate: pem };
}

function authorityFacts(name: AuthorityName, publicKey: PublicKey, now: Millis): CertificateFacts {
  const authority = AUTHORITIES[name];
  return {
    subject: { commonName: authority.commonName },
    sans: { dns: authority.pathLength === undefined ? [authority.commonName] : [], ips: [] },
    publicKey,
    purposes: [],
    ca: true,
    ...(authority.pathLength !== undefined && { pathLength: authority.pathLength }),
    notBefore: beginning(authority.begins, now),
    notAfter: (now + authority.lifetime) as Millis,
  };
}

interface LeafOrder {
  readonly leaf: LeafName;
  readonly holder: Holder;
  readonly cluster: ClusterNames;
  /** From the machine's CSR, or of a key made here. The request decides nothing else. */
  readonly publicKey: PublicKey;
  readonly now: Millis;
}

/** The contents of an order's certificate; pure. */
function leafFacts({ leaf, holder, cluster, publicKey, now }: LeafOrder): CertificateFacts {
  const row = leafOf(leaf);
  return {
    subject: row.subject(holder),
    sans: row.sans(holder, cluster),
    publicKey,
    purposes: row.purposes,
    ca: false,
    notBefore: beginning(row.begins, now),
    notAfter: (now + row.lifetime) as Millis,
  };
}

/** Signs an order; `signer` is the primary generation of the leaf's parent. */
export const issueLeaf = (signer: Signer, order: LeafOrder): Promise<IssuedPem> =>
  signer.issue(leafFacts(order));
