/** `muster lab run`: builds the virtual rack and plays a scenario in it. */
import { MusterError } from '../../base/errors.ts';
import { projectRoot } from '../../base/paths.ts';
import { enterNamespace, insideNamespace } from '../../lab/namespace.files.ts';
import { inheritedPage, openPage, pagePort } from '../../lab/page.socket.ts';
import { loadScenario, prepareImages, runScenario, settingsOf } from '../../lab/run.files.ts';
import { EXIT, type Io } from '../io.ts';

export interface LabRunOptions {
  readonly json?: boolean;
  readonly keep?: boolean;
  readonly page?: string;
  readonly imageCache?: string;
  readonly parallel?: string;
}

/**
 * `muster lab run`: plays the scenario of `file`. The exit code is 0 only if every expectation was
 * met. Outside a namespace of its own, the process replaces itself with one inside a new namespace.
 *
 * @throws {MusterError} E_USAGE when `--parallel` or `--page` is out of its range.
 */
export async function run(file: string, options: LabRunOptions, io: Io): Promise<number> {
  const scenario = await loadScenario(file);
  if (options.parallel !== undefined && !/^[1-9][0-9]?$/.test(options.parallel))
    throw new MusterError('E_USAGE', `--parallel "${options.parallel}" is not a number from 1 to 99`);
  const port = options.page === undefined ? undefined : pagePort(options.page);
  const common = {
    project: projectRoot(),
    imageCache: options.imageCache,
    parallel: options.parallel === undefined ? undefined : Number(options.parallel),
    say: (text: string) => io.err(text),
    signal: io.signal,
  };
  if (!insideNamespace()) {
    const page = port === undefined ? {} : await openPage(port);
    enterNamespace({ ...settingsOf(await prepareImages(scenario, common)), ...page });
  }
  const result = await runScenario(scenario, {
    ...common,
    page: inheritedPage(io.env),
    keep: options.keep ?? false,
  });
  if (options.json) io.out(`${JSON.stringify(result)}\n`);
  return result.ok ? EXIT.ok : EXIT.failure;
}
