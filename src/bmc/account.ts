/**
 * The account that Muster makes for itself on a BMC, with a random password that only the vault
 * has. Pure, apart from the random octets.
 *
 * A new password is sealed in the vault before the BMC gets it, and the one before stays there
 * until a log-in with the new one has worked. Whatever ends the server or the connection meanwhile,
 * one of the two opens the account, and at most one log-in is refused until it is known which.
 */
import { randomInt } from 'node:crypto';
import { z } from 'zod';
import { parsed } from '../base/foreign-json.ts';
import type { Known } from './known.ts';
import type { Reach } from './reach.ts';

/** Its name on each BMC. */
export const OWN_USER = 'muster';

/** A password, and when it was made. */
const password = z.strictObject({ text: z.string(), at: z.number() });
export type OwnPassword = z.output<typeof password>;
const record = z.strictObject({ v: z.literal(1), passwords: z.array(password).min(1).max(2) });

/** The text that is sealed: the passwords that may be right, the likeliest first. */
export const encodeOwn = (passwords: readonly OwnPassword[]): string => JSON.stringify({ v: 1, passwords });
export const decodeOwn = (text: string | undefined): readonly OwnPassword[] =>
  record.safeParse(parsed(text ?? '')).data?.passwords ?? [];

/** IPMI 1.5 has room for so many octets, and some BMCs of today have no more. */
const LENGTH = 16;
/** BMCs demand some of each; none of these letters needs quotes. */
const KINDS = ['ABCDEFGHJKLMNPQRSTUVWXYZ', 'abcdefghijkmnopqrstuvwxyz', '23456789', '-_+=.'] as const;
const ALL = KINDS.join('');

/** A random password of 96 bits, with a character of each kind. */
export function newPassword(): string {
  for (;;) {
    const text = Array.from({ length: LENGTH }, () => ALL[randomInt(ALL.length)]!).join('');
    // The first character is a letter, because some take no other.
    if (/^[A-Za-z]/.test(text) && KINDS.every((kind) => [...kind].some((one) => text.includes(one))))
      return text;
  }
}

/** The passwords of an account that is one or the other, until a log-in shows which. */
export const eitherOf = (
  likely: readonly OwnPassword[],
  other: readonly OwnPassword[],
): readonly OwnPassword[] => [...likely, ...other].slice(0, 2);

/** The passwords after one of them worked: the newest replaces all others. */
export function afterLogin(passwords: readonly OwnPassword[], at: number): readonly OwnPassword[] {
  const worked = passwords[at]!;
  const others = passwords.filter((one) => one !== worked);
  // A BMC may take a password late, so one that it did not know yet stays in reserve.
  return others.every((one) => one.at <= worked.at) ? [worked] : [worked, ...others];
}

/** The account that is to be switched off, once Muster has its own; undefined: none. */
export function otherOf({ credentials }: Pick<Reach, 'credentials'>): string | undefined {
  const { managed, user } = credentials ?? {};
  return managed === 'alone' && user !== OWN_USER ? user : undefined;
}

/** Whether something has to be done for Muster's own account on a BMC. */
export function owes(reach: Pick<Reach, 'credentials'>, known: Known | undefined): boolean {
  if (reach.credentials?.managed === undefined) return false;
  const own = known?.own;
  return own === undefined || isDue(known) || otherOf(reach) !== own.off;
}

/** Whether a new password was ordered since the present one was made. */
export const isDue = (known: Known | undefined): boolean =>
  known?.due !== undefined && (known.own === undefined || known.own.since < known.due.at);
