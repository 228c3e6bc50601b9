/**
 * Renewals that operators and rotations order: certificates that were issued before the order are
 * replaced, and with `newKeys` their keys as well. One record for each scope; an order for the same
 * certificates takes the place of the earlier one.
 */
import { z } from 'zod';
import { MusterError } from '../base/errors.ts';
import { parsed } from '../base/foreign-json.ts';
import { KEYS } from '../store/keys.ts';
import type { Store, Write } from '../store/store.ts';
import { LEAF_NAMES, type LeafName } from './hierarchy.ts';
import type { IssuedCertificate } from './records.ts';

const order = z.strictObject({
  /** What was issued later is not replaced. Ms since 1970. */
  at: z.int(),
  /** Absent: of every machine. */
  machine: z.string().optional(),
  /** Absent: every certificate. */
  leaf: z.enum(LEAF_NAMES).optional(),
  newKeys: z.boolean(),
});
const record = z.strictObject({ v: z.literal(1), orders: z.array(order) });

export type RenewalOrder = Omit<z.output<typeof order>, 'leaf'> & { readonly leaf?: LeafName | undefined };

/** More orders than this for single machines or certificates are refused. */
const MOST = 1000;

const isFor = (one: RenewalOrder, of: { readonly leaf: LeafName; readonly to: string }): boolean =>
  (one.machine === undefined || one.machine === of.to) && (one.leaf === undefined || one.leaf === of.leaf);

/**
 * Whether the order replaces what was issued at a time. An order from the future, which the clock
 * has made when it was wrong, would replace certificates without end: it replaces nothing.
 */
const isBefore = (issuedAt: number, one: RenewalOrder, now: number): boolean =>
  issuedAt < one.at && one.at <= now;

/** Whether a certificate is to be replaced. */
export const isToBeRenewed = (
  orders: readonly RenewalOrder[],
  issued: Pick<IssuedCertificate, 'leaf' | 'to' | 'issuedAt'>,
  now: number,
): boolean => orders.some((one) => isBefore(issued.issuedAt, one, now) && isFor(one, issued));

/** Whether a key is to be replaced; `issuedAt`: when it got its first certificate. */
export const needsNewKey = (
  orders: readonly RenewalOrder[],
  key: Pick<IssuedCertificate, 'leaf' | 'to' | 'issuedAt'>,
  now: number,
): boolean => orders.some((one) => one.newKeys && isBefore(key.issuedAt, one, now) && isFor(one, key));

function decode(key: string, value: string): readonly RenewalOrder[] {
  const read = record.safeParse(parsed(value));
  if (!read.success) throw new MusterError('E_PKI', `${key} is not a list of renewals known here`);
  return read.data.orders as readonly RenewalOrder[];
}

/**
 * The renewals that were ordered in a scope.
 *
 * @throws {MusterError} E_PKI when the record is not of a version known here.
 */
export async function renewalsOf(store: Pick<Store, 'get'>, scope: string): Promise<readonly RenewalOrder[]> {
  const stored = await store.get(KEYS.renewals.key(scope));
  return stored === undefined ? [] : decode(stored.key, stored.value);
}

/**
 * Stores an order, together with the caller's writes.
 *
 * @throws {MusterError} E_CONFLICT when another call wrote the orders meanwhile, or an expectation
 *   of `also` does not hold; E_USAGE when there are too many orders.
 */
export async function orderRenewal(
  store: Pick<Store, 'get' | 'commit'>,
  scope: string,
  made: RenewalOrder,
  also: readonly Write[] = [],
): Promise<void> {
  const key = KEYS.renewals.key(scope);
  const stored = await store.get(key);
  const before = stored === undefined ? [] : decode(key, stored.value);
  // An order for the same certificates takes the place of an earlier one, unless that one also asks
  // for new keys.
  const kept = before.filter(
    (one) => one.machine !== made.machine || one.leaf !== made.leaf || (one.newKeys && !made.newKeys),
  );
  if (kept.length >= MOST)
    throw new MusterError('E_USAGE', 'too many renewals of single certificates; renew all of the cluster');
  const put = JSON.stringify({ v: 1, orders: [...kept, made] });
  const result = await store.commit([{ key, put, expect: stored?.revision ?? 'absent' }, ...also]);
  if (!result.ok) throw new MusterError('E_CONFLICT', `${key} was changed meanwhile; repeat the command`);
}
