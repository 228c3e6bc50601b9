/** `muster sim run`: a cluster of simulated machines to look at. */
import { enterNamespace, insideNamespace } from '../../lab/namespace.files.ts';
import { inheritedPage, openPage, pagePort } from '../../lab/page.socket.ts';
import { runShow } from '../../lab/simulated/show.files.ts';
import { EXIT, type Io } from '../io.ts';
import { LEAST, numberOf } from './storm.ts';

export interface ShowOptions {
  readonly machines?: string;
  readonly page?: string;
}

/** More would be a storm. */
const MOST = 200;
/** So that one sees them come. */
const PER_SECOND = 2;

/**
 * Prints the table of all machines. Outside a namespace of its own, the process replaces itself
 * with one inside a new namespace.
 *
 * @throws {MusterError} E_USAGE when a number is wrong, E_LAB_TOOL when the page is not built.
 */
export async function run(options: ShowOptions, io: Io): Promise<number> {
  const machines = numberOf('--machines', options.machines ?? '12', LEAST, MOST);
  const port = options.page === undefined ? undefined : pagePort(options.page);
  if (!insideNamespace()) enterNamespace(port === undefined ? {} : await openPage(port), { tap: false });
  const say = (text: string) => io.err(text);
  const page = inheritedPage(io.env);
  const table = await runShow({ machines, page, perSecond: PER_SECOND, say, signal: io.signal });
  if (page === undefined) io.out(table);
  return EXIT.ok;
}
