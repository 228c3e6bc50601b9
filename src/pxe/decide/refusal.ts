/** Why a machine's firmware gets no boot file, as far as that is known without a packet of it. */
import type { MusterEvent, Reason } from '../../events/event.ts';
import type { BootDecision, ReasonCode } from './decision.ts';

/** Nothing further happens on a machine that is answered so, whatever its script would do. */
const REFUSALS = ['loader_missing', 'arch_unsupported', 'loader_loop'] as const satisfies ReasonCode[];
type Refusal = Reason & { readonly code: (typeof REFUSALS)[number] };
const isRefusal = (reason: Reason | undefined): reason is Refusal =>
  REFUSALS.includes(reason?.code as Refusal['code']);

/**
 * The answer that the machine's firmware would get now, if that is a refusal; else what it was told
 * last, where that cannot be judged without asking again: the loader of an `arch` that is unknown,
 * no loader for it at all, or one that came back. `firmware` is undefined when nobody saw which it
 * has: what either kind would get is then speculation. `demanded`: a document names its loader, so
 * that its architecture does not matter any more.
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
  const told = events.findLast(({ kind }) => kind === 'boot.decision')?.reason;
  if (!isRefusal(told)) return undefined;
  const holds = {
    loader_missing: arch === undefined,
    arch_unsupported: !demanded,
    loader_loop: true,
  }[told.code];
  return holds ? told : undefined;
}
