/** Changes of running clusters: rotations of keys, upgrades, rolls, and the agents of machines. */
import { z } from 'zod';
import { MusterError } from '../../base/errors.ts';
import type { ClusterAgents } from '../../cluster/change/agents/builds.ts';
import type { LaterKeys } from '../../cluster/change/later-keys.ts';
import type { ChangeProgress } from '../../cluster/change/progress.ts';
import type { Rolls } from '../../cluster/change/roll/rolls.ts';
import type { Rotations } from '../../cluster/change/rotation/rotations.ts';
import type { Upgrades } from '../../cluster/change/upgrade/upgrades.ts';
import { actorText } from '../../events/actor.ts';
import type { Actions } from '../actions.ts';
import { agentOfMachine, imagesOfMachine } from '../contract/changes.ts';
import { dryRun, fault, names, type Parsed, texts, time, truth } from '../contract/contract.ts';
import type { ApiRequest } from '../handler.ts';
import { operation } from '../operation.ts';
import { withTimestamps } from '../times.ts';

interface ChangeDeps {
  readonly rotations: Rotations;
  readonly laterKeys: Pick<LaterKeys, 'accept'>;
  readonly upgrades: Upgrades;
  readonly rolls: Rolls;
  /** Which agents the machines of clusters run. */
  readonly builds: Pick<ClusterAgents, 'show' | 'pause' | 'resume' | 'retry'>;
  readonly actions: Pick<Actions, 'actor'>;
}

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
    kind: z.string().meta({ description: '`rotation`, `upgrade`, `roll` or `own-rotation`.' }),
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
    ended: z.strictObject({ at: time, as: z.enum(['done', 'rolled-back']) }).optional(),
  })
  .meta({ id: 'Change' });

const preview = {
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
};
const rotationPreview = z.strictObject(preview).meta({ id: 'RotationPreview' });
const hooks = z.array(z.string()).meta({ description: 'The hooks of the Cluster that it would ask.' });
const waits = z.string().optional().meta({
  description: 'When machines get their turn, if they would have to wait for a maintenance window now.',
});
const upgradePreview = z
  .strictObject({
    ...{ ...preview, from: z.string(), to: z.string(), faults: z.array(fault) },
    waits: z.string().optional().meta({
      description: 'Before which step it would wait for a maintenance window now, and until when.',
    }),
    hooks,
  })
  .meta({ id: 'UpgradePreview' });
export type ChangeView = Parsed<z.output<typeof change>>;
const rollPreview = z
  .strictObject({
    ...preview,
    machines: z.array(imagesOfMachine.extend({ machine: z.string() })),
    faults: z.array(fault),
    waits,
    hooks,
  })
  .meta({ id: 'RollPreview' });

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

