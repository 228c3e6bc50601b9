/**
 * The rehearsal of distrust: one control plane trusts the old keys no longer, and the boot host
 * watches by the metrics of its API server whether clients fail that did not fail before. If some
 * do, the old keys are trusted again there. Pure.
 */
import { duration, type Millis } from '../../../base/duration.ts';
import { keysetRow } from '../../../pki/keysets.ts';
import { type ResolvedCluster, withRole } from '../../model/resolved-cluster.ts';
import type { Rehearsal } from '../../plan/running-change.ts';
import type { ChangeRecord } from '../record.ts';
import { CLUSTER, done, held, type MachineSeen, type StepInput, type Verdict, waiting } from '../step.ts';
import type { Counted, RotationOrder, RotationSeen } from './order.ts';

/** For how long the API server is watched, where the Cluster does not say it. */
const LASTS = duration('1m');
/** After this time the rehearsal begins again by itself. */
const AGAIN_AFTER = duration('5m');
/** Name by which operators leave the rehearsal out. */
export const REHEARSAL = 'rehearsal';

/** Whether the rotation rehearses the end of the old keys. */
export const rehearses = ({ keysets, emergency, leave }: RotationOrder): boolean =>
  emergency !== true && !leave.includes(REHEARSAL) && keysets.some(({ name }) => keysetRow(name).ofClients);

/** The control plane that rehearses; undefined when all are left out. */
export const rehearserOf = (resolved: ResolvedCluster, without: readonly string[]): string | undefined =>
  withRole(resolved, 'control-plane').find(({ name }) => !without.includes(name))?.name;

export const lastsOf = ({ pki }: ResolvedCluster): Millis => pki.rehearsal ?? LASTS;

/**
 * What the plan of the machine that rehearses has. While the change is paused or held, it trusts
 * what all others do.
 */
export function rehearsalOf({
  step,
  route,
  order,
  acted,
  ...record
}: Pick<
  ChangeRecord<RotationOrder>,
  'step' | 'route' | 'order' | 'acted' | 'paused' | 'holding' | 'evidence'
> & {
  readonly machine: string;
}): Rehearsal | undefined {
  if (route === 'back' || !rehearses(order)) return undefined;
  const trusts = new Map(
    order.keysets.flatMap(({ name, to }) => (name === 'encryption' || !to ? [] : [[name, to]])),
  );
  // Keysets are read once in five seconds: until then the plan may not know of the distrust.
  if (step === 'distrust' && acted) return { trusts, quiet: false };
  if (record.paused || record.holding) return undefined;
  if (step === 'search') return { trusts: new Map(), quiet: true };
  if (step === 'rehearse') return { trusts, quiet: record.evidence[record.machine] !== undefined };
  return step === 'distrust' ? { trusts, quiet: true } : undefined;
}

/** Counters of an API server. */
export interface Sample {
  /** When its process began, in its own seconds. */
  readonly startedAt: number;
  /** Requests that it did not authenticate. */
  readonly refusals: number;
  /** Connections that ended in the TLS handshake, for example of clients that do not trust it. */
  readonly handshakes: number;
}

const COUNTER = /^([a-z_]+)(\{[^}]*\})? ([0-9.e+]+)$/;

/** Reads the counters from the API server's metrics; undefined when they are not complete. */
export function sampleOf(metrics: string): Sample | undefined {
  let [startedAt, refusals, handshakes] = [0, 0, 0];
  for (const line of metrics.split('\n')) {
    const [, name, labels = '', value] = COUNTER.exec(line) ?? [];
    if (name === 'process_start_time_seconds') startedAt = Number(value);
    if (name === 'apiserver_tls_handshake_errors_total') handshakes = Number(value);
    if (name === 'authentication_attempts' && /result="(error|failure)"/.test(labels))
      refusals += Number(value);
  }
  return startedAt > 0 && Number.isFinite(startedAt + refusals + handshakes)
    ? { startedAt, refusals, handshakes }
    : undefined;
}

/** What one API server counted in a time without a restart. */
export interface Watch {
  readonly machine: string;
  readonly since: Millis;
  readonly first: Sample;
  readonly until: Millis;
  readonly last: Sample;
}

/** The watch with another sample; it begins again after a restart, or on another machine. */
export const watched = (watch: Watch | undefined, machine: string, last: Sample, until: Millis): Watch =>
  watch?.machine === machine && watch.first.startedAt === last.startedAt
    ? { ...watch, until, last }
    : { machine, since: until, first: last, until, last };

export const countedIn = ({ since, until, first, last }: Watch): Counted => ({
  for: (until - since) as Millis,
  refusals: last.refusals - first.refusals,
  handshakes: last.handshakes - first.handshakes,
});

/**
 * Connections that may end in the handshake besides: checks of load balancers do, now and then.
 */
const FEW_HANDSHAKES = 5;

