/** Handlers for upgrades of clusters. */
import { MusterError } from '../base/errors.ts';
import type { ChangeProgress } from '../cluster/change/progress.ts';
import type { UpgradeRequest } from '../cluster/change/upgrade/upgrades.ts';
import type { ApiDeps } from './deps.ts';
import { flag, type Handler, json } from './handler.ts';
import { fieldsOf } from './machines.ts';
import { byOf, changeView } from './rotations.ts';

type H = Handler<ApiDeps>;

export const namesIn = (text: string | undefined): readonly string[] =>
  (text ?? '').split(',').filter((name) => name !== '');

/**
 * Reads how many workers may be changed at the same time; absent: as many as the groups allow.
 *
 * @throws {MusterError} E_USAGE when it is not a number from 1 to 100
 */
export function atOnceOf(text: string | undefined): number | undefined {
  if (text === undefined || text === '') return undefined;
  const maxUnavailable = Number(text);
  if (Number.isInteger(maxUnavailable) && maxUnavailable >= 1 && maxUnavailable <= 100) return maxUnavailable;
  throw new MusterError('E_USAGE', '"maxUnavailable" is a number of workers from 1 to 100');
}

/**
 * A field of the body that is "true" or "false"; absent, it is false.
 *
 * @throws {MusterError} E_USAGE for anything else
 */
export function truthOf(name: string, text = ''): boolean {
  if (!['', 'true', 'false'].includes(text))
    throw new MusterError('E_USAGE', `"${name}" is "true" or "false"`);
  return text === 'true';
}

async function requestOf(request: Parameters<H>[0]): Promise<UpgradeRequest> {
  const given = await fieldsOf(request, ['to', 'pauseBefore', 'without', 'maxUnavailable', 'now']);
  const { to } = given;
  return {
    pauseBefore: namesIn(given.pauseBefore),
    without: namesIn(given.without),
    maxUnavailable: atOnceOf(given.maxUnavailable),
    now: truthOf('now', given.now),
    ...(to !== undefined && to !== '' && { to }),
  };
}

/**
 * Upgrades a cluster. Body: `{to?, pauseBefore?, without?, maxUnavailable?, now?}`. Query: dryRun.
 */
const upgradeCluster: H = async (request, deps) => {
  const cluster = request.params.name ?? '';
  const order = await requestOf(request);
  if (flag(request.query, 'dryRun')) return json(await deps.upgrades.preview(cluster, order));
  return json(changeView(await deps.upgrades.begin(cluster, order, byOf(request, deps))));
};

const showUpgrade: H = ({ params: { name = '' } }, { upgrades }) => json(changeView(upgrades.show(name)));

const ordering =
  (of: (deps: ApiDeps) => (cluster: string, by: string) => Promise<ChangeProgress>): H =>
  async (request, deps) =>
    json(changeView(await of(deps)(request.params.name ?? '', byOf(request, deps))));

const pauseUpgrade = ordering(({ upgrades }) => upgrades.pause);
const resumeUpgrade = ordering(({ upgrades }) => upgrades.resume);
const rollBackUpgrade = ordering(({ upgrades }) => upgrades.rollBack);

/** Waits no longer for workers. Body: `{without}`. */
const leaveOutOfUpgrade: H = async (request, deps) => {
  const { without } = await fieldsOf(request, ['without']);
  const { name = '' } = request.params;
  return json(changeView(await deps.upgrades.leaveOut(name, namesIn(without), byOf(request, deps))));
};

export const UPGRADE_HANDLERS = {
  'GET /v1/clusters/:name/upgrade': showUpgrade,
  'POST /v1/clusters/:name/upgrade': upgradeCluster,
  'POST /v1/clusters/:name/upgrade/pause': pauseUpgrade,
  'POST /v1/clusters/:name/upgrade/resume': resumeUpgrade,
  'POST /v1/clusters/:name/upgrade/roll-back': rollBackUpgrade,
  'POST /v1/clusters/:name/upgrade/leave-out': leaveOutOfUpgrade,
} as const;
