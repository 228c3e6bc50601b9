/**
 * Whether the hooks of a machine let its turn begin, or end. Pure: from the setting of the Cluster
 * and what is kept of their answers.
 */
import { z } from 'zod';
import { duration, spanText } from '../../../base/duration.ts';
import { DEFAULT_WITHIN, type HookSpec, type HookTime } from '../../../resources/hook-spec.ts';
import type { ClusterRole } from '../../model/resolved-cluster.ts';
import type { Gate } from '../step.ts';

/** The record `hook/CLUSTER/MACHINE`: what the hooks have answered in the turn of a machine. */
export const keptGate = z.strictObject({
  v: z.literal(1),
  /** The id of the change. */
  change: z.string(),
  step: z.string(),
  when: z.enum(['before', 'after']),
  /** When they were asked first, ms since 1970. */
  since: z.int(),
  /**
   * `asked`: again and again; `late`: the same, and longer than the hook may take; `failed`: no
   * more, because one of them said so; `open`: all of them have passed.
   */
  state: z.enum(['asked', 'late', 'failed', 'open']),
  /** When it came to this state, ms since 1970. */
  at: z.int(),
  attempt: z.int(),
  /** The hook that did not pass, and why. */
  hook: z.string().optional(),
  reason: z.string().optional(),
});
export type KeptGate = z.output<typeof keptGate>;

/** A turn of a machine in a step of a change. */
export interface Turn {
  readonly cluster: string;
  /** The id of the change. */
  readonly id: string;
  readonly kind: string;
  readonly step: string;
}

interface Machine {
  readonly name: string;
  readonly roles: readonly ClusterRole[];
}

/** The hooks that are asked, in their order. */
export const hooksFor = (
  hooks: readonly HookSpec[] | undefined,
  kind: string,
  { roles }: Pick<Machine, 'roles'>,
  when: HookTime,
): readonly HookSpec[] =>
  (hooks ?? []).filter(
    (one) =>
      one.when === when &&
      (one.operations === undefined || one.operations.some((operation) => operation === kind)) &&
      (one.roles === undefined || one.roles.some((role) => roles.includes(role))),
  );

/** The hooks of a kind of change, as its preview names them. */
export const hooksText = (hooks: readonly HookSpec[] | undefined, kind: string): readonly string[] =>
  (hooks ?? [])
    .filter(({ operations }) => operations === undefined || operations.some((one) => one === kind))
    .map(
      ({ name, when, within = DEFAULT_WITHIN, roles }) =>
        `${name} ${when} the turn of each ${roles?.join(' and ') ?? 'machine'}, which waits for it for ${within} at most`,
    );

/** For how long a machine waits for a hook. */
export const limitOf = ({ within = DEFAULT_WITHIN }: HookSpec): number => duration(within);

/** What is kept of this turn; undefined where it is of another one. */
export const ofTurn = (kept: KeptGate | undefined, { id, step }: Turn): KeptGate | undefined =>
  kept?.change === id && kept.step === step ? kept : undefined;

const OPEN: Gate = { is: 'open' };

/**
 * Whether a machine may go on.
 *
 * @param waited For how long the hooks have been asked.
 */
export function gateOf(
  hooks: readonly HookSpec[],
  kept: KeptGate | undefined,
  { cluster }: Turn,
  { name }: Pick<Machine, 'name'>,
  when: HookTime,
  waited: number,
): Gate {
  // The hooks after a turn are asked when those before it have passed.
  if (when === 'before' && kept?.when === 'after') return OPEN;
  const known = kept?.when === when ? kept : undefined;
  if (known?.state === 'open') return { is: 'open', at: known.at };
  if (hooks.length === 0) return OPEN;
  const by = hooks.find((one) => one.name === known?.hook);
  if (known === undefined || by === undefined)
    return { is: 'waiting', text: `its hook ${hooks[0]!.name} is asked` };
  const { state, reason = '', attempt } = known;
  const limit = by.within ?? DEFAULT_WITHIN;
  const again = `\`muster change ${cluster} pause\` and then \`resume\``;
  const without = 'taking the hook out of the Cluster lets the change continue without it';
  if (state === 'failed')
    return {
      is: 'held',
      hold: {
        code: 'hook-failed',
        text: `The hook ${by.name} does not let ${when === 'before' ? `${name} begin` : `the turn of ${name} end`}: ${reason}.`,
        remedy: `Correct what it says; ${again} ask it again, and ${without}.`,
      },
    };
  if (state === 'late')
    return {
      is: 'held',
      hold: {
        code: 'hook-late',
        text: `${name} has waited for the hook ${by.name} for ${limit}: ${reason}.`,
        remedy: `Correct what it says: it is asked on, and the change continues by itself when it passes. ${again} give it another ${limit}, and ${without}.`,
      },
    };
  return {
    is: 'waiting',
    text: `the hook ${by.name} lets it wait: ${reason} (asked ${attempt} ${attempt === 1 ? 'time' : 'times'} in ${spanText(waited)}, at most for ${limit})`,
  };
}
