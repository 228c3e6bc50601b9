/** Handlers for rolls: machines of a cluster that reboot one after the other. */
import type { ChangeProgress } from '../cluster/change/progress.ts';
import type { RollRequest } from '../cluster/change/roll/rolls.ts';
import type { ApiDeps } from './deps.ts';
import { flag, type Handler, json } from './handler.ts';
import { fieldsOf } from './machines.ts';
import { byOf, changeView } from './rotations.ts';
import { atOnceOf, namesIn, truthOf } from './upgrades.ts';

type H = Handler<ApiDeps>;

async function requestOf(request: Parameters<H>[0]): Promise<RollRequest> {
  const given = await fieldsOf(request, ['machines', 'outdated', 'without', 'maxUnavailable', 'now']);
  return {
    machines: namesIn(given.machines),
    outdated: truthOf('outdated', given.outdated),
    without: namesIn(given.without),
    maxUnavailable: atOnceOf(given.maxUnavailable),
    now: truthOf('now', given.now),
  };
}

/**
 * Rolls a cluster. Body: `{machines?, outdated?, without?, maxUnavailable?, now?}`. Query: dryRun.
 */
const rollCluster: H = async (request, deps) => {
  const cluster = request.params.name ?? '';
  const order = await requestOf(request);
  if (flag(request.query, 'dryRun')) return json(await deps.rolls.preview(cluster, order));
  return json(changeView(await deps.rolls.begin(cluster, order, byOf(request, deps))));
};

const showRoll: H = ({ params: { name = '' } }, { rolls }) => json(changeView(rolls.show(name)));

const ordering =
  (of: (deps: ApiDeps) => (cluster: string, by: string) => Promise<ChangeProgress>): H =>
  async (request, deps) =>
    json(changeView(await of(deps)(request.params.name ?? '', byOf(request, deps))));

const pauseRoll = ordering(({ rolls }) => rolls.pause);
const resumeRoll = ordering(({ rolls }) => rolls.resume);
const cancelRoll = ordering(({ rolls }) => rolls.cancel);

/** Waits no longer for machines. Body: `{without}`. */
const leaveOutOfRoll: H = async (request, deps) => {
  const { without } = await fieldsOf(request, ['without']);
  const { name = '' } = request.params;
  return json(changeView(await deps.rolls.leaveOut(name, namesIn(without), byOf(request, deps))));
};

export const ROLL_HANDLERS = {
  'GET /v1/clusters/:name/roll': showRoll,
  'POST /v1/clusters/:name/roll': rollCluster,
  'POST /v1/clusters/:name/roll/pause': pauseRoll,
  'POST /v1/clusters/:name/roll/resume': resumeRoll,
  'POST /v1/clusters/:name/roll/cancel': cancelRoll,
  'POST /v1/clusters/:name/roll/leave-out': leaveOutOfRoll,
} as const;
