/**
 * `muster cluster upgrade`, `roll`, `heal` and `upgrade-agents`: begin a change, or show what it
 * would do.
 */
import { MusterError } from '../../base/errors.ts';
import { agentsScope } from '../../store/keys.ts';
import { type BeginOptions, begin } from '../change/change.ts';
import type { Io } from '../io.ts';

interface TurnsOptions extends BeginOptions {
  readonly without?: readonly string[];
  readonly maxUnavailable?: string;
  readonly now?: boolean;
}

/** What the two have in common. */
const turns = ({ without, maxUnavailable, now }: TurnsOptions) => ({
  ...(without && { without }),
  ...(now && { now }),
  ...(maxUnavailable !== undefined && { maxUnavailable: Number(maxUnavailable) }),
});

interface UpgradeOptions extends TurnsOptions {
  readonly to?: string;
  readonly until?: string;
  readonly soak?: string;
}

/** The part after which `--until` stops → the step before which the upgrade then pauses. */
const UNTIL = { etcd: 'apiservers', soak: 'lift', 'control-plane': 'addons', canary: 'workers' } as const;

/**
 * `muster cluster upgrade`: to what `--to` says, or to what the document asks for.
 *
 * @throws {MusterError} E_USAGE for an unknown part, and what the server answers
 */
export function upgrade(cluster: string, options: UpgradeOptions, io: Io): Promise<number> {
  const { to, until, soak } = options;
  const pauseBefore = untilOf(until);
  const chosen = { ...(to && { to }), ...(soak !== undefined && { soak }) };
  return begin(cluster, { kind: 'upgrade', ...chosen, pauseBefore, ...turns(options) }, options, io);
}

function untilOf(part: string | undefined): readonly string[] {
  if (part === undefined) return [];
  if (Object.hasOwn(UNTIL, part)) return [UNTIL[part as keyof typeof UNTIL]];
  throw new MusterError('E_USAGE', `--until takes ${Object.keys(UNTIL).join(', ')}`);
}

interface RollOptions extends TurnsOptions {
  readonly machines?: readonly string[];
  readonly outdated?: boolean;
}

/** `muster cluster roll`: reboots machines of a cluster one after the other. */
export function roll(cluster: string, options: RollOptions, io: Io): Promise<number> {
  const { machines, outdated } = options;
  const chosen = { ...(machines && { machines }), ...(outdated && { outdated }) };
  return begin(cluster, { kind: 'roll', ...chosen, ...turns(options) }, options, io);
}

interface HealOptions extends BeginOptions {
  readonly with?: string;
  readonly off?: string;
}

/** `muster cluster heal`: lets a spare take the place of a lost machine. */
export function heal(cluster: string, machine: string, options: HealOptions, io: Io): Promise<number> {
  const { with: spare, off } = options;
  const chosen = { ...(spare !== undefined && { with: spare }), ...(off !== undefined && { off }) };
  return begin(cluster, { kind: 'heal', machine, ...chosen }, options, io);
}

/** `muster cluster upgrade-agents`: another attempt to bring machines the agent of this Muster. */
export function upgradeAgents(
  cluster: string,
  options: BeginOptions & { readonly paused?: boolean },
  io: Io,
): Promise<number> {
  const pauseBefore = options.paused ? { pauseBefore: ['first'] } : {};
  return begin(agentsScope(cluster), { kind: 'agent-upgrade', ...pauseBefore }, options, io);
}
