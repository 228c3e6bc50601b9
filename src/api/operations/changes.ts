/** Changes of running clusters, whatever their kind. */
import { z } from 'zod';
import { names } from '../../base/body.ts';
import type { ChangeOrders } from '../../cluster/change/change-orders.ts';
import { changePreview } from '../../cluster/change/preview.ts';
import { type ChangeProgress, changeProgress } from '../../cluster/change/progress.ts';
import type { ChangeRequest } from '../../cluster/change/request.ts';
import { REQUESTS } from '../../cluster/change/requests.ts';
import { actorText } from '../../events/actor.ts';
import type { Actions } from '../actions.ts';
import { dryRun } from '../contract/contract.ts';
import type { ApiRequest } from '../handler.ts';
import { operation } from '../operation.ts';

interface ChangeDeps {
  readonly changes: ChangeOrders;
  readonly actions: Pick<Actions, 'actor'>;
}

export type ChangeView = ChangeProgress;

/** The change that was seen. */
const id = z.string().optional().meta({
  description: 'The id of the change that is meant: another one is not touched. Absent: any.',
});

/** Names the operator who ordered a change, for its record. */
const byOf = (
  { peer, principal }: Pick<ApiRequest, 'peer' | 'principal'>,
  deps: Pick<ChangeDeps, 'actions'>,
) => actorText(deps.actions.actor(peer, principal));

type Orders = Pick<ChangeDeps, 'changes' | 'actions'>;

/** Names the operator of an order and the change that the operator saw. */
const orderedBy = (
  asked: Pick<ApiRequest, 'peer' | 'principal'> & { readonly body: { readonly id?: string | undefined } },
  deps: Orders,
) => ({ by: byOf(asked, deps), id: asked.body.id });

/** The contract of an order that says nothing but which change is meant. */
const plain = (summary: string) =>
  ({
    access: 'administer',
    takes: 'role',
    summary,
    body: z.strictObject({ id }),
    answer: changeProgress,
  }) as const;
const give =
  (order: 'pause' | 'resume' | 'rollBack') =>
  (asked: Parameters<typeof orderedBy>[0] & { readonly params: { readonly name: string } }, deps: Orders) =>
    deps.changes[order](asked.params.name, orderedBy(asked, deps));

/** The operations of changes, for these kinds. */
export const changeOperations = <
  const R extends readonly [z.ZodObject<{ kind: z.ZodLiteral }>, ...z.ZodObject<{ kind: z.ZodLiteral }>[]],
>(
  requests: R,
) =>
  [
    operation(
      'GET /v1/clusters/:name/change',
      {
        access: 'view',
        summary:
          "Shows the change of a cluster that is under way, or the last one; as `NAME.agents` that of its agents, as `_muster` that of Muster's own keys.",
        answer: changeProgress,
      },
      ({ params }, { changes }: Pick<ChangeDeps, 'changes'>) => changes.show(params.name),
    ),
    operation(
      'POST /v1/clusters/:name/change',
      {
        access: 'administer',
        costly: 'preview',
        takes: { second: 'emergency' },
        summary:
          "Begins a change of a cluster: a rotation of its keys, an upgrade, a roll of its machines; as `NAME.agents` an upgrade of its agents, as `_muster` a rotation of Muster's own keys.",
        query: z.strictObject({ dryRun }),
        body: z.discriminatedUnion('kind', requests),
        answer: z.union([changeProgress, changePreview]),
      },
      (asked, deps: Orders) => {
        const { name } = asked.params;
        const request = asked.body as ChangeRequest;
        return asked.query.dryRun
          ? deps.changes.preview(name, request)
          : deps.changes.begin(name, request, byOf(asked, deps));
      },
    ),
    operation(
      'POST /v1/clusters/:name/change/pause',
      plain('Pauses a change: nothing else restarts, and no other step begins.'),
      give('pause'),
    ),
    operation('POST /v1/clusters/:name/change/resume', plain('Continues a paused change.'), give('resume')),
    operation(
      'POST /v1/clusters/:name/change/roll-back',
      plain('Takes a change back, step by step, until its point of no return.'),
      give('rollBack'),
    ),
    operation(
      'POST /v1/clusters/:name/change/leave-out',
      {
        access: 'administer',
        takes: 'role',
        summary: 'Waits no longer for machines, or leaves behind what depends on what the change ends.',
        body: z.strictObject({
          id,
          without: names('Machines that are not waited for.'),
          leave: names('Things that are left behind.'),
        }),
        answer: changeProgress,
      },
      (asked, deps: Orders) => deps.changes.leaveOut(asked.params.name, asked.body, orderedBy(asked, deps)),
    ),
  ] as const;

export const CHANGES = changeOperations(REQUESTS);
