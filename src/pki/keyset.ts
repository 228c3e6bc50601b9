/**
 * Generations of a key (a CA's or the service accounts'): one is primary and signs, some are trusted, some no longer. Every change
 * is one of the transitions below, so that a rotation is: add, everybody trusts; promote, everybody re-issues; distrust; forget.
 * Pure; nothing here is printed, see views.ts.
 */
import type { Millis } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import type { KeysetName } from './hierarchy.ts';
import type { PrivateKey, PublicKey } from './keys.ts';

export interface Generation {
  /** First 16 hexadecimal digits of the key's pin. */
  readonly id: string;
  readonly createdAt: Millis;
  readonly publicKey: PublicKey;
  readonly key: PrivateKey;
  /** PEM; a CA's own certificate. The service-account key has none. */
  readonly certificate?: string;
}

export interface Keyset {
  readonly name: KeysetName;
  /** Id of the one that signs; always trusted. */
  readonly primary: string;
  /** In the order in which they came. */
  readonly trusted: readonly Generation[];
  readonly distrusted: readonly Generation[];
}

export const generationId = (key: PublicKey): string => key.pin().slice(0, 16);

export const foundKeyset = (name: KeysetName, generation: Generation): Keyset => ({
  name,
  primary: generation.id,
  trusted: [generation],
  distrusted: [],
});

export function primaryOf(keyset: Keyset): Generation {
  return keyset.trusted.find(({ id }) => id === keyset.primary)!;
}

const refuse = (keyset: Keyset, message: string): never => {
  throw new MusterError('E_KEYSET', `keyset ${keyset.name}: ${message}`);
};

/** Trusted from now on; it does not sign yet. */
export function addTrusted(keyset: Keyset, generation: Generation): Keyset {
  if ([...keyset.trusted, ...keyset.distrusted].some(({ id }) => id === generation.id))
    refuse(keyset, `generation ${generation.id} is there already`);
  return { ...keyset, trusted: [...keyset.trusted, generation] };
}

/** Signs from now on. Only what is trusted can. */
export function promote(keyset: Keyset, id: string): Keyset {
  if (!keyset.trusted.some((one) => one.id === id)) refuse(keyset, `${id} is not trusted, so it cannot sign`);
  return { ...keyset, primary: id };
}

/** No longer trusted. Never the one that signs; so one trusted always remains. */
export function distrust(keyset: Keyset, id: string): Keyset {
  if (id === keyset.primary) refuse(keyset, `${id} signs; promote another first`);
  const found = keyset.trusted.find((one) => one.id === id) ?? refuse(keyset, `${id} is not trusted`);
  return {
    ...keyset,
    trusted: keyset.trusted.filter((one) => one !== found),
    distrusted: [...keyset.distrusted, found],
  };
}

/** Takes a distrust back. */
export function trustAgain(keyset: Keyset, id: string): Keyset {
  const found = keyset.distrusted.find((one) => one.id === id) ?? refuse(keyset, `${id} is not distrusted`);
  return {
    ...keyset,
    trusted: [...keyset.trusted, found],
    distrusted: keyset.distrusted.filter((one) => one !== found),
  };
}

/** The end of a generation: its key is gone with it. */
export function forget(keyset: Keyset, id: string): Keyset {
  if (!keyset.distrusted.some((one) => one.id === id)) refuse(keyset, `${id} is not distrusted, so it stays`);
  return { ...keyset, distrusted: keyset.distrusted.filter((one) => one.id !== id) };
}

/** What is wrong with a keyset as read, or undefined. */
export function keysetFault(keyset: Keyset): string | undefined {
  const ids = [...keyset.trusted, ...keyset.distrusted].map(({ id }) => id);
  if (new Set(ids).size !== ids.length) return 'a generation stands twice';
  return keyset.trusted.some(({ id }) => id === keyset.primary) ? undefined : 'the primary is not trusted';
}

/** The one that signs first, then the others. */
const inOrder = (keyset: Keyset): readonly Generation[] => [
  primaryOf(keyset),
  ...keyset.trusted.filter(({ id }) => id !== keyset.primary),
];

/** All trusted certificates as one PEM text: what verifiers are given. */
export const trustBundle = (keyset: Keyset): string =>
  inOrder(keyset)
    .map(({ certificate }) => certificate ?? '')
    .join('');

/** The single certificate and key that sign. kube-controller-manager refuses more than one. */
export function signingPair(keyset: Keyset): { readonly certificate: string; readonly key: PrivateKey } {
  const { certificate, key } = primaryOf(keyset);
  return { certificate: certificate ?? refuse(keyset, 'has no certificates'), key };
}

/** Public keys of all trusted generations as one PEM text: kube-apiserver's `--service-account-key-file`. */
export const verifiers = (keyset: Keyset): string =>
  inOrder(keyset)
    .map(({ publicKey }) => publicKey.pem())
    .join('');
