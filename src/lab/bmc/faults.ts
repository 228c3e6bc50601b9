/** Rules by which a simulated BMC misbehaves, as data: each real fault is a row of a scenario. */
import { z } from 'zod';

/**
 * What a request is about, whichever protocol brings it. A rule's `on` is tested against this word,
 * a space, and `METHOD PATH` (Redfish) or the command's name (IPMI).
 */
export type Topic =
  | 'login'
  | 'read'
  | 'power'
  | 'boot'
  | 'identify'
  | 'password'
  | 'certificate'
  | 'console'
  | 'other';

export const faultRule = z.strictObject({
  on: z.string().meta({
    description:
      'A regular expression for the request: `^power`, `^boot PATCH /redfish/v1/Systems/1$`, `^read chassis-status`.',
  }),
  times: z.int().min(1).optional().meta({ description: 'So many requests. Default: all.' }),
  after: z.int().min(1).optional().meta({ description: 'Not the first so many requests.' }),
  delayMs: z.int().min(1).optional().meta({ description: 'The answer comes so much later.' }),
  answer: z.int().min(1).max(599).optional().meta({
    description: 'Answers with this status (Redfish) or completion code (IPMI), and does nothing.',
  }),
  code: z.string().optional().meta({ description: 'The message of a Redfish error: SessionLimitExceeded.' }),
  acknowledged: z.literal(true).optional().meta({ description: 'Says that it is done, and does nothing.' }),
  half: z.literal(true).optional().meta({ description: 'The answer ends in its middle.' }),
  garbled: z
    .literal(true)
    .optional()
    .meta({ description: 'The answer is no JSON, or has a wrong checksum.' }),
  lost: z.literal(true).optional().meta({ description: 'It is done, and no answer comes.' }),
  patch: z.record(z.string(), z.unknown()).optional().meta({
    description: 'A merge patch (RFC 7396) over the body of the answer of Redfish.',
  }),
});
export type FaultRule = z.output<typeof faultRule>;

export const traits = z.strictObject({
  bootOnce: z.literal('ignored').optional().meta({
    description: 'The next boot is the one that the firmware is set to, whatever was asked for.',
  }),
  post: z.literal('hangs').optional().meta({
    description: 'The machine stops at the first line of its console.',
  }),
  starts: z.literal('never').optional().meta({
    description: 'The power is on, and the machine does not start.',
  }),
  sessions: z.int().min(1).max(64).default(8).meta({ description: 'How many sessions it has room for.' }),
  lockOut: z
    .strictObject({ after: z.int().min(1), forMs: z.int().min(1) })
    .optional()
    .meta({
      description: 'So many wrong passwords in a row shut an account for a while.',
    }),
  accounts: z.literal('slots').optional().meta({
    description: 'Redfish lists all slots of accounts, makes none, and changes one only as a whole.',
  }),
  certificate: z.literal('after-restart').optional().meta({
    description: 'Redfish shows another certificate only after the BMC has restarted.',
  }),
  console: z.enum(['openbmc', 'named']).optional().meta({
    description:
      'Redfish has the serial console by a websocket: at /console0, which no resource names, or where its system says.',
  }),
  suites: z
    .array(z.union([z.literal(3), z.literal(17)]))
    .min(1)
    .default([3, 17])
    .meta({ description: 'The cipher suites of IPMI that it has.' }),
});
export type Traits = z.output<typeof traits>;

/** Finds the rule for each request, and counts. */
export class Faults {
  readonly #rules: readonly { readonly rule: FaultRule; readonly on: RegExp; seen: number }[];

  constructor(rules: readonly FaultRule[]) {
    this.#rules = rules.map((rule) => ({ rule, on: new RegExp(rule.on), seen: 0 }));
  }

  /** The first rule that is for this request and not used up. */
  of(topic: Topic, request: string): FaultRule | undefined {
    const text = `${topic} ${request}`;
    for (const one of this.#rules) {
      if (!one.on.test(text)) continue;
      one.seen++;
      const { after = 0, times = Number.POSITIVE_INFINITY } = one.rule;
      if (one.seen > after && one.seen <= after + times) return one.rule;
    }
    return undefined;
  }
}

/** A merge patch of RFC 7396: null removes a member. */
export function merged(value: unknown, patch: unknown): unknown {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch;
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  const result: Record<string, unknown> = isObject ? { ...value } : {};
  for (const [key, part] of Object.entries(patch)) {
    if (part === null) delete result[key];
    else result[key] = merged(result[key], part);
  }
  return result;
}
