/** `muster serve`: command line and environment into ServeOptions; src/main.ts does the rest. */
import { collectRarely } from '../../base/collector.ts';
import { EXIT, type Io } from '../io.ts';
import { type GivenSettings, serveOptions } from './options.ts';

/** Runs until the process is told to stop. */
export async function serve(given: GivenSettings, io: Io): Promise<number> {
  const options = serveOptions(given, io.env);
  collectRarely();
  const main = await import('../../main.ts');
  await main.serve(options);
  return EXIT.ok;
}
