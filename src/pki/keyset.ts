/**
 * Generations of a key (a CA's, the service accounts', the one that Secrets are encrypted with):
 * one is primary and signs, some are only made, some are trusted, some no longer. Every change is
 * one of the transitions below. A rotation is: make a generation; trust it and wait until
 * everything does; promote it and re-issue all certificates; distrust the old one; forget it. A CA
 * with a bridge can be promoted before it is trusted, and then becomes trusted when the old one is
 * distrusted: everything changes its trust once. Pure; nothing here is printed, see views.ts.
 *
 * @example
 * let keyset = foundKeyset('ca', await newGeneration('ca', { now }));
 * const old = keyset.primary;
 * const next = await withBridges(keyset, await newGeneration('ca', { now }));
 * keyset = make(keyset, next); // the old one signs and is trusted
 * keyset = trust(keyset, next.id); // both are trusted, the old one signs
 * keyset = promote(keyset, next.id); // both are trusted, the new one signs
 * keyset = distrust(keyset, old); // only the new one is trusted
 * keyset = forget(keyset, old); // the old key is gone
 */
import type { Millis } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import type { PrivateKey, PublicKey } from './keys.ts';
import type { KeysetName } from './keysets.ts';
import type { Envelope } from './sealer.ts';

/** The part that every generation has, whatever its key is for. */
export interface Aged {
  readonly id: string;
  readonly createdAt: Millis;
  /** Absent: none. Only CAs have them. */
  readonly bridges?: readonly Bridge[];
}

/**
 * The name and key of a CA's generation, signed by another one: who trusts only the other accepts
 * the leaves of this one when the bridge is sent behind them.
 */
export interface Bridge {
  /** Id of the generation that signed it. */
  readonly issuer: string;
  /** PEM. */
  readonly certificate: string;
}

/** A generation whose private key the vault opens, and nobody else. */
export interface Generation extends Aged {
  /** First 16 hexadecimal digits of the key's pin. */
  readonly id: string;
  readonly publicKey: PublicKey;
  readonly sealed: Envelope;
  /** PEM; a CA's own certificate. The service-account key has none. */
  readonly certificate?: string;
}

/** A generation with its private key in the clear: in the vault, or brought by an operator. */
export interface OpenGeneration extends Omit<Generation, 'sealed' | 'bridges'> {
  readonly key: PrivateKey;
}

export interface KeysetOf<N extends string, G extends Aged> {
  readonly name: N;
  /** Id of the generation that signs; it is trusted, or made and accepted by its bridges. */
  readonly primary: string;
  /** In no bundle yet. */
  readonly made: readonly G[];
  readonly trusted: readonly G[];
  readonly distrusted: readonly G[];
}
export type Keyset = KeysetOf<KeysetName, Generation>;
/** The part that transitions need: ids alone. */
type AnyKeyset = KeysetOf<string, Aged>;

/** The id of the generation with this key: the first 16 hexadecimal digits of its pin. */
export const generationId = (key: PublicKey): string => key.pin().slice(0, 16);

/** A keyset with one generation, which signs. */
export const foundKeyset = <N extends string, G extends Aged>(name: N, generation: G): KeysetOf<N, G> => ({
  name,
  primary: generation.id,
  made: [],
  trusted: [generation],
  distrusted: [],
});

/** The generation that signs. */
export function primaryOf<G extends Aged>(keyset: KeysetOf<string, G>): G {
  return [...keyset.trusted, ...keyset.made].find(({ id }) => id === keyset.primary)!;
}

const refuse = (keyset: AnyKeyset, message: string): never => {
  throw new MusterError('E_KEYSET', `keyset ${keyset.name}: ${message}`);
};

/** All generations of a keyset, in whatever state. */
export const allGenerations = <G extends Aged>(keyset: KeysetOf<string, G>): readonly G[] => [
  ...keyset.made,
  ...keyset.trusted,
  ...keyset.distrusted,
];

/**
 * Adds a generation that is in no bundle yet and does not sign.
 *
 * @throws {MusterError} E_KEYSET when the keyset has this generation already.
 */
export function make<N extends string, G extends Aged>(
  keyset: KeysetOf<N, G>,
  generation: G,
): KeysetOf<N, G> {
  if (allGenerations(keyset).some(({ id }) => id === generation.id))
    refuse(keyset, `generation ${generation.id} is there already`);
  return { ...keyset, made: [...keyset.made, generation] };
}

/**
 * Puts a generation that was made into the bundles.
 *
 * @throws {MusterError} E_KEYSET when the generation is not one that was only made.
 */
export function trust<N extends string, G extends Aged>(keyset: KeysetOf<N, G>, id: string): KeysetOf<N, G> {
  const found = keyset.made.find((one) => one.id === id) ?? refuse(keyset, `${id} does not wait for trust`);
  return {
    ...keyset,
    made: keyset.made.filter((one) => one !== found),
    trusted: [...keyset.trusted, found],
  };
}

/** {@link make} and {@link trust} in one step. */
export const addTrusted = <N extends string, G extends Aged>(
  keyset: KeysetOf<N, G>,
  generation: G,
): KeysetOf<N, G> => trust(make(keyset, generation), generation.id);

