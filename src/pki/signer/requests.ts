/**
 * Everything that a server may ask of the vault, as one table: what a request says, the rule under
 * which it is answered, what the signer's log says of it, and the answer. Nothing else reaches the
 * vault's key, in the signer's process and in a server that has the key itself.
 */
import { X509Certificate } from 'node:crypto';
import { z } from 'zod';
import { setBounded } from '../../base/aged.ts';
import { duration, type Millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { KEYS } from '../../store/keys.ts';
import { AUTHORITIES, isOfMachines, LEAF_NAMES, type LeafName, leafOf, type Role } from '../hierarchy.ts';
import { certifiedAgain, issueLeaf, newGeneration, noRoomForBridge } from '../issue.ts';
import { KEY_ALGORITHMS, PrivateKey, PublicKey } from '../keys.ts';
import { type Bridge, generationId, type OpenGeneration } from '../keyset.ts';
import {
  AUTHORITY_NAMES,
  type AuthorityName,
  isAuthority,
  KEYSET_NAMES,
  type KeysetName,
} from '../keysets.ts';
import { type Envelope, envelopeSchema, type Sealer } from '../sealer.ts';
import { type Signer, signer } from '../x509.ts';
import { signedBackup, signingKey } from './signing-key.ts';
import { PROOFS, type Proof, type Site } from './site.ts';

/** The server's clock may differ from the signer's by this much. */
const MOST_APART = duration('10m');
/** Opened keys and CAs that are kept: opening one costs as much as a signature. */
const KEPT = 500;
/** A record's name, as the store has it. */
const record = z.string().min(1).max(1000);
const millis = z.int().transform((value) => value as Millis);
/** A cluster's name, or Muster's own scope: no slash, so that no two places have one name. */
const scope = z.string().regex(/^[a-z0-9_][a-z0-9_.-]{0,252}$/);
const machine = z.string().min(1).max(253);
const sealedKey = z.strictObject({ id: z.string().regex(/^[0-9a-f]{16}$/), sealed: envelopeSchema });
const sealedAuthority = sealedKey.extend({ certificate: z.string().max(64 * 1024) });
/** Ten years are the most that a document can ask for, and what a CA lives. */
const lifetime = z
  .int()
  .max(duration('3650d'))
  .transform((value) => value as Millis)
  .optional();
const place = { scope, keyset: z.enum(KEYSET_NAMES) };
const made = {
  ...place,
  now: millis,
  lifetime,
  /** Trusted generations, each of which signs a bridge to the new one. */
  bridgesFrom: z.array(sealedAuthority).max(50),
};

/** A generation as a request's answer has it. */
export interface MadeGeneration {
  readonly id: string;
  /** PEM. */
  readonly publicKey: string;
  readonly certificate?: string;
  readonly bridges?: readonly Bridge[];
  readonly sealed: Envelope;
}

interface Row<S extends z.ZodType, A> {
  readonly body: S;
  /** For people, and the table in docs/security.md. */
  readonly summary: string;
  /** Why it is refused, or undefined. */
  readonly rule: (body: z.output<S>, site: Site) => string | undefined;
  /** The subject and fields of its entry in the signer's log; nothing secret. */
  readonly says: (body: z.output<S>) => readonly [string, Readonly<Record<string, string>>?];
  readonly answer: (body: z.output<S>, keys: OpenKeys) => A | Promise<A>;
}
const row = <S extends z.ZodType, A>(of: Row<S, A>): Row<S, A> => of;

const keysetName = (scope: string, name: KeysetName): string => KEYS.keyset.key(scope, name);
const always = (): undefined => undefined;

const proved = (proof: Proof, site: Site): string | undefined =>
  site.proved(proof)
    ? undefined
    : `nobody at the host has allowed within the last minutes that ${PROOFS[proof]}`;

const onTime = (now: Millis, site: Site): string | undefined =>
  site.apart(now) > MOST_APART
    ? `the server's clock differs from the signer's by more than 10 minutes`
    : undefined;

/** Why a machine does not get what is for machines with one of these roles. */
function forMachine(site: Site, name: string, roles: readonly Role[], cluster?: string): string | undefined {
  const has = site.roles(name, cluster);
  if (has === undefined)
    return `${name} is not a machine of the inventory${cluster === undefined ? '' : ` in cluster ${cluster}`}`;
  return roles.some((role) => has.includes(role))
    ? undefined
    : `${name} is not approved as ${roles.join(' or ')} of ${cluster ?? 'any cluster'}`;
}

function atRate(site: Site, who: string): string | undefined {
  const wait = site.take(who);
  return wait === undefined
    ? undefined
    : `${who} was asked for often lately; again in ${Math.ceil(wait / 60_000)} min`;
}

/** The cluster of a leaf; agents' certificates are in the scope of Muster's own keys. */
const clusterIn = (leaf: LeafName, scope: string): string | undefined =>
  leafOf(leaf).parent === 'transport-ca' ? undefined : scope;

/** Whether a name is that of a keyset's record, or of one of its keys. */
const isOfKeyset = (name: string): boolean =>
  [name, name.slice(0, Math.max(0, name.lastIndexOf('/')))].some((one) => KEYS.keyset.parse(one));

/** Why a value is not opened. Private keys of keysets never are: see `handOut` and `export`. */
function opensFor(name: string, site: Site): string | undefined {
  if (isOfKeyset(name)) return `${name} holds private keys of CAs, which are not given out by name`;
  const dataKey = KEYS.dataKey.parse(name);
  if (dataKey) return site.roles(dataKey[0]!) ? undefined : `${dataKey[0]} is not a machine of the inventory`;
  return undefined;
}

/** The requests. The order is that of the table in the documentation. */
export const REQUESTS = {
  keys: row({
    body: z.strictObject({}),
    summary: 'Says which keys the vault has, by their ids.',
    rule: always,
    says: () => ['vault'],
    answer: (_, { sealer }) => ({ primary: sealer.primary, ids: sealer.ids }),
  }),
  seal: row({
    body: z.strictObject({ record, text: z.string().max(1024 * 1024) }),
    summary: 'Seals a text for a record that holds no private key of a CA.',
    rule: ({ record }) =>
      isOfKeyset(record) ? `${record} would be a key of a CA that was made elsewhere` : undefined,
    says: ({ record }) => [record],
    answer: ({ record, text }, { sealer }) => sealer.seal(record, text),
  }),
  open: row({
    body: z.strictObject({ record, sealed: z.unknown() }),
    summary: 'Opens a value that the server needs: its own secrets, those of operators, keys of disks.',
    rule: ({ record }, site) => opensFor(record, site),
    says: ({ record }) => [record],
    answer: ({ record, sealed }, { sealer }) => ({ text: sealer.open(record, sealed) }),
  }),
  rewrap: row({
    body: z.strictObject({ record, sealed: envelopeSchema }),
    summary: "Seals what is sealed with the vault's first key.",
    rule: always,
    says: ({ record }) => [record],
    answer: ({ record, sealed }, { sealer }) => sealer.rewrap(record, sealed),
  }),
  make: row({
    body: z.strictObject({ ...made, algorithm: z.enum(KEY_ALGORITHMS).optional() }),
    summary: 'Makes a CA or another key of a keyset, which stays sealed, and bridges to it.',
    rule: ({ now }, site) => onTime(now, site),
    says: ({ scope, keyset }) => [`${scope}/${keyset}`],
    answer: async ({ scope, keyset, bridgesFrom, now, lifetime, algorithm }, keys) => {
      const options = { now, ...(algorithm && { algorithm }), ...(lifetime && { lifetime }) };
      return sealedGeneration(scope, keyset, await newGeneration(keyset, options), bridgesFrom, now, keys);
    },
  }),
  take: row({
    body: z.strictObject({ ...made, key: z.string().max(64 * 1024), certificate: z.string().optional() }),
    summary: 'Takes a CA or key that was made elsewhere.',
    rule: (_, site) => proved('import', site),
    says: ({ scope, keyset }) => [`${scope}/${keyset}`],
    answer: ({ scope, keyset, bridgesFrom, now, key: pem, certificate }, keys) => {
      const key = PrivateKey.fromPem(pem);
      const publicKey = key.publicKey();
      const taken = { id: generationId(publicKey), createdAt: now, publicKey, key };
      const open = { ...taken, ...(certificate !== undefined && { certificate }) };
      return sealedGeneration(scope, keyset, open, bridgesFrom, now, keys);
    },
  }),
  certify: row({
    body: z.strictObject({
      scope,
      keyset: z.enum(AUTHORITY_NAMES),
      now: millis,
      generation: sealedAuthority,
    }),
    summary: 'Makes another certificate for the same key of a CA, which begins now.',
    rule: ({ now }, site) => onTime(now, site),
    says: ({ scope, keyset, generation }) => [`${scope}/${keyset}`, { generation: generation.id }],
    answer: async ({ scope, keyset, generation, now }, keys) => {
      const again = await certifiedAgain(keyset, keys.open(scope, keyset, generation, now), { now });
      return { certificate: again.certificate! };
    },
  }),
  issue: row({
    body: z.strictObject({
      scope,
      generation: sealedAuthority,
      leaf: z.enum(LEAF_NAMES as readonly [LeafName, ...LeafName[]]),
      holder: z.strictObject({
        name: z.string().min(1).max(253),
        addresses: z.array(z.string()).max(1000),
        dns: z.array(z.string()).max(1000).optional(),
      }),
      cluster: z.strictObject({
        name: z.string(),
        dnsDomain: z.string(),
        serviceAddresses: z.array(z.string()).max(100),
        endpointNames: z.strictObject({
          dns: z.array(z.string()).max(1000),
          ips: z.array(z.string()).max(1000),
        }),
      }),
      /** A SubjectPublicKeyInfo in DER, in base64. */
      publicKey: z.string().max(64 * 1024),
      now: millis,
      lifetime,
    }),
    summary: 'Signs a certificate as the table of certificates says, for a machine or a person.',
    rule: ({ scope, leaf, holder, generation, now }, site) => {
      const late = onTime(now, site);
      if (late !== undefined || !isOfMachines(leaf)) return late;
      const { roles, probe } = leafOf(leaf);
      const wanted: readonly Role[] = roles.length > 0 ? roles : ['control-plane', 'etcd', 'worker'];
      const who = `${scope} ${leaf} ${holder.name}${probe ? ` ${generation.id}` : ''}`;
      return forMachine(site, holder.name, wanted, clusterIn(leaf, scope)) ?? atRate(site, who);
    },
    says: ({ scope, leaf, holder }) => [holder.name, { scope, leaf }],
    answer: ({ scope, generation, publicKey, holder: { name, addresses, dns = [] }, ...order }, keys) =>
      issueLeaf(keys.authority(scope, leafOf(order.leaf).parent, generation), {
        ...order,
        holder: { name, addresses, dns },
        publicKey: PublicKey.fromSpki(Buffer.from(publicKey, 'base64')),
      }),
  }),
  handOut: row({
    body: z.strictObject({ scope, keyset: z.enum(KEYSET_NAMES), machine, generation: sealedKey }),
    summary: 'Opens the private key with which programs of a control plane sign, for that machine.',
    rule: ({ scope, keyset, machine }, site) => {
      if (keyset !== 'sa' && !(isAuthority(keyset) && AUTHORITIES[keyset].pair?.signsThere))
        return `no machine gets the private key of ${keyset}`;
      return (
        forMachine(site, machine, ['control-plane'], scope) ?? atRate(site, `${scope} ${keyset} ${machine}`)
      );
    },
    says: ({ scope, keyset, machine }) => [machine, { scope, keyset }],
    answer: ({ scope, keyset, generation }, keys) => ({ text: keys.key(scope, keyset, generation).pem() }),
  }),
  export: row({
    body: z.strictObject({ ...place, generation: sealedKey }),
    summary: 'Opens any private key, for a copy that an operator takes away.',
    rule: (_, site) => proved('export', site),
    says: ({ scope, keyset, generation }) => [`${scope}/${keyset}`, { generation: generation.id }],
    answer: ({ scope, keyset, generation }, keys) => ({ text: keys.key(scope, keyset, generation).pem() }),
  }),
  signBackup: row({
    body: z.strictObject({ sha256: z.string().regex(/^[0-9a-f]{64}$/) }),
    summary: 'Signs a backup of the boot host.',
    rule: always,
    says: ({ sha256 }) => ['backup', { sha256 }],
    answer: ({ sha256 }, { sealer }) => signedBackup(signingKey(sealer), sha256),
  }),
} as const;

export type RequestKind = keyof typeof REQUESTS;
export const REQUEST_KINDS = Object.keys(REQUESTS) as readonly RequestKind[];
export type Asked<K extends RequestKind> = z.input<(typeof REQUESTS)[K]['body']>;
export type Answered<K extends RequestKind> = Awaited<ReturnType<(typeof REQUESTS)[K]['answer']>>;
/** Asks the vault: in this process, or through the signer's socket. */
export type Ask = <K extends RequestKind>(kind: K, body: Asked<K>) => Promise<Answered<K>>;

type SealedKey = z.output<typeof sealedKey>;
type SealedAuthority = z.output<typeof sealedAuthority>;

/** Keys that are opened, in the process that has the vault's key. */
export class OpenKeys {
  readonly sealer: Sealer;
  readonly #keys = new Map<string, PrivateKey>();
  readonly #authorities = new Map<string, Signer>();

  constructor(sealer: Sealer) {
    this.sealer = sealer;
  }

  /**
   * The private key of a generation.
   *
   * @throws {MusterError} E_VAULT_KEY, E_VAULT_RECORD when it is sealed for another place; E_PKI
   *   when it is not the key of this generation
   */
  key(scope: string, keyset: KeysetName, { id, sealed }: SealedKey): PrivateKey {
    const name = `${keysetName(scope, keyset)}/${id}`;
    const at = `${name} ${sealed.ct}`;
    const known = this.#keys.get(at);
    if (known) return known;
    const key = PrivateKey.fromPem(this.sealer.open(name, sealed));
    if (generationId(key.publicKey()) !== id) throw new MusterError('E_PKI', `${name} is another key`);
    setBounded(this.#keys, at, key, KEPT);
    return key;
  }

  /** A generation of a CA with its key. @throws {MusterError} as {@link key} */
  open(scope: string, keyset: KeysetName, sealed: SealedAuthority, now: Millis): OpenGeneration {
    const key = this.key(scope, keyset, sealed);
    const publicKey = key.publicKey();
    mustFit(sealed.certificate, publicKey, `${scope}/${keyset}`);
    return { id: sealed.id, createdAt: now, key, publicKey, certificate: sealed.certificate };
  }

  /** A CA that is ready to sign. @throws {MusterError} as {@link key} */
  authority(scope: string, keyset: AuthorityName, sealed: SealedAuthority): Signer {
    const at = `${scope} ${keyset} ${sealed.id} ${sealed.sealed.ct} ${sealed.certificate}`;
    const known = this.#authorities.get(at);
    if (known) return known;
    const { key, certificate } = this.open(scope, keyset, sealed, 0 as Millis);
    const authority = signer(certificate!, key);
    setBounded(this.#authorities, at, authority, KEPT);
    return authority;
  }
}

/** @throws {MusterError} E_PKI when the certificate is not one of the key */
function mustFit(certificate: string, publicKey: PublicKey, where: string): void {
  const { publicKey: certified } = new X509Certificate(certificate);
  if (!certified.export({ type: 'spki', format: 'der' }).equals(publicKey.spki))
    throw new MusterError('E_PKI', `the certificate of ${where} is of another key`);
}

/** Seals a generation, with a bridge from each of `from` that has room for one. */
async function sealedGeneration(
  scope: string,
  keyset: KeysetName,
  one: OpenGeneration,
  from: readonly SealedAuthority[],
  now: Millis,
  keys: OpenKeys,
): Promise<MadeGeneration> {
  const { id, publicKey, certificate, key } = one;
  const sealed = keys.sealer.seal(`${keysetName(scope, keyset)}/${id}`, key.pem());
  if (certificate === undefined || !isAuthority(keyset)) return { id, publicKey: publicKey.pem(), sealed };
  mustFit(certificate, publicKey, `${scope}/${keyset}`);
  const bridges = from
    .filter((other) => noRoomForBridge(other.certificate, now) === undefined)
    .map(async (other): Promise<Bridge> => {
      const { pem } = await keys.authority(scope, keyset, other).bridgeTo(certificate, publicKey);
      return { issuer: other.id, certificate: pem };
    });
  const signed = await Promise.all(bridges);
  return {
    ...{ id, publicKey: publicKey.pem(), certificate, sealed },
    ...(signed.length > 0 && { bridges: signed }),
  };
}
