/**
 * `delivery: inline`, for isolated segments: a machine's whole plan, secrets included, is in its
 * first configuration instead of coming over TLS. The same scripts apply it from a file, and never
 * poll. It is served once per boot session: a second request is refused and raises the alarm,
 * because one of the two was not the machine.
 */
import { MusterError } from '../../base/errors.ts';
import type { ConfigLayer } from '../../ignition/rendered.ts';
import { INLINE_UNIT } from '../scripts/scripts.files.ts';
import { encodePlan } from '../wire/encode-plan.ts';
import type { Plan } from '../wire/plan.ts';
import { layerOf, linesOf, timeText } from './layer.ts';

/** The plan's path on the machine, which the unit of the same name reads. */
const INLINE_PLAN = '/etc/muster/inline.tar';

interface InlineSettings {
  readonly machine: string;
  /** PEM of every trusted generation of Muster's CA. */
  readonly authority: string;
  /** The server's time, ms since 1970. */
  readonly now: number | undefined;
  /**
   * Holds private keys. Absent in previews and checks.
   */
  readonly plan?: Plan | undefined;
}

/**
 * The agent's layer of a machine with `delivery: inline`. With a plan it is rendered for one answer
 * and not kept; without one, a placeholder takes its place.
 */
export function inlineLayer({ machine, authority, now, plan }: InlineSettings): ConfigLayer {
  const content =
    plan === undefined ? { content: '[secret]' } : { contentBase64: encodePlan(plan).tar.toString('base64') };
  return layerOf({
    authority,
    settings: linesOf({ machine, clock: 'set', ...(now !== undefined && { time: timeText(now) }) }),
    files: [{ path: INLINE_PLAN, mode: '0600', ...content }],
    unit: { name: 'muster-inline.service', contents: INLINE_UNIT },
  });
}

/** Why the secrets of a machine are not served: recorded as an event, and sent as the answer. */
export const INLINE_REFUSALS = {
  served_before:
    'The secrets of this boot were served already: one of the two that asked is not the machine. A new boot has new ones.',
  foreign_address:
    "The request came from an address that is not this machine's, or from hardware that is not. If it is, list the address under the machine's spec.addresses, the hardware address under spec.macs.",
  alarmed:
    'Somebody else may have asked in the name of this machine; an operator decides with `muster machine rearm`.',
} as const satisfies Record<string, string>;
export type InlineRefusal = keyof typeof INLINE_REFUSALS;

/**
 * The text of an E_AGENT_WAIT error: why a machine's plan cannot be made yet and the machine should
 * ask again. Rethrows every other error.
 */
export function waitsFor(error: unknown): string {
  if (error instanceof MusterError && error.code === 'E_AGENT_WAIT') return error.message;
  throw error;
}
