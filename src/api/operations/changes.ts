/** Changes of running clusters, whatever their kind, and the agents of machines. */
import { z } from 'zod';
import { names } from '../../base/body.ts';
import type { ClusterAgents } from '../../cluster/change/agents/builds.ts';
import type { ChangeOrders } from '../../cluster/change/change-orders.ts';
import type { ChangeProgress } from '../../cluster/change/progress.ts';
import type { ChangeRequest } from '../../cluster/change/request.ts';
import { REQUESTS } from '../../cluster/change/requests.ts';
import { actorText } from '../../events/actor.ts';
import type { Actions } from '../actions.ts';
import { agentOfMachine } from '../contract/changes.ts';
import { dryRun, fault, type Parsed, texts, time } from '../contract/contract.ts';
import type { ApiRequest } from '../handler.ts';
import { operation } from '../operation.ts';
import { withTimestamps } from '../times.ts';

interface ChangeDeps {
  readonly changes: ChangeOrders;
  /** Which agents the machines of clusters run. */
  readonly builds: Pick<ClusterAgents, 'show' | 'pause' | 'resume' | 'retry'>;
  readonly actions: Pick<Actions, 'actor'>;
}

const kind = z.string().meta({ description: 'For example `rotation`, `upgrade` or `roll`.' });

const step = z.strictObject({
  name: z.string(),
  sentence: z.string(),
  state: z.enum(['done', 'now', 'next', 'rolled-back']),
  since: time.optional(),
  until: time.optional(),
  machines: z.int().optional().meta({ description: 'How many machines have shown the evidence.' }),
  text: z.string().optional(),
  noReturn: z.boolean().meta({ description: 'The change cannot be rolled back from this step on.' }),
});

const change = z
  .strictObject({
    cluster: z.string(),
    id: z.string(),
    kind,
    by: z.string(),
    at: time,
    order: z.unknown().meta({ description: 'What was ordered; its form depends on the kind.' }),
    back: z.boolean().meta({ description: 'It is being rolled back.' }),
    steps: z.array(step),
    step: z.string(),
    paused: z.strictObject({ at: time, by: z.string() }).optional(),
    holding: z.strictObject({ at: time, code: z.string(), text: z.string(), remedy: z.string() }).optional(),
    waiting: texts.meta({ description: 'Machine → what it is waited for; `` is the whole cluster.' }),
    evidence: z
      .record(z.string(), z.strictObject({ at: time, text: z.string() }))
      .meta({ description: 'Machine → what it has shown in this step.' }),
    without: z.array(z.string()),
    notBack: z.string().optional().meta({ description: 'Why it cannot be rolled back.' }),
    wayBack: z.array(z.string()).meta({ description: 'What a roll-back would do.' }),
    ended: z.strictObject({ at: time, as: z.enum(['done', 'rolled-back']) }).optional(),
  })
  .meta({ id: 'Change' });

export type ChangeView = Parsed<z.output<typeof change>>;

const preview = z
  .strictObject({
    kind,
    steps: z.array(
      z.strictObject({
        name: z.string(),
        sentence: z.string(),
        restarts: z.record(z.string(), z.array(z.string())),
        minutes: z.number(),
        noReturn: z.boolean(),
      }),
    ),
    minutes: z.number(),
    restarts: z.record(z.string(), z.int()),
    faults: z.array(fault).meta({ description: 'What prevents it.' }),
    about: texts.meta({ description: 'Machine or cluster → what the change is about.' }),
    waits: z.string().optional().meta({ description: 'For what it would have to wait now.' }),
    hooks: z.array(z.string()).meta({ description: 'The hooks of the Cluster that it would ask.' }),
  })
  .meta({ id: 'ChangePreview' });

const agents = z
  .strictObject({
    cluster: z.string(),
    wanted: z.string(),
    attempt: z.int(),
    first: z.string().optional().meta({ description: 'The machine that takes a new agent first.' }),
    pausedBy: z.string().optional(),
    machines: z.array(agentOfMachine),
  })
  .meta({ id: 'ClusterAgents' });

/** The change that was seen. */
const id = z.string().optional().meta({
  description: 'The id of the change that is meant: another one is not touched. Absent: any.',
});

