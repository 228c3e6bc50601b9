/**
 * `delivery: inline`, for isolated segments: a machine's whole plan, secrets included, in its first
 * configuration instead of over TLS. The same scripts do it, from a file; nobody is asked
 * afterwards. It is served once for each boot session: who asks again is refused and alarmed, since
 * one of the two was not the machine.
 */
import { MusterError } from '../base/errors.ts';
import type { ConfigLayer } from '../ignition/rendered.ts';
import { layerOf, linesOf, timeText } from './layer.ts';
import type { Plan } from './plan.ts';
import { INLINE_UNIT } from './scripts.generated.ts';
import { encodePlan } from './wire.ts';

/** The plan, as the unit of the same name finds it. */
export const INLINE_PLAN = '/etc/muster/inline.tar';

export interface InlineSettings {
  readonly machine: string;
  /** PEM of every trusted generation of Muster's CA. */
  readonly authority: string;
  /** The server's time, ms since 1970. */
  readonly now: number;
  /**
   * Holds private keys. Absent where people look, and where it is only asked whether all of it
   * renders.
   */
  readonly plan?: Plan | undefined;
}

/** The lowest layer of such a machine. With a plan it is rendered for one answer, and not kept. */
export function inlineLayer({ machine, authority, now, plan }: InlineSettings): ConfigLayer {
  const content =
    plan === undefined ? { content: '[secret]' } : { contentBase64: encodePlan(plan).tar.toString('base64') };
  return layerOf({
    authority,
    settings: linesOf({ machine, clock: 'set', time: timeText(now) }),
    files: [{ path: INLINE_PLAN, mode: '0600', ...content }],
    unit: { name: 'muster-inline.service', contents: INLINE_UNIT },
  });
}

/** Why such a machine's secrets are not served; recorded, and told to whoever asked. */
export const INLINE_REFUSALS = {
  served_before:
    'The secrets of this boot were served already: one of the two that asked is not the machine. A new boot has new ones.',
  foreign_address:
    "The request came from an address that is not this machine's. If it is, list it under the machine's spec.addresses.",
  alarmed:
    'Somebody else may have asked in the name of this machine; an operator decides with `muster machine rearm`.',
} as const satisfies Record<string, string>;
export type InlineRefusal = keyof typeof INLINE_REFUSALS;

/** A machine whose plan cannot be made yet asks again. Rethrows what is no reason to wait. */
export function waitsFor(error: unknown): string {
  if (error instanceof MusterError && error.code === 'E_AGENT_WAIT') return error.message;
  throw error;
}
