/**
 * Generations of a key (a CA's, the service accounts', the one that Secrets are encrypted with):
 * one is primary and signs, some are trusted, some no longer. Every change is one of the
 * transitions below. A rotation is: add a generation and wait until everything trusts it; promote
 * it and re-issue all certificates; distrust the old one; forget it. Pure; nothing here is printed,
 * see views.ts.
 *
 * @example
 * let keyset = foundKeyset('ca', await newGeneration('ca', { now }));
 * const old = keyset.primary;
 * const next = await newGeneration('ca', { now });
 * keyset = addTrusted(keyset, next); // both are trusted, the old one signs
 * keyset = promote(keyset, next.id); // both are trusted, the new one signs
 * keyset = distrust(keyset, old); // only the new one is trusted
 * keyset = forget(keyset, old); // the old key is gone
 */
import type { Millis } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import type { KeysetName } from './hierarchy.ts';
import type { PrivateKey, PublicKey } from './keys.ts';

/** The part that every generation has, whatever its key is for. */
export interface Aged {
  readonly id: string;
  readonly createdAt: Millis;
}

export interface Generation extends Aged {
  /** First 16 hexadecimal digits of the key's pin. */
  readonly id: string;
  readonly publicKey: PublicKey;
  readonly key: PrivateKey;
  /** PEM; a CA's own certificate. The service-account key has none. */
  readonly certificate?: string;
}

export interface KeysetOf<N extends string, G extends Aged> {
  readonly name: N;
  /** Id of the generation that signs; it is always trusted. */
  readonly primary: string;
  /** In the order in which they were added. */
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
  trusted: [generation],
  distrusted: [],
});

/** The generation that signs. */
export function primaryOf<G extends Aged>(keyset: KeysetOf<string, G>): G {
  return keyset.trusted.find(({ id }) => id === keyset.primary)!;
}

const refuse = (keyset: AnyKeyset, message: string): never => {
  throw new MusterError('E_KEYSET', `keyset ${keyset.name}: ${message}`);
};

/**
 * Adds a trusted generation; it does not sign yet.
 *
 * @throws {MusterError} E_KEYSET when the keyset has this generation already.
 */
export function addTrusted<N extends string, G extends Aged>(
  keyset: KeysetOf<N, G>,
  generation: G,
): KeysetOf<N, G> {
  if ([...keyset.trusted, ...keyset.distrusted].some(({ id }) => id === generation.id))
    refuse(keyset, `generation ${generation.id} is there already`);
  return { ...keyset, trusted: [...keyset.trusted, generation] };
}

/**
 * Makes a trusted generation the one that signs.
 *
 * @throws {MusterError} E_KEYSET when the generation is not trusted.
 */
export function promote<N extends string, G extends Aged>(
  keyset: KeysetOf<N, G>,
  id: string,
): KeysetOf<N, G> {
  if (!keyset.trusted.some((one) => one.id === id)) refuse(keyset, `${id} is not trusted, so it cannot sign`);
  return { ...keyset, primary: id };
}

/**
 * Ends the trust in a generation; never in the one that signs, so one always stays trusted.
 *
 * @throws {MusterError} E_KEYSET when the generation signs or is not trusted.
 */
export function distrust<N extends string, G extends Aged>(
  keyset: KeysetOf<N, G>,
  id: string,
): KeysetOf<N, G> {
  if (id === keyset.primary) refuse(keyset, `${id} signs; promote another first`);
  const found = keyset.trusted.find((one) => one.id === id) ?? refuse(keyset, `${id} is not trusted`);
  return {
    ...keyset,
    trusted: keyset.trusted.filter((one) => one !== found),
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
 * Drops a distrusted generation, and its key with it.
 *
 * @throws {MusterError} E_KEYSET when the generation is not distrusted.
 */
export function forget<N extends string, G extends Aged>(keyset: KeysetOf<N, G>, id: string): KeysetOf<N, G> {
  if (!keyset.distrusted.some((one) => one.id === id)) refuse(keyset, `${id} is not distrusted, so it stays`);
  return { ...keyset, distrusted: keyset.distrusted.filter((one) => one.id !== id) };
}

/** What is wrong with a stored keyset, or undefined. */
export function keysetFault(keyset: AnyKeyset): string | undefined {
  const ids = [...keyset.trusted, ...keyset.distrusted].map(({ id }) => id);
  if (new Set(ids).size !== ids.length) return 'a generation is listed twice';
  return keyset.trusted.some(({ id }) => id === keyset.primary) ? undefined : 'the primary is not trusted';
}

/** The generation that signs, then the other trusted ones. */
export const inOrder = <G extends Aged>(keyset: KeysetOf<string, G>): readonly G[] => [
  primaryOf(keyset),
  ...keyset.trusted.filter(({ id }) => id !== keyset.primary),
];

/** All trusted certificates as one PEM text, for programs that verify others. */
export const trustBundle = (keyset: Keyset): string =>
  inOrder(keyset)
    .map(({ certificate }) => certificate ?? '')
    .join('');

/**
 * The one certificate and key that sign. kube-controller-manager refuses more than one.
 *
 * @throws {MusterError} E_KEYSET for a keyset without certificates (`sa`).
 */
export function signingPair(keyset: Keyset): { readonly certificate: string; readonly key: PrivateKey } {
  const { certificate, key } = primaryOf(keyset);
  return { certificate: certificate ?? refuse(keyset, 'has no certificates'), key };
}

/**
 * Public keys of all trusted generations as one PEM text: kube-apiserver's
 * `--service-account-key-file`.
 */
export const verifiers = (keyset: Keyset): string =>
  inOrder(keyset)
    .map(({ publicKey }) => publicKey.pem())
    .join('');
