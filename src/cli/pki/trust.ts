/** The verbs `muster pki status`, `muster kubeconfig` and `muster machine rearm`. */
import type { ScopeStatus } from '../../api/operations/pki.ts';
import { parseDuration, seconds, spanText, toMillis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import type { LeafName } from '../../pki/hierarchy.ts';
import type { CertificateView, ForecastView, GenerationView } from '../../pki/views.ts';
import { MUSTER_SCOPE } from '../../store/keys.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io, socketPath } from '../io.ts';
import { currentContext } from '../login/contexts.files.ts';
import { type Column, formatOf, jsonText, lookOf, tableText, yamlText } from '../output.ts';
import { timeText } from '../times.ts';

interface Options extends ServerOptions {
  readonly output?: string;
  readonly cluster?: string;
  readonly within?: string;
}

type KeysetRow = GenerationView & { readonly scope: string; readonly keyset: string };
type CertificateRow = CertificateView & { readonly scope: string };
/** Renewals and ends of the same kind. */
interface ForecastRow extends ForecastView {
  readonly scope: string;
  readonly holders: readonly string[];
}

const dependentsText = ({ dependents = {} }: GenerationView): string =>
  Object.entries(dependents)
    .map(([leaf, holders]) => `${leaf} (${holders.length})`)
    .join(', ');

const KEYSET_COLUMNS: readonly Column<KeysetRow>[] = [
  { heading: 'SCOPE', cell: (row) => row.scope },
  { heading: 'KEYSET', cell: (row) => row.keyset },
  { heading: 'GENERATION', cell: (row) => row.id },
  { heading: 'STATE', cell: (row) => row.state },
  { heading: 'SINCE', cell: (row) => row.createdAt && timeText(row.createdAt) },
  { heading: 'UNTIL', cell: (row) => row.notAfter && timeText(row.notAfter) },
  { heading: 'DEPENDENTS', cell: dependentsText, cuts: true },
  { heading: 'PIN', wide: true, cell: (row) => row.pin, cuts: true },
];

const CERTIFICATE_COLUMNS: readonly Column<CertificateRow>[] = [
  { heading: 'SCOPE', cell: (row) => row.scope },
  { heading: 'CERTIFICATE', cell: (row) => row.leaf },
  { heading: 'TO', cell: (row) => row.to },
  { heading: 'STATE', cell: (row) => row.state },
  { heading: 'UNTIL', cell: (row) => timeText(row.notAfter) },
  { heading: 'RENEWED BY', cell: (row) => row.renewedBy },
  { heading: 'RENEWED AT', cell: (row) => row.renewsAt && timeText(row.renewsAt) },
  { heading: 'SUBJECT', cell: (row) => row.subject, cuts: true },
  { heading: 'ISSUER', wide: true, cell: (row) => row.issuer, cuts: true },
  { heading: 'SERIAL', wide: true, cell: (row) => row.serial },
];

const FORECAST_COLUMNS: readonly Column<ForecastRow>[] = [
  { heading: 'SCOPE', cell: (row) => row.scope },
  { heading: 'FROM', cell: (row) => timeText(row.at) },
  { heading: 'WHAT', cell: (row) => row.what },
  { heading: 'OF', cell: ({ holders }) => holdersText(holders), cuts: true },
  { heading: 'HAPPENS', cell: happens },
  { heading: 'ALARM', cell: (row) => row.alarm },
];

const holdersText = ([first, ...more]: readonly string[]): string =>
  more.length === 0 ? first! : `${first} and ${more.length} more`;

function happens({ does, by }: ForecastView): string {
  if (does === 'renewed') return `${by === 'muster' ? 'the boot host' : by} renews it`;
  if (by === 'rotation') return 'ends unless it is rotated';
  return by === 'person' ? 'ends; its user asks for another one' : 'ends';
}

/** Joins the entries of the same kind, at the time of the first of them. */
function forecastRows(scope: string, forecast: readonly ForecastView[]): readonly ForecastRow[] {
  const rows = new Map<string, ForecastRow>();
  for (const one of forecast) {
    const kind = `${one.what} ${one.does} ${one.alarm}`;
    const known = rows.get(kind);
    rows.set(kind, { ...(known ?? one), scope, holders: [...(known?.holders ?? []), one.of] });
  }
  return [...rows.values()];
}

/** How long the cluster can do without the boot host. */
function aloneText({ scope, withoutBootHost: first }: ScopeStatus): string {
  if (first === undefined) return '';
  const span = first.leftSeconds > 0 ? spanText(toMillis(seconds(first.leftSeconds))) : 'no time';
  return `Without the boot host, ${scope} keeps running for ${span}, until ${timeText(first.ends)}: then ${first.what} of ${first.of} ends.\n`;
}

function rotationText({ scope, of, rotation }: ScopeStatus): string {
  if (rotation === undefined) return '';
  const { step, state } = rotation;
  const where = `muster change ${of === 'muster' ? MUSTER_SCOPE : scope}`;
  return `Keys of ${scope} are being rotated, at the step ${step}${state === 'running' ? '' : ` (${state})`}: ${where}\n`;
}

/**
 * `muster pki status`: prints keysets, then certificates, with the certificate that expires first
 * at the top, then what happens next: for one cluster, or for all clusters and the boot host
 * itself.
 *
 * @throws {MusterError} E_USAGE when `--within` is no duration
 */
export async function pkiStatus(name: string | undefined, options: Options, io: Io): Promise<number> {
  const format = formatOf(options.output, ['table', 'wide', 'json', 'yaml'] as const, 'table');
  const cluster = options.cluster ?? name;
  const { within = '90d' } = options;
  if (parseDuration(within) === undefined)
    throw new MusterError('E_USAGE', `--within ${within} is no duration, e.g. 90d`);
  const client = openClient(options, io);
  const query = { within };
  const { items } = await (cluster === undefined
    ? client.ask('GET /v1/pki', { query })
    : client.ask('GET /v1/pki/:cluster', { params: { cluster }, query }));
  if (format === 'json') io.out(jsonText(items));
  else if (format === 'yaml') io.out(yamlText(items));
  else if (items.length === 0) io.err('No keys yet: they are made for the first cluster.\n');
  else {
    const wide = format === 'wide';
    const keysets = items.flatMap(({ scope, keysets: all }) =>
      all.flatMap(({ name, generations }) => generations.map((one) => ({ ...one, scope, keyset: name }))),
    );
    const certificates = items.flatMap(({ scope, certificates: all }) =>
      all.map((one) => ({ ...one, scope })),
    );
    const next = items.flatMap(({ scope, forecast }) => forecastRows(scope, forecast));
    io.out(tableText(KEYSET_COLUMNS, keysets, lookOf(io, wide)));
    io.out(`\n${tableText(CERTIFICATE_COLUMNS, certificates, lookOf(io, wide))}`);
    io.out(
      next.length === 0
        ? `\nWithin ${within} nothing is renewed and nothing ends.\n`
        : `\n${tableText(FORECAST_COLUMNS, next, lookOf(io, wide))}`,
    );
    const alone = items.map((item) => aloneText(item) + rotationText(item)).join('');
    if (alone !== '') io.out(`\n${alone}`);
  }
  return EXIT.ok;
}

/** `muster pki renew`: certificates of machines are replaced at their next polls. */
export async function renew(
  cluster: string,
  options: ServerOptions & {
    readonly machine?: string;
    readonly certificate?: string;
    readonly newKeys?: boolean;
  },
  io: Io,
): Promise<number> {
  const { machine, certificate: leaf, newKeys } = options;
  await openClient(options, io).ask('POST /v1/pki/:cluster/renew', {
    params: { cluster },
    body: { machine, leaf: leaf as LeafName | undefined, newKeys },
  });
  const what = leaf === undefined ? 'all certificates' : `certificate ${leaf}`;
  const whose = machine === undefined ? `the machines of ${cluster}` : machine;
  const keys = newKeys ? ', with new keys' : '';
  io.out(
    `${what} of ${whose} will be replaced${keys}, each when its agent polls; see muster pki status ${cluster}\n`,
  );
  return EXIT.ok;
}

interface KubeconfigOptions extends ServerOptions {
  readonly user?: string;
  readonly exec?: boolean;
  readonly credential?: boolean;
}

/**
 * `muster kubeconfig`: prints a kubeconfig with a certificate that is made for this call, or, with
 * `--exec`, one that makes kubectl fetch certificates. An operator who is logged in is its user; on
 * the socket that is the caller, from SUDO_USER or USER.
 */
export async function kubeconfig(cluster: string, options: KubeconfigOptions, io: Io): Promise<number> {
  const remote = options.socket === undefined ? currentContext(io.env) : undefined;
  const user = options.user ?? (remote ? undefined : io.env.SUDO_USER || io.env.USER || 'admin');
  const client = openClient(options, io);
  if (options.exec || options.credential) {
    const server = remote?.url ?? socketPath(options.socket, io.env);
    const asked = { client, cluster, user, server, remote: remote !== undefined };
    const { printExec, printCredential } = await import('./credential.files.ts');
    return options.exec ? printExec(asked, io) : printCredential(asked, io);
  }
  io.out(
    await client.ask('POST /v1/clusters/:name/kubeconfig', { params: { name: cluster }, query: { user } }),
  );
  return EXIT.ok;
}

/**
 * `muster machine rearm`: rearms a machine. `machine` is its name in `muster get machines`, or a
 * MAC address.
 */
export async function rearm(
  machine: string,
  options: ServerOptions & { readonly keep?: boolean },
  io: Io,
): Promise<number> {
  const rearmed = await openClient(options, io).ask('POST /v1/machines/:name/rearm', {
    params: { name: machine },
    query: { keep: options.keep || undefined },
  });
  io.out(`machine/${rearmed.name} rearmed\n`);
  if (rearmed.endedAlarm === undefined) io.err('  it had no alarm\n');
  return EXIT.ok;
}
