/**
 * `muster render MACHINE`: prints a first-boot configuration, from the server or from a directory.
 */
import type { MachineConfiguration } from '../../api/shown-configuration.ts';
import { MusterError } from '../../base/errors.ts';
import type { ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { formatOf, jsonText, yamlText } from '../output.ts';

export interface RenderOptions extends ServerOptions {
  readonly output?: string;
  /** Directory of documents, used instead of a server. */
  readonly filename?: string;
  /** The only file that is printed; absent prints all. */
  readonly file?: string;
}

/**
 * `muster render`: prints the first-boot configuration of a machine.
 *
 * @throws {MusterError} E_NOT_FOUND when the configuration has no file with the name of `--file`;
 *   and what the server answers.
 */
export async function render(machine: string, options: RenderOptions, io: Io): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const rendered = options.filename
    ? await (await import('./render-local.ts')).renderLocally(options.filename, machine, io)
    : await fromServer(machine, options, io);
  if (options.file !== undefined) {
    const text = (rendered.files as Readonly<Record<string, string>>)[options.file];
    if (text === undefined)
      throw new MusterError(
        'E_NOT_FOUND',
        `there is no file "${options.file}"; there are ${Object.keys(rendered.files).join(', ') || 'none'}`,
      );
    io.out(text);
  } else if (format === 'json') io.out(jsonText(rendered));
  else if (format === 'yaml') io.out(yamlText(rendered));
  else io.out(filesText(rendered));
  return EXIT.ok;
}

async function fromServer(machine: string, options: RenderOptions, io: Io): Promise<MachineConfiguration> {
  const { openClient } = await import('../client.socket.ts');
  const asked = { params: { machine } };
  return (await openClient(options, io).ask('GET /v1/render/:machine', asked)) as MachineConfiguration;
}

/** All files one after the other, each below its name. */
function filesText({ machine, format, files, kernelArguments }: MachineConfiguration): string {
  const parts = Object.entries(files).map(([name, text]) => `==> ${name} <==\n${text.replace(/\n*$/, '\n')}`);
  const head = `machine ${machine}, format ${format}\nkernel arguments: ${kernelArguments.join(' ') || 'none'}\n`;
  return [head, ...parts].join('\n');
}
