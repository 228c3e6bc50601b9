/** What Muster has learnt of a BMC: protocol, certificate, refused log-ins. Pure. */
import { z } from 'zod';
import { parsed } from '../base/foreign-json.ts';

const known = z.strictObject({
  v: z.literal(1),
  /** The BMC that it was learnt of. */
  lock: z.string(),
  protocol: z.enum(['redfish', 'ipmi']).optional(),
  /** SHA-256 of the first certificate with which a log-in worked. */
  pin: z.string().optional(),
  /** How often it has refused this log-in in a row. */
  refused: z.strictObject({ login: z.string(), times: z.int() }).optional(),
});
export type Known = z.output<typeof known>;

export const UNKNOWN = (lock: string): Known => ({ v: 1, lock });

/** Reads a record; undefined for one that is not of a version known here. */
export const decodeKnown = (text: string): Known | undefined => known.safeParse(parsed(text)).data;

/**
 * How often a log-in is tried that the BMC refuses. Many lock an account after three to five, for
 * everybody.
 */
const MAX_REFUSED = 2;

/** Whether a log-in was refused so often that it is not tried again. */
export const isSpent = ({ refused }: Known, login: string): boolean =>
  refused?.login === login && refused.times >= MAX_REFUSED;

/** After a log-in was refused. */
export const afterRefusal = (before: Known, login: string): Known => ({
  ...before,
  refused: { login, times: before.refused?.login === login ? before.refused.times + 1 : 1 },
});
