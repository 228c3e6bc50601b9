/** The verbs `muster status`, `muster reload` and `muster version`. */

import type { Overview } from '../../api/concern-watch.ts';
import type { Concern, ConcernCode } from '../../api/concerns.ts';
import type { Readiness } from '../../api/daemon.ts';
import { type Fault, MusterError } from '../../base/errors.ts';
import { VERSION } from '../../base/version.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { type Color, painted } from '../color.ts';
import { EXIT, faultLine, faultsText, type Io } from '../io.ts';
import { formatOf, jsonText, yamlText } from '../output.ts';
import { timeText } from '../times.ts';

interface Options extends ServerOptions {
  readonly output?: string;
}

interface Status extends Readiness {
  readonly version: string;
  readonly faults: readonly Fault[];
  readonly warnings: readonly Fault[];
  /** Where operators log in, and the fingerprint of the CA there. */
  readonly page?: { readonly url: string; readonly authority?: string };
  /** Images that a Profile names and whose files are not all here. */
  readonly incompleteImages: readonly string[];
  /** What needs an operator, the worst first. */
  readonly concerns: readonly Concern[];
  readonly checked: Overview['checked'];
}

/** The most warnings that are listed; further warnings are only counted. */
const WARNINGS_SHOWN = 20;
/** Lists of their own, with places in documents, show these. */
const LISTED: ReadonlySet<ConcernCode> = new Set([
  'boot-host',
  'document-fault',
  'image-incomplete',
  'warning',
]);

/**
 * `muster status`: shows what is wrong, then the server's checks. Exit code 1 when the server is
 * not ready. A server with faults in its documents can be ready, and then the exit code is 0.
 */
export async function status(options: Options, io: Io): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const value = await openClient(options, io).ask('GET /v1/status');
  if (format === 'json') io.out(jsonText(value));
  else if (format === 'yaml') io.out(yamlText(value));
  else io.out(statusText(value, io.color));
  return value.ready ? EXIT.ok : EXIT.failure;
}

/** What was looked at, e.g. `12 machines; blue is ready by 83 checks at 12:00:00`. */
function checkedText({ machines, clusters }: Status['checked']): string {
  const looked = clusters.map(
    ({ name, condition, checks, at }) =>
      `${name} is ${condition}${at === undefined ? '' : ` by ${checks} checks at ${timeText(at)}`}`,
  );
  return [`${machines} ${machines === 1 ? 'machine' : 'machines'}`, ...looked].join('; ');
}

/** Whether all is well, or how much needs an operator. */
function concernsText({ concerns, checked }: Status): string {
  if (concerns.length === 0) return `all is well: ${checkedText(checked)}`;
  const urgent = concerns.filter(({ level }) => level === 'urgent').length;
  return `${urgent} urgent, ${concerns.length - urgent} that can wait: ${checkedText(checked)}`;
}

const pageText = ({ url, authority }: NonNullable<Status['page']>): string =>
  `operators log in at ${url}${authority ? `, whose CA has the SHA-256 fingerprint\n  ${authority}` : ''}\n`;

/** What `muster status` prints: first what is wrong, then the checks. */
export function statusText(value: Status, color: boolean): string {
  const { faults, warnings, incompleteImages, checks } = value;
  // The faults of documents are also among the checks. As faults they are printed with their
  // places, so they are left out of the checks.
  const placed = new Set(faults.map(({ message }) => message));
  const shown = checks.filter(({ detail }) => !placed.has(detail ?? ''));
  const failed = shown.filter(({ ok }) => !ok);
  const line = (word: string, paint: Color, text: string) => `${painted(word, paint, color)} ${text}\n`;
  const checkText = ({ name, detail }: Status['checks'][number]) => `${name}${detail ? `: ${detail}` : ''}`;
  const reserved = faults.length + failed.length + incompleteImages.length > 0;
  const state = value.ready ? (reserved ? 'ready, with reservations' : 'ready') : 'not ready';
  const more = warnings.length - WARNINGS_SHOWN;
  return [
    `muster ${value.version}: ${state}\n`,
    `${concernsText(value)}\n`,
    ...(value.page ? [pageText(value.page)] : []),
    ...failed.map((check) => line('WAIT', 'red', checkText(check))),
    ...value.concerns
      .filter(({ code }) => !LISTED.has(code))
      .map(({ level, subject, text, fix }) =>
        line(level, level === 'urgent' ? 'red' : 'yellow', `${subject}: ${text}\n  ${fix}`),
      ),
    ...faults.map((fault) => line('fault', 'red', faultLine(fault))),
    ...incompleteImages.map((name) =>
      line(
        'image',
        'yellow',
        `${name} is incomplete, and a Profile names it: its machines are held; \`muster image ls -o wide\` shows what is missing`,
      ),
    ),
    ...warnings.slice(0, WARNINGS_SHOWN).map((warning) => line('warning', 'yellow', faultLine(warning))),
    ...(more > 0 ? [`… and ${more} more warnings\n`] : []),
    ...shown.filter(({ ok }) => ok).map((check) => line('ok  ', 'green', checkText(check))),
  ].join('');
}

/**
 * `muster reload`: makes the server read its directories again. Exit code 1 when a file has faults;
 * then the last valid versions stay in force.
 */
export async function reload(
  options: Options & { readonly confirm?: readonly string[] },
  io: Io,
): Promise<number> {
  const query = { confirm: options.confirm?.join(',') };
  const { faults } = await openClient(options, io).ask('POST /v1/reload', { query });
  io.err(faultsText(faults));
  if (faults.length > 0) return EXIT.failure;
  io.out('reloaded\n');
  return EXIT.ok;
}

/** `muster version`: prints the versions. It does not fail when no server answers. */
export async function version(options: Options, io: Io): Promise<number> {
  io.out(`muster ${VERSION}\n`);
  try {
    const client = openClient(options, io);
    const server = await client.ask('GET /version');
    io.out(`server ${server.version} (node ${server.node})\n`);
  } catch (error) {
    if (!(error instanceof MusterError)) throw error;
  }
  return EXIT.ok;
}
