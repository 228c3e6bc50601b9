/**
 * The accounts of operators: their roles, password hashes, invitations and tokens, in the store.
 * The store has only hashes of invitations and tokens. All records are in memory as well, because
 * every request reads them.
 */
import { createHash, randomBytes } from 'node:crypto';
import { z } from 'zod';
import { type Clock, mustKnowTime } from '../../base/clock.ts';
import { CONTRADICTS } from '../../base/clock-judge.ts';
import { duration, type Millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import { Secret } from '../../base/secret.ts';
import { KEYS } from '../../store/keys.ts';
import type { Store } from '../../store/store.ts';
import { type Grant, grantOf, isRole, type Role } from '../access.ts';
import { limits } from '../contract/accounts.ts';
import { type PasswordHash, passwordHash } from './passwords.ts';
import { decode, randomText, readRecords } from './records.ts';

/** An invitation that nobody redeemed ends then. */
const INVITATION_LIFETIME = duration('24h');
/** The most operators, and the most tokens of all operators together. */
const MAX_OPERATORS = 1000;
const MAX_TOKENS = 1000;
const MAX_GRANTS = 32;

/** What the text of every token begins with. */
const TOKEN = 'muster_';

const OPERATOR_NAME = /^[a-z0-9][a-z0-9._@-]{0,62}$/;

/** A role, as records and requests have it. */
export const grant = z
  .strictObject({
    role: z.string().refine(isRole),
    ...limits,
  })
  .transform(({ role, ...given }): Grant => grantOf(role as Role, given));

const operatorRecord = z.strictObject({
  v: z.literal(1),
  grants: z.array(grant).max(MAX_GRANTS),
  createdAt: z.int(),
  password: passwordHash.optional(),
  invitation: z
    .strictObject({ hash: z.string(), until: z.int(), first: z.literal(true).optional() })
    .optional(),
});

const tokenRecord = z.strictObject({
  v: z.literal(1),
  operator: z.string(),
  label: z.string(),
  hash: z.string(),
  grants: z.array(grant).max(MAX_GRANTS),
  createdAt: z.int(),
  until: z.int(),
});

export interface Operator {
  readonly name: string;
  readonly grants: readonly Grant[];
  readonly createdAt: Millis;
  readonly password?: PasswordHash;
  /** `first`: the one that the server made because nobody could log in. */
  readonly invitation?: {
    readonly hash: string;
    readonly until: Millis;
    readonly first?: true | undefined;
  };
}

export interface OperatorToken {
  readonly id: string;
  readonly operator: string;
  /** What it is for, in the operator's words. */
  readonly label: string;
  readonly hash: string;
  readonly grants: readonly Grant[];
  readonly createdAt: Millis;
  readonly until: Millis;
}

/** SHA-256, base64url: what is kept of a random text of at least 128 bits. */
export const hashOf = (text: string): string => createHash('sha256').update(text).digest('base64url');

/** Reads the record of an operator; undefined when it is none. */
export function readOperator(name: string, value: string): Operator | undefined {
  const read = decode(operatorRecord, value);
  if (read === undefined) return undefined;
  const { grants, createdAt, password, invitation } = read;
  return {
    name,
    grants,
    createdAt: createdAt as Millis,
    ...(password && { password }),
    ...(invitation && { invitation: { ...invitation, until: invitation.until as Millis } }),
  };
}

/** Reads the record of a token; undefined when it is none. */
export function readToken(id: string, value: string): OperatorToken | undefined {
  const read = decode(tokenRecord, value);
  if (read === undefined) return undefined;
  const { v: _v, createdAt, until, ...rest } = read;
  return { id, ...rest, createdAt: createdAt as Millis, until: until as Millis };
}

const operatorText = ({ name: _name, ...rest }: Operator): string => JSON.stringify({ v: 1, ...rest });
const tokenText = ({ id: _id, ...rest }: OperatorToken): string => JSON.stringify({ v: 1, ...rest });

/**
 * Checks grants that a request gives.
 *
 * @throws {MusterError} E_USAGE
 */
export function checkGrants(value: unknown): readonly Grant[] {
  const read = z.array(grant).min(1).max(MAX_GRANTS).safeParse(value);
  if (!read.success)
    throw new MusterError(
      'E_USAGE',
      'grants: write a list such as [{"role": "operator", "clusters": ["blue"], "pools": ["spare"]}]; roles are viewer, operator, admin, auditor',
    );
  return read.data;
}

interface OperatorsDeps {
  readonly store: Store;
  readonly clock: Pick<Clock, 'now' | 'monotonic' | 'doubt'>;
  readonly log: Log;
}

/** Opens the accounts. A record that this version cannot read is logged and left alone. */
export async function openOperators(deps: OperatorsDeps): Promise<Operators> {
  const operators = new Operators(deps);
  await operators.load();
  return operators;
}

export class Operators {
  readonly #deps: OperatorsDeps;
  readonly #operators = new Map<string, Operator>();
  readonly #tokens = new Map<string, OperatorToken>();
  /** Tokens from the future, by id: since when (monotonic) this server knows them. */
  readonly #fromFuture = new Map<string, number>();

  constructor(deps: OperatorsDeps) {
    this.#deps = deps;
  }

  async load(): Promise<void> {
    for (const one of await readRecords(this.#deps, KEYS.operator, readOperator, 'an operator'))
      this.#operators.set(one.name, one);
    for (const one of await readRecords(this.#deps, KEYS.operatorToken, readToken, 'a token'))
      this.#tokens.set(one.hash, one);
  }

  get(name: string): Operator | undefined {
    return this.#operators.get(name);
  }

  list(): readonly Operator[] {
    return [...this.#operators.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /**
   * Makes an operator, or changes the grants of one.
   *
   * @throws {MusterError} E_USAGE for a name or a number that is not allowed
   */
  async put(name: string, grants: readonly Grant[]): Promise<Operator> {
    if (!OPERATOR_NAME.test(name))
      throw new MusterError(
        'E_USAGE',
        `"${name}" is not a name of an operator: lower-case letters, digits, ".", "_", "@", "-"`,
      );
    const before = this.#operators.get(name);
    if (before === undefined && this.#operators.size >= MAX_OPERATORS)
      throw new MusterError('E_USAGE', `there are ${MAX_OPERATORS} operators already`);
    return this.#write({ ...(before ?? { name, createdAt: this.#deps.clock.now() }), grants });
  }

  /**
   * Removes an operator and all of its tokens.
   *
   * @throws {MusterError} E_NOT_FOUND
   */
  async remove(name: string): Promise<void> {
    this.#known(name);
    const tokens = [...this.#tokens.values()].filter(({ operator }) => operator === name);
    // Without the operator its tokens count for nothing, so the operator goes first.
    await this.#deps.store.commit([{ key: KEYS.operator.key(name), delete: true }]);
    this.#operators.delete(name);
    for (const token of tokens) await this.#forget(token);
  }

  /**
   * Makes an invitation, with which its bearer sets the operator's password, once. An earlier one
   * ends. The password that the operator has stays until then.
   *
   * @param first whether it counts only while nobody can log in
   *
   * @throws {MusterError} E_NOT_FOUND
   */
  async invite(
    name: string,
    lifetime = INVITATION_LIFETIME,
    first = false,
  ): Promise<{ readonly text: Secret; readonly until: Millis }> {
    const text = randomText();
    const until = (this.#deps.clock.now() + lifetime) as Millis;
    await this.#write({
      ...this.#known(name),
      invitation: { hash: hashOf(text), until, ...(first && { first }) },
    });
    return { text: new Secret(text), until };
  }

  /** The operator whose open invitation this is. */
  invited(text: string): Operator | undefined {
    const hash = hashOf(text);
    const now = this.#deps.clock.now();
    // An end that is further away was set by a clock that was ahead.
    const latest = now + INVITATION_LIFETIME + CONTRADICTS;
    const found = this.list().find(
      ({ invitation }) => invitation?.hash === hash && invitation.until > now && invitation.until <= latest,
    );
    // The first link is for a host on which nobody can log in.
    return found?.invitation?.first && this.list().some(({ password }) => password) ? undefined : found;
  }

  /** Sets a password; an invitation that was open has ended, or is open `still`. */
  async setPassword(
    name: string,
    password: PasswordHash,
    { invited }: { readonly invited: 'still' | 'ended' } = { invited: 'ended' },
  ): Promise<void> {
    const { invitation, ...operator } = this.#known(name);
    await this.#write({ ...operator, password, ...(invited === 'still' && invitation && { invitation }) });
  }

  /**
   * Whether the token has ended. One that was made while the clock was ahead lasts, from the start
   * of this server, as long as it was to last.
   */
  #hasEnded({ id, createdAt, until }: OperatorToken): boolean {
    const { clock } = this.#deps;
    const now = clock.now();
    if (createdAt - now <= CONTRADICTS) return until <= now;
    const since = this.#fromFuture.get(id) ?? clock.monotonic();
    this.#fromFuture.set(id, since);
    return clock.monotonic() - since >= until - createdAt;
  }

  tokens(operator?: string): readonly OperatorToken[] {
    const all = [...this.#tokens.values()].sort((a, b) => a.createdAt - b.createdAt);
    return operator === undefined ? all : all.filter((token) => token.operator === operator);
  }

  /**
   * Makes a token. Its text is returned once and not kept.
   *
   * @throws {MusterError} E_USAGE when there are too many
   */
  async addToken(
    order: Pick<OperatorToken, 'operator' | 'label' | 'grants' | 'until'>,
  ): Promise<{ readonly token: OperatorToken; readonly text: Secret }> {
    mustKnowTime(this.#deps.clock);
    const now = this.#deps.clock.now();
    // Tokens that have ended go when room is needed: a clock that is ahead for a while ends none.
    for (const token of this.tokens())
      if (this.#tokens.size >= MAX_TOKENS && this.#hasEnded(token)) await this.#forget(token);
    if (this.#tokens.size >= MAX_TOKENS)
      throw new MusterError('E_USAGE', `there are ${MAX_TOKENS} tokens already`);
    const text = `${TOKEN}${randomText()}`;
    const id = randomBytes(6).toString('hex');
    const token: OperatorToken = { id, ...order, hash: hashOf(text), createdAt: now };
    await this.#deps.store.commit([{ key: KEYS.operatorToken.key(id), put: tokenText(token) }]);
    this.#tokens.set(token.hash, token);
    return { token, text: new Secret(text) };
  }

  /** Whether a text looks like a token, also one that has ended. */
  isToken(text: string): boolean {
    return text.startsWith(TOKEN);
  }

  /** The token with this text, if it has not ended and its operator is still there. */
  bearer(text: string): OperatorToken | undefined {
    const token = this.#tokens.get(hashOf(text));
    if (token === undefined || this.#hasEnded(token)) return undefined;
    return this.#operators.has(token.operator) ? token : undefined;
  }

  /** @throws {MusterError} E_NOT_FOUND */
  async removeToken(id: string): Promise<OperatorToken> {
    const token = [...this.#tokens.values()].find((one) => one.id === id);
    if (token === undefined) throw new MusterError('E_NOT_FOUND', `there is no token "${id}"`);
    await this.#forget(token);
    return token;
  }

  async #forget(token: OperatorToken): Promise<void> {
    this.#fromFuture.delete(token.id);
    await this.#deps.store.commit([{ key: KEYS.operatorToken.key(token.id), delete: true }]);
    this.#tokens.delete(token.hash);
  }

  async #write(operator: Operator): Promise<Operator> {
    await this.#deps.store.commit([{ key: KEYS.operator.key(operator.name), put: operatorText(operator) }]);
    this.#operators.set(operator.name, operator);
    return operator;
  }

  #known(name: string): Operator {
    const operator = this.#operators.get(name);
    if (operator === undefined)
      throw new MusterError(
        'E_NOT_FOUND',
        `there is no operator "${name}"; \`muster operator ls\` lists them`,
      );
    return operator;
  }
}
