/** `muster lab run SCENARIO.yaml`: the virtual rack. */
import { type Command, Option } from 'commander';
import { MusterError } from '../base/errors.ts';
import { EXIT, type Io } from './io.ts';

interface LabRunOptions {
  readonly json?: boolean;
  readonly keep?: boolean;
  readonly imageCache?: string;
  readonly parallel?: string;
}

/** Adds `muster lab` to the command tree. */
export function registerLab(program: Command, io: Io, finish: (code: number) => void): void {
  const lab = program.command('lab').description('The virtual rack: real firmware in QEMU, in a namespace.');
  lab
    .command('run')
    .summary('run scenarios')
    .description(
      'Builds a rack in a namespace of its own, powers its machines on against a real `muster serve`, and checks what the scenario expects. Exit code 0 only if all of it held.',
    )
    .argument('<scenario>', 'YAML file, e.g. lab/boot-uefi.yaml')
    .option('--json', 'end with one JSON object on standard output')
    .option('--keep', 'leave everything running at the end until interrupted')
    .addOption(new Option('--image-cache <dir>', 'where images are built and kept; default: .cache/images'))
    .addOption(new Option('--parallel <count>', 'machines that may boot at the same time'))
    .action(async (scenario: string, options: LabRunOptions) => finish(await run(scenario, options, io)));
}

async function run(file: string, options: LabRunOptions, io: Io): Promise<number> {
  const { enterNamespace, insideNamespace } = await import('../lab/namespace.files.ts');
  const { loadScenario, prepareImages, runScenario, settingsOf } = await import('../lab/run.files.ts');
  const { projectRoot } = await import('../base/paths.ts');
  const scenario = await loadScenario(file);
  if (options.parallel !== undefined && !/^[1-9][0-9]?$/.test(options.parallel))
    throw new MusterError('E_USAGE', `--parallel "${options.parallel}" is not a number from 1 to 99`);
  const common = {
    project: projectRoot(),
    imageCache: options.imageCache,
    parallel: options.parallel === undefined ? undefined : Number(options.parallel),
    say: (text: string) => io.err(text),
    signal: io.signal,
  };
  if (!insideNamespace()) {
    enterNamespace(settingsOf(await prepareImages(scenario, common)));
  }
  const result = await runScenario(scenario, { ...common, keep: options.keep ?? false });
  if (options.json) io.out(`${JSON.stringify(result)}\n`);
  return result.ok ? EXIT.ok : EXIT.failure;
}
