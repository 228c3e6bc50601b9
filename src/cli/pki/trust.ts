/** The verbs `muster pki status`, `muster kubeconfig` and `muster machine rearm`. */
import type { ScopeStatus } from '../../api/trust.ts';
import type { CertificateView, GenerationView } from '../../pki/views.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, formatOf, jsonText, lookOf, tableText, yamlText } from '../output.ts';
import { timeText } from '../times.ts';

interface Options extends ServerOptions {
  readonly output?: string;
}

type KeysetRow = GenerationView & { readonly scope: string; readonly keyset: string };
type CertificateRow = CertificateView & { readonly scope: string };

const KEYSET_COLUMNS: readonly Column<KeysetRow>[] = [
  { heading: 'SCOPE', cell: (row) => row.scope },
  { heading: 'KEYSET', cell: (row) => row.keyset },
  { heading: 'GENERATION', cell: (row) => row.id },
  { heading: 'STATE', cell: (row) => row.state },
  { heading: 'SINCE', cell: (row) => timeText(row.createdAt) },
  { heading: 'PIN', wide: true, cell: (row) => row.pin, cuts: true },
];

const CERTIFICATE_COLUMNS: readonly Column<CertificateRow>[] = [
  { heading: 'SCOPE', cell: (row) => row.scope },
  { heading: 'CERTIFICATE', cell: (row) => row.leaf },
  { heading: 'TO', cell: (row) => row.to },
  { heading: 'STATE', cell: (row) => row.state },
  { heading: 'UNTIL', cell: (row) => timeText(row.notAfter) },
  { heading: 'SUBJECT', cell: (row) => row.subject, cuts: true },
  { heading: 'ISSUER', wide: true, cell: (row) => row.issuer, cuts: true },
  { heading: 'SERIAL', wide: true, cell: (row) => row.serial },
];

/**
 * `muster pki status`: prints keysets, then certificates, with the certificate that expires first
 * at the top: those of one cluster, or those of all clusters and of the boot host itself.
 */
export async function pkiStatus(cluster: string | undefined, options: Options, io: Io): Promise<number> {
  const format = formatOf(options.output, ['table', 'wide', 'json', 'yaml'] as const, 'table');
  const { items } = await openClient(options, io).call<{ items: ScopeStatus[] }>(
    'GET',
    cluster === undefined ? '/v1/pki' : `/v1/pki/${encodeURIComponent(cluster)}`,
  );
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
    io.out(
      `${tableText(KEYSET_COLUMNS, keysets, lookOf(io, wide))}\n${tableText(CERTIFICATE_COLUMNS, certificates, lookOf(io, wide))}`,
    );
  }
  return EXIT.ok;
}

/**
 * `muster kubeconfig`: prints a kubeconfig with a certificate that is made for this call. The
 * default user is the caller, from SUDO_USER or USER.
 */
export async function kubeconfig(
  cluster: string,
  options: ServerOptions & { readonly user?: string },
  io: Io,
): Promise<number> {
  const user = options.user ?? (io.env.SUDO_USER || io.env.USER || 'admin');
  const client = openClient(options, io);
  io.out(
    await client.call<string>('POST', `/v1/clusters/${encodeURIComponent(cluster)}/kubeconfig`, {
      query: { user },
    }),
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
  const rearmed = await openClient(options, io).call<{ name: string; endedAlarm?: string }>(
    'POST',
    `/v1/machines/${encodeURIComponent(machine)}/rearm`,
    { query: options.keep ? { keep: 'true' } : {} },
  );
  io.out(`machine/${rearmed.name} rearmed\n`);
  if (rearmed.endedAlarm === undefined) io.err('  it had no alarm\n');
  return EXIT.ok;
}