const pauseBefore = names('Steps before which it pauses.');
const without = names('Machines that are not waited for.');
const leave = names('Things that are left behind.');
const maxUnavailable = z.int().min(1).max(100).optional().meta({
  description: 'How many workers may be changed at the same time; absent: as many as the groups allow.',
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

/** Who ordered a change, for its record. */
const byOf = (
  { peer, principal }: Pick<ApiRequest, 'peer' | 'principal'>,
  deps: Pick<ChangeDeps, 'actions'>,
) => actorText(deps.actions.actor(peer, principal));

export const CHANGES = [
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
  operation(
    'GET /v1/clusters/:name/upgrade',
    {
      access: 'view',
      summary: 'Shows the upgrade of a cluster that is under way, or the last one: steps and evidence.',
      answer: change,
    },
    ({ params }, { upgrades }: Pick<ChangeDeps, 'upgrades'>) => changeView(upgrades.show(params.name)),
  ),
  operation(
    'POST /v1/clusters/:name/upgrade',
    {
      access: 'administer',
      summary: 'Upgrades a cluster; without "to", to what its document asks for.',
      query: z.strictObject({ dryRun }),
      body: z.strictObject({
        to: z.string().min(1).optional(),
        pauseBefore,
        without,
        maxUnavailable,
        now: truth('Also outside of the maintenance windows.'),
      }),
      answer: z.union([change, upgradePreview]),
    },
    async (asked, deps: Pick<ChangeDeps, 'upgrades' | 'actions'>) =>
      asked.query.dryRun
        ? deps.upgrades.preview(asked.params.name, asked.body)
        : changeView(await deps.upgrades.begin(asked.params.name, asked.body, byOf(asked, deps))),
  ),
  operation(
    'POST /v1/clusters/:name/upgrade/pause',
    { access: 'administer', summary: 'Pauses the upgrade: no other machine gets its turn.', answer: change },
    async (asked, deps: Pick<ChangeDeps, 'upgrades' | 'actions'>) =>
      changeView(await deps.upgrades.pause(asked.params.name, byOf(asked, deps))),
  ),
  operation(
    'POST /v1/clusters/:name/upgrade/resume',
    { access: 'administer', summary: 'Continues a paused upgrade.', answer: change },
    async (asked, deps: Pick<ChangeDeps, 'upgrades' | 'actions'>) =>
      changeView(await deps.upgrades.resume(asked.params.name, byOf(asked, deps))),
  ),
  operation(
    'POST /v1/clusters/:name/upgrade/roll-back',
    {
      access: 'administer',
      summary: 'Takes the upgrade back, until the first API server of another minor version has started.',
      answer: change,
    },
    async (asked, deps: Pick<ChangeDeps, 'upgrades' | 'actions'>) =>
      changeView(await deps.upgrades.rollBack(asked.params.name, byOf(asked, deps))),
  ),
  operation(
    'POST /v1/clusters/:name/upgrade/leave-out',
    {
      access: 'administer',
      summary: 'Waits no longer for workers.',
      body: z.strictObject({ without }),
      answer: change,
    },
    async (asked, deps: Pick<ChangeDeps, 'upgrades' | 'actions'>) =>
      changeView(await deps.upgrades.leaveOut(asked.params.name, asked.body.without, byOf(asked, deps))),
  ),
  operation(
    'GET /v1/clusters/:name/roll',
    {
      access: 'view',
      summary: 'Shows the roll of a cluster that is under way, or the last one: steps and evidence.',
      answer: change,
    },
    ({ params }, { rolls }: Pick<ChangeDeps, 'rolls'>) => changeView(rolls.show(params.name)),
  ),
  operation(
    'POST /v1/clusters/:name/roll',
    {
      access: 'administer',
      summary: 'Reboots machines of a cluster one after the other: drained, and back before the next one.',
      query: z.strictObject({ dryRun }),
      body: z.strictObject({
        machines: names('Machines; none: all of the cluster.'),
        outdated: truth('Only machines that run another image than they would boot.'),
        now: truth('Also outside of the maintenance windows.'),
        without,
        maxUnavailable,
      }),
      answer: z.union([change, rollPreview]),
    },
    async (asked, deps: Pick<ChangeDeps, 'rolls' | 'actions'>) =>
      asked.query.dryRun
        ? deps.rolls.preview(asked.params.name, asked.body)
        : changeView(await deps.rolls.begin(asked.params.name, asked.body, byOf(asked, deps))),
  ),
  operation(
    'POST /v1/clusters/:name/roll/pause',
    { access: 'administer', summary: 'Pauses the roll: no other machine reboots.', answer: change },
    async (asked, deps: Pick<ChangeDeps, 'rolls' | 'actions'>) =>
      changeView(await deps.rolls.pause(asked.params.name, byOf(asked, deps))),
  ),
  operation(
    'POST /v1/clusters/:name/roll/resume',
    { access: 'administer', summary: 'Continues a paused roll.', answer: change },
    async (asked, deps: Pick<ChangeDeps, 'rolls' | 'actions'>) =>
      changeView(await deps.rolls.resume(asked.params.name, byOf(asked, deps))),
  ),
  operation(
    'POST /v1/clusters/:name/roll/cancel',
    {
      access: 'administer',
      summary: 'Ends the roll: no other machine reboots, and drained nodes take pods again.',
      answer: change,
    },
    async (asked, deps: Pick<ChangeDeps, 'rolls' | 'actions'>) =>
      changeView(await deps.rolls.cancel(asked.params.name, byOf(asked, deps))),
  ),
  operation(
    'POST /v1/clusters/:name/roll/leave-out',
    {
      access: 'administer',
      summary: 'Waits no longer for machines.',
      body: z.strictObject({ without }),
      answer: change,
    },
    async (asked, deps: Pick<ChangeDeps, 'rolls' | 'actions'>) =>
      changeView(await deps.rolls.leaveOut(asked.params.name, asked.body.without, byOf(asked, deps))),
  ),
  operation(
    'GET /v1/clusters/:name/rotation',
    {
      access: 'view',
      summary:
        "Shows the rotation of a cluster's keys that is under way, or the last one: steps and evidence.",
      answer: change,
    },
    ({ params }, { rotations }: Pick<ChangeDeps, 'rotations'>) => changeView(rotations.show(params.name)),
  ),
  operation(
    'POST /v1/clusters/:name/rotation',
    {
      access: 'administer',
      second: 'emergency',
      summary: "Rotates keys of a cluster, or as cluster `_muster` Muster's own.",
      query: z.strictObject({ dryRun }),
      body: z.strictObject({
        keysets: z.array(z.string()).min(1).meta({ description: 'Keysets, or `all` alone.' }),
        pauseBefore,
        without,
        leave,
        emergency: z.string().optional().meta({
          description: 'The cluster’s name, repeated: the old keys end at once.',
        }),
      }),
      answer: z.union([change, rotationPreview]),
    },
    async (asked, deps: Pick<ChangeDeps, 'rotations' | 'actions'>) => {
      const { name } = asked.params;
      const { emergency, ...rest } = asked.body;
      // What cannot be taken back is confirmed by the cluster's name.
      if (emergency !== undefined && emergency !== name)
        throw new MusterError(
          'E_USAGE',
          `to end keys of ${name} at once, repeat its name: {"emergency": "${name}"}`,
        );
      const request = { ...rest, emergency: emergency !== undefined };
      return asked.query.dryRun
        ? deps.rotations.preview(name, request)
        : changeView(await deps.rotations.rotate(name, request, byOf(asked, deps)));
    },
  ),
  operation(
    'POST /v1/clusters/:name/rotation/pause',
    {
      access: 'administer',
      summary: 'Pauses the rotation: nothing else restarts, and no other step begins.',
      answer: change,
    },
    async (asked, deps: Pick<ChangeDeps, 'rotations' | 'actions'>) =>
      changeView(await deps.rotations.pause(asked.params.name, byOf(asked, deps))),
  ),
  operation(
    'POST /v1/clusters/:name/rotation/resume',
    { access: 'administer', summary: 'Continues a paused rotation.', answer: change },
    async (asked, deps: Pick<ChangeDeps, 'rotations' | 'actions'>) =>
      changeView(await deps.rotations.resume(asked.params.name, byOf(asked, deps))),
  ),
  operation(
    'POST /v1/clusters/:name/rotation/roll-back',
    {
      access: 'administer',
      summary: 'Takes the rotation back: the old keys sign again, and the new ones are forgotten.',
      answer: change,
    },
    async (asked, deps: Pick<ChangeDeps, 'rotations' | 'actions'>) =>
      changeView(await deps.rotations.rollBack(asked.params.name, byOf(asked, deps))),
  ),
  operation(
    'POST /v1/clusters/:name/rotation/leave-out',
    {
      access: 'administer',
      summary: 'Waits no longer for machines, or leaves behind what depends on old keys.',
      body: z.strictObject({ without, leave }),
      answer: change,
    },
    async (asked, deps: Pick<ChangeDeps, 'rotations' | 'actions'>) =>
      changeView(await deps.rotations.leaveOut(asked.params.name, asked.body, byOf(asked, deps))),
  ),
  operation(
    'POST /v1/clusters/:name/rotation/accept',
    {
      access: 'administer',
      summary: 'Lets the keys of a restored store count, although machines have later ones.',
      body: z.strictObject({
        confirm: z.string().meta({ description: 'The cluster’s name, repeated.' }),
      }),
      answer: z.strictObject({ cluster: z.string(), accepted: z.literal(true) }),
    },
    async (asked, deps: Pick<ChangeDeps, 'laterKeys' | 'actions'>) => {
      const { name } = asked.params;
      if (asked.body.confirm !== name)
        throw new MusterError(
          'E_USAGE',
          `this puts the keys of this store back on the machines of ${name}, which interrupts it; repeat its name: {"confirm"}`,
        );
      await deps.laterKeys.accept(name, byOf(asked, deps));
      return { cluster: name, accepted: true as const };
    },
  ),
] as const;
