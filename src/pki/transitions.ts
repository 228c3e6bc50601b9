/**
 * The steps of a rotation, as one value each, for all keysets: the CAs, the service-account key and
 * the keys that encrypt Secrets. Pure.
 */
import { MusterError } from '../base/errors.ts';
import {
  type Aged,
  allGenerations,
  distrust,
  forget,
  type Keyset,
  type KeysetOf,
  make,
  type OpenGeneration,
  promote,
  trust,
  trustAgain,
} from './keyset.ts';
import type { KeysetName } from './keysets.ts';
import { readAuthority } from './x509.ts';

export type RotatedKeyset = KeysetName | 'encryption';

/** A step: makes a generation, or changes the state of one. See keyset.ts for what each does. */
export type Transition =
  /** `given`: a CA that an operator brought, instead of a new one. */
  | { readonly do: 'make'; readonly given?: OpenGeneration }
  | {
      readonly do: 'trust' | 'promote' | 'distrust' | 'trust-again' | 'forget';
      readonly generation: string;
    };

/** A keyset without its keys: the generations by id, the oldest first. */
export interface KeysetState {
  readonly name: RotatedKeyset;
  readonly primary: string;
  readonly made: readonly string[];
  readonly trusted: readonly string[];
  readonly distrusted: readonly string[];
}

const ids = (all: readonly Aged[]): readonly string[] =>
  all.toSorted((a, b) => a.createdAt - b.createdAt).map(({ id }) => id);

/** The state of a keyset, which contains nothing secret. */
export const stateOf = (keyset: KeysetOf<RotatedKeyset, Aged>): KeysetState => ({
  name: keyset.name,
  primary: keyset.primary,
  made: ids(keyset.made),
  trusted: ids(keyset.trusted),
  distrusted: ids(keyset.distrusted),
});

const CHANGES = { trust, promote, distrust, 'trust-again': trustAgain, forget } as const;

/** The CA that a step brings, if it does. */
export const givenTo = (transition: Transition): OpenGeneration | undefined =>
  transition.do === 'make' ? transition.given : undefined;

/**
 * Applies one step to a keyset. `another` makes a generation. Returns the keyset and the id of the
 * generation that the step was about.
 *
 * @throws {MusterError} E_KEYSET when the keyset does not allow the step.
 */
export async function applyTransition<N extends string, G extends Aged>(
  keyset: KeysetOf<N, G>,
  transition: Transition,
  another: () => G | Promise<G>,
): Promise<{ readonly after: KeysetOf<N, G>; readonly generation: string }> {
  if (transition.do === 'make') {
    const made = await another();
    return { after: make(keyset, made), generation: made.id };
  }
  const { do: step, generation } = transition;
  return { after: CHANGES[step](keyset, generation), generation };
}

/** A generation as a certificate names it. */
export interface NamedGeneration {
  readonly keyset: KeysetName;
  readonly generation: string;
  readonly state: 'made' | 'trusted' | 'distrusted';
}

/**
 * The generations of CAs by the key identifier that their leaves name as their issuer's
 * (authorityKeyIdentifier, hexadecimal in lower case).
 */
export function generationsByKeyId(keysets: Iterable<Keyset>): ReadonlyMap<string, NamedGeneration> {
  const found = new Map<string, NamedGeneration>();
  for (const keyset of keysets)
    for (const state of ['made', 'trusted', 'distrusted'] as const)
      for (const { id, certificate } of keyset[state]) {
        const keyId = certificate && readAuthority(certificate).keyId;
        if (keyId) found.set(keyId, { keyset: keyset.name, generation: id, state });
      }
  return found;
}

/**
 * The generation of this id.
 *
 * @throws {MusterError} E_KEYSET when the keyset does not have it.
 */
export function generationOf<G extends Aged>(keyset: KeysetOf<string, G>, id: string): G {
  const found = allGenerations(keyset).find((one) => one.id === id);
  if (found === undefined)
    throw new MusterError('E_KEYSET', `keyset ${keyset.name}: there is no generation ${id}`);
  return found;
}
