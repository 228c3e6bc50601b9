/** What Muster has learnt of a BMC: protocol, certificate, refused log-ins, own account. Pure. */
import { z } from 'zod';
import { parsed } from '../base/foreign-json.ts';
import { KEYS } from '../store/keys.ts';
import type { Write } from '../store/store.ts';
import { BMC_FAULTS } from './bmc.ts';
import { lockOf, type Reach } from './reach.ts';

/** A certificate that Muster gave a BMC. */
const given = z.strictObject({
  pin: z.string(),
  serial: z.string(),
  /** The generation of the CA that signed it. */
  generation: z.string(),
  issuedAt: z.number(),
  notAfter: z.number(),
  /** The BMC said that it has it; what it shows says whether that is so. */
  taken: z.literal(true).optional(),
});
export type Given = z.output<typeof given>;

const known = z.strictObject({
  v: z.literal(1),
  /** The BMC that it was learnt of. */
  lock: z.string(),
  protocol: z.enum(['redfish', 'ipmi']).optional(),
  /** SHA-256 of the first certificate with which a log-in worked. */
  pin: z.string().optional(),
  /** How often it has refused each log-in since one worked. */
  refusals: z.record(z.string(), z.int()).optional(),
  /** Muster's own account: when its password was made, and the account that was switched off. */
  own: z.strictObject({ since: z.number(), off: z.string().optional() }).optional(),
  /** Somebody ordered that its password is replaced. */
  due: z.strictObject({ by: z.string(), at: z.number() }).optional(),
  /** The certificate of Muster's CA that it shows. */
  certificate: given.optional(),
  /** Those that it got, and has not shown yet. */
  offered: z.array(given).optional(),
  /** Somebody ordered that its certificate is replaced. */
  certify: z.strictObject({ by: z.string(), at: z.number() }).optional(),
  /** What last could not be done for account or certificate, how often in a row, and when. */
  fault: z
    .strictObject({
      code: z.enum(BMC_FAULTS),
      message: z.string(),
      times: z.int(),
      at: z.number(),
    })
    .optional(),
});
export type Known = z.output<typeof known>;

export const UNKNOWN = (lock: string): Known => ({ v: 1, lock });

/** Whether it was learnt of the BMC that is reached so. */
export const isAt = (known: Known | undefined, reach: Reach | undefined): boolean =>
  known !== undefined && reach !== undefined && known.lock === lockOf(reach);

/** The write of what is known of the BMC of a machine, or that nothing is. */
export const recordOf = (machine: string, known: Known | undefined): Write =>
  known
    ? { key: KEYS.bmc.key(machine), put: JSON.stringify(known) }
    : { key: KEYS.bmc.key(machine), delete: true };

/** Reads a record; undefined for one that is not of a version known here. */
export const decodeKnown = (text: string): Known | undefined => known.safeParse(parsed(text)).data;

/**
 * How often a log-in is tried that the BMC refuses. Many lock an account after three to five, for
 * everybody.
 */
const MAX_REFUSED = 2;

/** Whether a log-in was refused so often that it is not tried again. */
export const isSpent = ({ refusals }: Known, login: string): boolean =>
  (refusals?.[login] ?? 0) >= MAX_REFUSED;

/** How many certificates are remembered that a BMC got and has not shown. */
const MAX_OFFERED = 4;

/** Before a BMC gets a certificate, and when it has said that it took it. */
export const withOffer = (before: Known, offer: Given): Known => {
  const others = (before.offered ?? []).filter(({ pin }) => pin !== offer.pin);
  return { ...before, offered: [...others, offer].slice(-MAX_OFFERED) };
};

/** How many log-ins that were refused are remembered: the account's own, and given ones. */
const MAX_LOGINS = 4;

/** After a log-in was refused. */
export function afterRefusal(before: Known, login: string): Known {
  const { [login]: times = 0, ...others } = before.refusals ?? {};
  const kept = Object.fromEntries(Object.entries(others).slice(1 - MAX_LOGINS));
  return { ...before, refusals: { ...kept, [login]: times + 1 } };
}
