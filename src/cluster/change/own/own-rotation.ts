/** The rotation of Muster's own keys as a kind of change: what the boot host does, and sees. */
import { createHash } from 'node:crypto';
import type { AgentRecord } from '../../../agent/identity/identities.ts';
import type { TicketKeys } from '../../../agent/identity/ticket-keys.ts';
import { type Keyset, trustBundle } from '../../../pki/keyset.ts';
import type { Pki } from '../../../pki/pki.ts';
import { type KeysetState, stateOf, type Transition } from '../../../pki/transitions.ts';
import { MUSTER_SCOPE } from '../../../store/keys.ts';
import type { ChangeWork } from '../kind.ts';
import { type OwnOrder, type OwnSeen, ownOrder } from './order.ts';
import { OWN_ROTATION } from './table.ts';

export interface OwnRotationDeps {
  readonly pki: Pick<Pki, 'keysets' | 'transition'>;
  /** Makes agents and their listener use what has changed; resolves when they do. */
  readonly trustChanged: () => Promise<void>;
  readonly ticketKeys: () => Promise<TicketKeys>;
  /** The agents that are believed. */
  readonly agents: () => readonly Pick<AgentRecord, 'machine' | 'generation'>[];
}

export function ownRotation(deps: OwnRotationDeps): ChangeWork<OwnOrder, OwnSeen> {
  return {
    ...OWN_ROTATION,
    name: 'own-rotation',
    schema: ownOrder,
    async act({ step, order }) {
      const next = step === 'generate' ? await generate(deps, order) : order;
      await replaceTickets(deps, step, next);
      await transitions(deps, step, next);
      await deps.trustChanged();
      return next;
    },
    async look() {
      const keyset = await transportCa(deps);
      const before = (await deps.ticketKeys()).before();
      return {
        trust: createHash('sha256').update(trustBundle(keyset)).digest('hex'),
        certificates: new Map(deps.agents().map(({ machine, generation }) => [machine, generation])),
        ...(before && { oldTicketsUntil: before.until }),
      };
    },
  };
}

/** @throws {MusterError} E_NO_KEYS while there is no transport CA */
export async function transportCa({ pki }: Pick<OwnRotationDeps, 'pki'>): Promise<Keyset> {
  return (await pki.keysets(MUSTER_SCOPE)).get('transport-ca')!;
}

async function generate(deps: OwnRotationDeps, order: OwnOrder): Promise<OwnOrder> {
  const { ca } = order;
  if (ca === undefined) return order;
  const { made, trusted } = stateOf(await transportCa(deps));
  // The server may have died after it made the generation.
  const there = [...made, ...trusted].find((id) => !ca.known.includes(id));
  const to = there ?? (await deps.pki.transition(MUSTER_SCOPE, 'transport-ca', { do: 'make' })).generation;
  return { ...order, ca: { ...ca, to } };
}

async function replaceTickets({ ticketKeys }: OwnRotationDeps, step: string, order: OwnOrder): Promise<void> {
  if (order.tickets === undefined) return;
  const { from } = order.tickets;
  if (step === 'tickets') await (await ticketKeys()).replace(from, { atOnce: order.emergency === true });
  if (step === 'sign-again') await (await ticketKeys()).takeBack(from);
}

/** What a step does to the CA in its present state; nothing when it is done already. */
const TRANSITIONS: Readonly<
  Record<
    string,
    (
      state: KeysetState,
      ca: { readonly from: string; readonly to: string; readonly known: readonly string[] },
    ) => readonly Transition[]
  >
> = {
  trust: ({ made }, { to }) => (made.includes(to) ? [{ do: 'trust', generation: to }] : []),
  issue: ({ primary }, { to }) => (primary === to ? [] : [{ do: 'promote', generation: to }]),
  replace: ({ made, primary }, { to }) => [
    ...(made.includes(to) ? [{ do: 'trust', generation: to } as const] : []),
    ...(primary === to ? [] : [{ do: 'promote', generation: to } as const]),
  ],
  distrust: ({ trusted }, { to }) =>
    trusted.filter((id) => id !== to).map((generation) => ({ do: 'distrust', generation })),
  forget: ({ distrusted }, { known }) =>
    distrusted.filter((id) => known.includes(id)).map((generation) => ({ do: 'forget', generation })),
  'sign-again': ({ primary }, { from }) => (primary === from ? [] : [{ do: 'promote', generation: from }]),
  untrust: ({ trusted }, { to }) => (trusted.includes(to) ? [{ do: 'distrust', generation: to }] : []),
  'forget-new': ({ made, distrusted }, { to }) =>
    [...made, ...distrusted].includes(to) ? [{ do: 'forget', generation: to }] : [],
};

async function transitions(deps: OwnRotationDeps, step: string, { ca }: OwnOrder): Promise<void> {
  // A rotation that is taken back before its new CA was made has nothing to do.
  if (ca?.to === undefined) return;
  const due = TRANSITIONS[step]?.(stateOf(await transportCa(deps)), { ...ca, to: ca.to }) ?? [];
  for (const transition of due) await deps.pki.transition(MUSTER_SCOPE, 'transport-ca', transition);
}