/** Whether everything that trusts this keyset accepts the generation's leaves by their bridges. */
const isBridged = (keyset: KeysetOf<string, Aged>, { bridges = [] }: Aged): boolean =>
  keyset.trusted.every(({ id }) => bridges.some(({ issuer }) => issuer === id));

/**
 * Makes a generation the one that signs: a trusted one, or one that was made and has a bridge from
 * every trusted one.
 *
 * @throws {MusterError} E_KEYSET for any other generation.
 */
export function promote<N extends string, G extends Aged>(
  keyset: KeysetOf<N, G>,
  id: string,
): KeysetOf<N, G> {
  const made = keyset.made.find((one) => one.id === id);
  if (made ? !isBridged(keyset, made) : !keyset.trusted.some((one) => one.id === id))
    refuse(keyset, `${id} is not trusted, so it cannot sign`);
  return { ...keyset, primary: id };
}

/**
 * Ends the trust in a generation; never in the one that signs. If that one was only made, it is
 * trusted from now on, so that one is always trusted.
 *
 * @throws {MusterError} E_KEYSET when the generation signs or is not trusted.
 */
export function distrust<N extends string, G extends Aged>(
  keyset: KeysetOf<N, G>,
  id: string,
): KeysetOf<N, G> {
  if (id === keyset.primary) refuse(keyset, `${id} signs; promote another first`);
  const found = keyset.trusted.find((one) => one.id === id) ?? refuse(keyset, `${id} is not trusted`);
  const signs = keyset.made.filter((one) => one.id === keyset.primary);
  return {
    ...keyset,
    made: keyset.made.filter((one) => !signs.includes(one)),
    trusted: [...keyset.trusted.filter((one) => one !== found), ...signs],
    distrusted: [...keyset.distrusted, found],
  };
}

/**
 * Trusts a distrusted generation again.
 *
 * @throws {MusterError} E_KEYSET when the generation is not distrusted.
 */
export function trustAgain<N extends string, G extends Aged>(
  keyset: KeysetOf<N, G>,
  id: string,
): KeysetOf<N, G> {
  const found = keyset.distrusted.find((one) => one.id === id) ?? refuse(keyset, `${id} is not distrusted`);
  return {
    ...keyset,
    trusted: [...keyset.trusted, found],
    distrusted: keyset.distrusted.filter((one) => one !== found),
  };
}

/**
 * Drops a distrusted generation, or one that was made and does not sign, and its key with it.
 *
 * @throws {MusterError} E_KEYSET when the generation is trusted or signs.
 */
export function forget<N extends string, G extends Aged>(keyset: KeysetOf<N, G>, id: string): KeysetOf<N, G> {
  const goes = [...keyset.distrusted, ...keyset.made].some((one) => one.id === id && id !== keyset.primary);
  if (!goes) refuse(keyset, `${id} is not distrusted, so it stays`);
  const without = (all: readonly G[]): readonly G[] => all.filter((one) => one.id !== id);
  return { ...keyset, made: without(keyset.made), distrusted: without(keyset.distrusted) };
}

/** What is wrong with a stored keyset, or undefined. */
export function keysetFault(keyset: AnyKeyset): string | undefined {
  const ids = allGenerations(keyset).map(({ id }) => id);
  if (new Set(ids).size !== ids.length) return 'a generation is listed twice';
  if (keyset.trusted.length === 0) return 'no generation is trusted';
  const signs = primaryOf(keyset);
  const accepted = signs && (keyset.trusted.includes(signs) || isBridged(keyset, signs));
  return accepted ? undefined : 'the primary is not trusted';
}

/**
 * The trusted generations in the order in which they were created, so that promoting one changes no
 * bundle: what reads a bundle only at its start need not restart for it.
 */
const byAge = <G extends Aged>(generations: readonly G[]): readonly G[] =>
  generations.toSorted((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));

/** The generation that signs, then the other trusted ones. */
export const primaryFirst = <G extends Aged>(keyset: KeysetOf<string, G>): readonly G[] => [
  primaryOf(keyset),
  ...keyset.trusted.filter(({ id }) => id !== keyset.primary),
];

/** All trusted certificates as one PEM text, the oldest first, for programs that verify others. */
export const trustBundle = (keyset: Keyset): string =>
  byAge(keyset.trusted)
    .map(({ certificate }) => certificate ?? '')
    .join('');

/**
 * The one certificate that signs. kube-controller-manager refuses more than one.
 *
 * @throws {MusterError} E_KEYSET for a keyset without certificates (`sa`).
 */
export const signingCertificate = (keyset: Keyset): string =>
  primaryOf(keyset).certificate ?? refuse(keyset, 'has no certificates');

/**
 * Public keys of all trusted generations as one PEM text, the oldest first: kube-apiserver's
 * `--service-account-key-file`.
 */
export const verifiers = (keyset: Keyset): string =>
  byAge(keyset.trusted)
    .map(({ publicKey }) => publicKey.pem())
    .join('');

/**
 * The bridges to send behind a leaf that this generation signs, as one PEM text: one from each
 * other generation that something may still trust. A program that reads its trust only at its start
 * trusts a generation that is distrusted already, until its turn to restart has come.
 */
export const bridgesBehind = (keyset: Keyset, { bridges = [] }: Generation): string =>
  byAge([...keyset.trusted, ...keyset.distrusted])
    .map(({ id }) => bridges.find(({ issuer }) => issuer === id)?.certificate ?? '')
    .join('');