/** Converts a change to what is shown. */
function changeView(progress: ChangeProgress) {
  const { at, steps, paused, holding, evidence, ended, ...same } = progress;
  return {
    ...same,
    at: new Date(at).toISOString(),
    steps: steps.map((step) => withTimestamps(step, 'since', 'until')),
    evidence: Object.fromEntries(
      Object.entries(evidence).map(([machine, one]) => [machine, withTimestamps(one, 'at')]),
    ),
    ...(paused && { paused: withTimestamps(paused, 'at') }),
    ...(holding && { holding: withTimestamps(holding, 'at') }),
    ...(ended && { ended: withTimestamps(ended, 'at') }),
  };
}

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
          "Shows the change of a cluster, or as cluster `_muster` of Muster's own keys, that is under way, or the last one.",
        answer: change,
      },
      ({ params }, { changes }: Pick<ChangeDeps, 'changes'>) => changeView(changes.show(params.name)),
    ),
    operation(
      'POST /v1/clusters/:name/change',
      {
        access: 'administer',
        second: 'emergency',
        summary:
          "Begins a change of a cluster: a rotation of its keys, an upgrade, a roll of its machines; or, as cluster `_muster`, a rotation of Muster's own keys.",
        query: z.strictObject({ dryRun }),
        body: z.discriminatedUnion('kind', requests),
        answer: z.union([change, preview]),
      },
      async (asked, deps: Orders) => {
        const { name } = asked.params;
        const request = asked.body as ChangeRequest;
        return asked.query.dryRun
          ? deps.changes.preview(name, request)
          : changeView(await deps.changes.begin(name, request, byOf(asked, deps)));
      },
    ),
    operation(
      'POST /v1/clusters/:name/change/pause',
      {
        access: 'administer',
        summary: 'Pauses a change: nothing else restarts, and no other step begins.',
        body: z.strictObject({ id }),
        answer: change,
      },
      async (asked, deps: Orders) =>
        changeView(await deps.changes.pause(asked.params.name, orderedBy(asked, deps))),
    ),
    operation(
      'POST /v1/clusters/:name/change/resume',
      {
        access: 'administer',
        summary: 'Continues a paused change.',
        body: z.strictObject({ id }),
        answer: change,
      },
      async (asked, deps: Orders) =>
        changeView(await deps.changes.resume(asked.params.name, orderedBy(asked, deps))),
    ),
    operation(
      'POST /v1/clusters/:name/change/roll-back',
      {
        access: 'administer',
        summary: 'Takes a change back, step by step, until its point of no return.',
        body: z.strictObject({ id }),
        answer: change,
      },
      async (asked, deps: Orders) =>
        changeView(await deps.changes.rollBack(asked.params.name, orderedBy(asked, deps))),
    ),
    operation(
      'POST /v1/clusters/:name/change/leave-out',
      {
        access: 'administer',
        summary: 'Waits no longer for machines, or leaves behind what depends on what the change ends.',
        body: z.strictObject({
          id,
          without: names('Machines that are not waited for.'),
          leave: names('Things that are left behind.'),
        }),
        answer: change,
      },
      async (asked, deps: Orders) =>
        changeView(await deps.changes.leaveOut(asked.params.name, asked.body, orderedBy(asked, deps))),
    ),
  ] as const;

export const CHANGES = [
  ...changeOperations(REQUESTS),
  operation(
    'GET /v1/clusters/:name/agents',
    {
      access: 'view',
      summary: 'Shows which agent each machine of a cluster runs, which it shall run, and what is due.',
      answer: agents,
    },
    ({ params }, { builds }: Pick<ChangeDeps, 'builds'>) => builds.show(params.name),
  ),
  operation(
    'POST /v1/clusters/:name/agents/pause',
    {
      access: 'administer',
      summary: 'Pauses the upgrade of agents: no other machine gets the new one.',
      answer: agents,
    },
    (asked, deps: Pick<ChangeDeps, 'builds' | 'actions'>) =>
      deps.builds.pause(asked.params.name, byOf(asked, deps)),
  ),
  operation(
    'POST /v1/clusters/:name/agents/resume',
    { access: 'administer', summary: 'Continues the upgrade of agents.', answer: agents },
    (asked, deps: Pick<ChangeDeps, 'builds' | 'actions'>) =>
      deps.builds.resume(asked.params.name, byOf(asked, deps)),
  ),
  operation(
    'POST /v1/clusters/:name/agents/retry',
    {
      access: 'administer',
      summary: 'Tries again to upgrade the agents of machines that did not keep the new one, one first.',
      answer: agents,
    },
    (asked, deps: Pick<ChangeDeps, 'builds' | 'actions'>) =>
      deps.builds.retry(asked.params.name, byOf(asked, deps)),
  ),
] as const;
