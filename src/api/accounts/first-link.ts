/**
 * The first administrator: while nobody can log in, each start of the server makes a one-time link
 * for the account `admin`. Only root of the boot host and the server's own user see it.
 */
import { duration, type Millis } from '../../base/duration.ts';
import type { Grant } from '../access.ts';
import type { Operators } from './operators.ts';

const FIRST = 'admin';
const GRANTS: readonly Grant[] = [{ role: 'admin' }, { role: 'auditor' }];
/** It is short: another start of the server makes a new one. */
const LASTS = duration('1h');

export interface FirstLink {
  /** Secret. */
  readonly link: string;
  readonly until: Millis;
}

/**
 * Makes the link; undefined as soon as there is another account, or the first one has a password.
 */
export async function firstLink(operators: Operators, page: string): Promise<FirstLink | undefined> {
  const others = operators.list().filter(({ name, password }) => name !== FIRST || password !== undefined);
  if (others.length > 0) return undefined;
  if (operators.get(FIRST) === undefined) await operators.put(FIRST, GRANTS);
  const { text, until } = await operators.invite(FIRST, LASTS, true);
  return { link: linkOf(page, text.reveal()), until };
}

/** Browsers do not send what follows the #, so the invitation is in no log of a server. */
export const linkOf = (page: string, invitation: string): string => `${page}/#invitation=${invitation}`;