/** What fails that did not fail before; undefined while nothing does. */
export function failsNow(now: Counted, before: Counted | undefined): string | undefined {
  const { refusals = 0, handshakes = 0 } = before ?? {};
  if (now.refusals > 2 * refusals) return `${now.refusals} requests, and ${refusals} in the time before`;
  if (now.handshakes > 2 * handshakes + FEW_HANDSHAKES)
    return `${now.handshakes} TLS handshakes, and ${handshakes} in the time before`;
  return undefined;
}

/** The rehearsal so far. */
export interface Rehearsing {
  readonly before?: Watch;
  readonly now?: Watch;
  readonly failed?: { readonly at: Millis; readonly what: string };
}

/** Whether the machine has its part of the rehearsal, and no probe of it is refused any more. */
export function isQuiet(seen: MachineSeen | undefined): boolean {
  const answers = seen?.facts?.evidence?.listeners.get('kube-apiserver')?.answers;
  return seen?.facts !== undefined && seen.applied && seen.settled !== false && (answers?.size ?? 0) === 0;
}

/** What another look has found out. */
interface Looked {
  readonly step: string;
  readonly machine: string;
  /** See {@link isQuiet}. */
  readonly quiet: boolean;
  /** What the API server counts now; undefined while it does not answer. */
  readonly sample: Sample | undefined;
  readonly now: Millis;
}

/** The rehearsal after another look. A machine that is not quiet begins the watch again. */
export function rehearsing(so: Rehearsing, { step, machine, quiet, sample, now }: Looked): Rehearsing {
  const before = so.before && { before: so.before };
  if (so.failed) return now - so.failed.at < AGAIN_AFTER ? so : { ...before };
  if (!quiet) return step === 'search' ? {} : { ...before };
  if (sample === undefined) return so;
  if (step === 'search') return { before: watched(so.before, machine, sample, now) };
  const watch = watched(so.now, machine, sample, now);
  const known = so.before?.machine === machine ? countedIn(so.before) : undefined;
  const what = failsNow(countedIn(watch), known);
  return { ...before, now: watch, ...(what !== undefined && { failed: { at: now, what } }) };
}

// --- Evidence

type Input = StepInput<RotationOrder, RotationSeen>;
const seconds = (time: Millis): string => `${Math.round(time / 1000)} s`;
const refused = ({ for: time, refusals, handshakes }: Counted): string =>
  `${refusals} requests and ${handshakes} TLS handshakes failed in ${seconds(time)}`;

type Judge = (machine: MachineSeen, input: Input) => Verdict;

/** The judge for the machine that rehearses; nothing is asked of the others. */
export const rehearsesHere =
  (judge: Judge): Judge =>
  (machine, input) => {
    if (!rehearses(input.order)) return done('it rehearses nothing, as ordered');
    const { rehearsal } = input.cluster;
    if (rehearsal === undefined) return waiting('it is not known yet which API server rehearses');
    return rehearsal.machine === machine.name ? judge(machine, input) : done('another API server rehearses');
  };

/** The API server that rehearses was watched while it still trusted the old keys. */
export function watchedBefore({ order, cluster }: Input): Verdict {
  if (!rehearses(order)) return done('');
  const { machine, lasts, before } = cluster.rehearsal ?? {};
  if (cluster.rehearsal && machine === undefined) return done('');
  if (machine === undefined || lasts === undefined || before === undefined)
    return waiting(`the API server${of(machine)} is not watched yet${why(cluster)}`);
  return before.for >= lasts
    ? done(`the API server of ${machine} trusts the old keys: ${refused(before)}`)
    : waiting(`the API server of ${machine} is watched: ${seconds(before.for)} of ${seconds(lasts)}`);
}

/** The API server that rehearses refuses the old keys, and no client failed because of it. */
export function rehearsedWell({ order, cluster }: Input): Verdict {
  if (!rehearses(order)) return done('there was no rehearsal, as ordered');
  const { machine, lasts, now, failed } = cluster.rehearsal ?? {};
  if (cluster.rehearsal && machine === undefined) return done('no control plane is waited for');
  if (failed !== undefined)
    return held(
      'rehearsal-failed',
      `While the API server of ${machine} did not trust the old keys, it refused ${failed}. It trusts them again.`,
      `Its audit log names the clients with their addresses. Give them new credentials; the rehearsal is repeated every five minutes. Or do without it: \`muster change ${CLUSTER} leave-out --leave ${REHEARSAL}\`.`,
    );
  if (machine === undefined || lasts === undefined || now === undefined)
    return waiting(`the API server${of(machine)} is not watched yet${why(cluster)}`);
  return now.for >= lasts
    ? done(`the API server of ${machine} does not trust the old keys: ${refused(now)}`)
    : waiting(
        `the API server of ${machine} does not trust the old keys: ${seconds(now.for)} of ${seconds(lasts)}`,
      );
}

const of = (machine: string | undefined): string => (machine === undefined ? '' : ` of ${machine}`);
const why = ({ failure }: RotationSeen): string => (failure === undefined ? '' : `: ${failure}`);
