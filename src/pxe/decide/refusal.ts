/**
 * Why a machine's firmware gets no boot file, as far as that is known without one of its packets.
 */
import type { MusterEvent, Reason } from '../../events/event.ts';
import type { BootDecision, ReasonCode } from './decision.ts';

/** A machine whose firmware is answered with one of these does not boot, whatever its script is. */
const REFUSALS = ['loader_missing', 'arch_unsupported', 'loader_loop'] as const satisfies ReasonCode[];
type Refusal = Reason & { readonly code: (typeof REFUSALS)[number] };
const isRefusal = (reason: Reason | undefined): reason is Refusal =>
  REFUSALS.includes(reason?.code as Refusal['code']);

/**
 * The refusal that the machine's firmware would get now. If that cannot be computed, because the
 * architecture (`arch`) is unknown or unsupported or because the loader itself asked for a loader,
 * it is the refusal that was recorded last. Undefined when there is none. `firmware`: the decision
 * for the machine's kind of firmware; undefined when that kind is unknown. `demanded`: a document
 * names the loader, so the architecture does not matter.
 */
export function refusal(facts: {
  readonly firmware: BootDecision | undefined;
  readonly events: readonly MusterEvent[];
  readonly arch: string | undefined;
  readonly demanded: boolean;
}): Refusal | undefined {
  const { firmware, events, arch, demanded } = facts;
  const now = firmware?.reason;
  if (isRefusal(now)) return now;
  const last = events.findLast(({ kind }) => kind === 'boot.decision')?.reason;
  if (!isRefusal(last)) return undefined;
  const holds = {
    loader_missing: arch === undefined,
    arch_unsupported: !demanded,
    loader_loop: true,
  }[last.code];
  return holds ? last : undefined;
}
