/** Handlers for the rotation of a cluster's keys. */
import { MusterError } from '../base/errors.ts';
import type { ChangeProgress, StepProgress } from '../cluster/change/progress.ts';
import type { RotateRequest } from '../cluster/change/rotation/rotations.ts';
import { actorText } from '../events/actor.ts';
import type { ApiDeps } from './deps.ts';
import { flag, type Handler, json } from './handler.ts';
import { fieldsOf } from './machines.ts';
import { type WithTimestamps, withTimestamps } from './times.ts';

type H = Handler<ApiDeps>;
type Order = (cluster: string, by: string) => Promise<ChangeProgress>;

/** A change of a cluster as the API shows it. */
export type ChangeView = Omit<
  ChangeProgress,
  'at' | 'steps' | 'paused' | 'holding' | 'evidence' | 'ended'
> & {
  readonly at: string;
  readonly steps: readonly WithTimestamps<StepProgress, 'since' | 'until'>[];
  readonly paused?: { readonly at: string; readonly by: string };
  readonly holding?: WithTimestamps<NonNullable<ChangeProgress['holding']>, 'at'>;
  /** Machine → what it has shown in this step, and when. */
  readonly evidence: Readonly<Record<string, { readonly at: string; readonly text: string }>>;
  readonly ended?: WithTimestamps<NonNullable<ChangeProgress['ended']>, 'at'>;
};

export function changeView(progress: ChangeProgress): ChangeView {
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

const namesIn = (text: string | undefined): readonly string[] =>
  (text ?? '').split(',').filter((name) => name !== '');

async function requestOf(request: Parameters<H>[0]): Promise<RotateRequest> {
  const given = await fieldsOf(request, ['keysets', 'pauseBefore', 'without', 'leave', 'emergency']);
  const { emergency = '' } = given;
  // What cannot be taken back is confirmed by the cluster's name.
  if (emergency !== '' && emergency !== request.params.name)
    throw new MusterError(
      'E_USAGE',
      `to end keys of ${request.params.name} at once, repeat its name: {"emergency"}`,
    );
  const keysets = namesIn(given.keysets);
  if (keysets.length === 0) throw new MusterError('E_USAGE', 'name the keysets: {"keysets": "all"}');
  return {
    keysets,
    pauseBefore: namesIn(given.pauseBefore),
    without: namesIn(given.without),
    leave: namesIn(given.leave),
    emergency: emergency !== '',
  };
}

/** Who ordered a change, for its record. */
export const byOf = ({ peer, principal }: Parameters<H>[0], { actions }: ApiDeps): string =>
  actorText(actions.actor(peer, principal));

/**
 * Rotates keysets. Body: `{keysets, pauseBefore?, without?, leave?, emergency?}`; `emergency`
 * repeats the cluster's name and ends the old keys at once. Query: dryRun.
 */
const rotateKeys: H = async (request, deps) => {
  const cluster = request.params.name ?? '';
  const order = await requestOf(request);
  if (flag(request.query, 'dryRun')) return json(await deps.rotations.preview(cluster, order));
  return json(changeView(await deps.rotations.rotate(cluster, order, byOf(request, deps))));
};

const showRotation: H = ({ params: { name = '' } }, { rotations }) => json(changeView(rotations.show(name)));

const ordering =
  (of: (deps: ApiDeps) => Order): H =>
  async (request, deps) =>
    json(changeView(await of(deps)(request.params.name ?? '', byOf(request, deps))));

const pauseRotation = ordering(({ rotations }) => rotations.pause);
const resumeRotation = ordering(({ rotations }) => rotations.resume);
const rollBackRotation = ordering(({ rotations }) => rotations.rollBack);

/** Waits no longer for machines, or leaves things behind. Body: `{without?, leave?}`. */
const leaveOutOfRotation: H = async (request, deps) => {
  const given = await fieldsOf(request, ['without', 'leave']);
  const what = { without: namesIn(given.without), leave: namesIn(given.leave) };
  const { name = '' } = request.params;
  return json(changeView(await deps.rotations.leaveOut(name, what, byOf(request, deps))));
};

/** Lets the keys of a restored store count, although machines have others. Body: `{confirm}`. */
const acceptKeys: H = async (request, deps) => {
  const { name = '' } = request.params;
  const { confirm } = await fieldsOf(request, ['confirm']);
  if (confirm !== name)
    throw new MusterError(
      'E_USAGE',
      `this puts the keys of this store back on the machines of ${name}, which interrupts it; repeat its name: {"confirm"}`,
    );
  await deps.laterKeys.accept(name, byOf(request, deps));
  return json({ cluster: name, accepted: true });
};

/** The routes of rotations. */
export const ROTATION_HANDLERS = {
  'GET /v1/clusters/:name/rotation': showRotation,
  'POST /v1/clusters/:name/rotation': rotateKeys,
  'POST /v1/clusters/:name/rotation/pause': pauseRotation,
  'POST /v1/clusters/:name/rotation/resume': resumeRotation,
  'POST /v1/clusters/:name/rotation/roll-back': rollBackRotation,
  'POST /v1/clusters/:name/rotation/leave-out': leaveOutOfRotation,
  'POST /v1/clusters/:name/rotation/accept': acceptKeys,
} as const;
