/**
 * `muster serve`: turns command line and environment into ServeOptions; src/main.ts does the rest.
 */
import { collectRarely } from '../../base/collector.ts';
import { EXIT, type Io } from '../io.ts';
import { type GivenSettings, misspeltVariables, serveOptions } from './options.ts';
import { makeStateDirectory } from './state-directory.files.ts';

/**
 * `muster serve`: runs the server until the process gets a signal to stop.
 *
 * @throws {MusterError} E_USAGE for a setting that is wrong, and what the start of the server
 *   throws.
 */
export async function serve(given: GivenSettings, io: Io): Promise<number> {
  const options = serveOptions(given, io.env);
  for (const text of misspeltVariables(io.env)) io.err(`warning: ${text}\n`);
  makeStateDirectory(options.state);
  collectRarely();
  const main = await import('../../main.ts');
  await main.serve(options);
  return EXIT.ok;
}
