/** The verbs `muster cluster status` and `muster cluster verify`. */

import { systemClock } from '../../base/clock.ts';
import { duration, type Millis, millis, parseDuration, spanText } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import type { ClusterHealth, Finding } from '../../cluster/health/finding.ts';
import { type ApiClient, openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, formatOf, jsonText, lookOf, tableText, yamlText } from '../output.ts';

interface HealthOptions extends ServerOptions {
  readonly output?: string;
  readonly etcd?: boolean;
  readonly probeImage?: string;
  /** The value of `--wait`; true when the flag has no value. */
  readonly wait?: string | true;
}

/** How long `--wait` without a value waits. */
const WAIT = duration('15m');
const LOOK_EVERY = millis(3000);

const COLUMNS: readonly Column<Finding>[] = [
  {
    heading: 'STATE',
    cell: ({ ok }) => (ok ? 'ok' : 'FAIL'),
    color: ({ ok }) => (ok ? 'green' : 'red'),
  },
  { heading: 'CHECK', cell: ({ check }) => check },
  { heading: 'SUBJECT', cell: ({ subject }) => subject },
  { heading: 'SAYS', cell: ({ says, fix }) => (fix === undefined ? says : `${says}; ${fix}`) },
];
/** The columns of `-o wide`, which separate the fault from its remedy. */
const WIDE: readonly Column<Finding>[] = [
  ...COLUMNS.slice(0, 3),
  { heading: 'SAYS', cell: ({ says }) => says },
  { heading: 'FIX', cell: ({ fix }) => fix },
];

/**
 * `muster cluster status`: prints the checks of a cluster. Exit code 0 only if all of them pass.
 */
export async function status(cluster: string, options: HealthOptions, io: Io): Promise<number> {
  const api = openClient(options, io);
  return shown(await look(api, cluster, options, io), options, io);
}

/**
 * `muster cluster verify`: like status, and also probes the network between pods. With `--wait` it
 * repeats the checks, at the interval `every`, until all of them pass.
 */
export async function verify(
  cluster: string,
  options: HealthOptions,
  io: Io,
  every: Millis = LOOK_EVERY,
): Promise<number> {
  const api = openClient(options, io);
  const probed = (): Promise<ClusterHealth> =>
    api.ask(
      'POST /v1/clusters/:name/verify',
      { params: { name: cluster }, query: { ...queryOf(options), image: options.probeImage } },
      { works: true, signal: io.signal },
    );
  if (options.wait === undefined) return shown(await probed(), options, io);
  const seen = async (): Promise<ClusterHealth> => {
    const health = await look(api, cluster, options, io);
    // Probes are pods on up to 16 nodes, so they are made only when all other checks pass.
    return health.ok ? probed() : health;
  };
  return shown(await waited(seen, { span: spanOf(options.wait), every }, io), options, io);
}

const queryOf = ({ etcd }: HealthOptions) => ({ etcd: etcd || undefined });

const look = (api: ApiClient, cluster: string, options: HealthOptions, io: Io): Promise<ClusterHealth> =>
  api.ask(
    'GET /v1/clusters/:name/status',
    { params: { name: cluster }, query: queryOf(options) },
    { signal: io.signal },
  );

/**
 * Resolves with the first healthy result, or with the last result when the time is over. The
 * failing checks are printed to standard error whenever they change.
 */
async function waited(
  seen: () => Promise<ClusterHealth>,
  { span, every }: { readonly span: Millis; readonly every: Millis },
  io: Io,
): Promise<ClusterHealth> {
  const begun = systemClock.monotonic();
  let before = '';
  for (;;) {
    const health = await seen();
    const passed = systemClock.monotonic() - begun;
    if (health.ok || passed > span || io.signal.aborted) return health;
    const open = health.findings.filter(({ ok }) => !ok);
    const text = open.map(({ check, subject }) => `${check} ${subject}`).join(', ');
    if (text !== before) io.err(`${spanText(passed)}: waiting for ${text}\n`);
    before = text;
    await io.pause(every);
  }
}

function spanOf(wait: string | true): Millis {
  if (wait === true) return WAIT;
  const span = parseDuration(wait);
  if (span === undefined)
    throw new MusterError('E_USAGE', `--wait=${wait}: write a duration, such as 90s or 10m`);
  return span;
}

function shown(health: ClusterHealth, options: HealthOptions, io: Io): number {
  const format = formatOf(options.output, ['table', 'wide', 'json', 'yaml'] as const, 'table');
  if (format === 'json') io.out(jsonText(health));
  else if (format === 'yaml') io.out(yamlText(health));
  else {
    io.out(tableText(format === 'wide' ? WIDE : COLUMNS, health.findings, lookOf(io)));
    const open = health.findings.filter(({ ok }) => !ok).length;
    io.out(
      `\n${health.cluster}: ${health.ok ? 'all checks pass' : `checks that fail: ${open}`} (${health.scope})\n`,
    );
  }
  return health.ok ? EXIT.ok : EXIT.failure;
}
