/** `muster import csv|kubespray|netbox`: write documents, and change nothing else. */
import fs from 'node:fs';
import path from 'node:path';
import { messageOf } from '../../base/error-text.ts';
import { MusterError } from '../../base/errors.ts';
import type { TrustTier } from '../../resources/trust.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { fetchItems } from '../documents/get.ts';
import { EXIT, type Io } from '../io.ts';
import { yamlText } from '../output.ts';
import { type Draft, machinesFromCsv } from './csv.ts';
import { foreignYaml, readInventory, scalarsOf } from './inventory.ts';
import { fromKubespray } from './kubespray.ts';
import { readNetbox } from './netbox.socket.ts';
import { machinesFromNetbox, overPresent } from './netbox.ts';
import { writtenFaults } from './written.ts';

interface OutputOptions {
  /** A directory for the documents; absent: standard output. */
  readonly output?: string;
}

/**
 * The text of a file, or of standard input for `-`.
 *
 * @throws {MusterError} E_FILE_READ
 */
export const textOf = (file: string): string => {
  try {
    return fs.readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (cause) {
    throw new MusterError('E_FILE_READ', `${file}: ${(cause as NodeJS.ErrnoException).code}`, { cause });
  }
};

/**
 * `muster import csv`: makes Machine documents from a table.
 *
 * @throws {MusterError} E_USAGE for a table that is not understood; E_FILE_READ
 */
export async function importCsv(file: string, options: OutputOptions, io: Io): Promise<number> {
  return write(machinesFromCsv(textOf(file)), [], options, io);
}

/**
 * `muster import kubespray`: makes documents from an inventory: a file, or the directory that has
 * it together with group_vars.
 *
 * @throws {MusterError} E_USAGE or E_YAML for an inventory that is not understood; E_FILE_READ
 */
export async function importKubespray(
  inventory: string,
  options: OutputOptions & { readonly cluster: string; readonly trust: TrustTier; readonly macs?: string },
  io: Io,
): Promise<number> {
  const file = inventoryIn(inventory);
  const skipped: string[] = [];
  const variables = groupVariables(path.join(path.dirname(file), 'group_vars'), skipped);
  const macs = new Map(
    (options.macs === undefined ? [] : machinesFromCsv(textOf(options.macs))).map((draft) => [
      draft.metadata.name,
      (draft.spec as { readonly macs: readonly string[] }).macs,
    ]),
  );
  const { cluster, trust } = options;
  const of = { cluster, trust, variables, macs };
  const { documents, notes } = fromKubespray(readInventory(textOf(file), file), of);
  return write(documents, [...skipped, ...notes], options, io);
}

/**
 * `muster import netbox`: makes Machine documents from the devices of NetBox.
 *
 * @throws {MusterError} E_USAGE without a token or for a URL that is none, E_FILE_READ, and
 *   what reading NetBox and, with `update`, the server throws
 */
export async function importNetbox(
  url: string,
  options: OutputOptions &
    ServerOptions & {
      readonly filter: string;
      readonly tokenFile?: string;
      readonly profile?: string;
      readonly bmc?: boolean;
      readonly update?: boolean;
    },
  io: Io,
): Promise<number> {
  if (!/^https?:\/\//.test(url) || !URL.canParse(url))
    throw new MusterError('E_USAGE', `"${url}" is not a URL; write it like https://netbox.example`);
  const { tokenFile, filter, profile, bmc = false } = options;
  const token = (tokenFile === undefined ? io.env.NETBOX_TOKEN : textOf(tokenFile))?.trim();
  if (!token)
    throw new MusterError(
      'E_USAGE',
      'NetBox wants a token: name its file by --token-file, or set NETBOX_TOKEN',
    );
  const { devices, interfaces } = await readNetbox({ url, token, signal: io.signal }, filter);
  const made = machinesFromNetbox(devices, interfaces, { bmc, ...(profile !== undefined && { profile }) });
  if (!options.update) return write(made.documents, made.notes, options, io);
  const { items } = await fetchItems(openClient(options, io), 'Machine');
  const { documents, notes } = overPresent(made.documents, items);
  return write(documents, [...made.notes, ...notes], options, io);
}

/** The file of an inventory. */
function inventoryIn(given: string): string {
  if (!fs.existsSync(given)) throw new MusterError('E_FILE_READ', `${given}: ENOENT`);
  if (!fs.statSync(given).isDirectory()) return given;
  const found = [
    'hosts.yaml',
    'hosts.yml',
    'inventory.ini',
    'hosts.ini',
    'hosts',
    'inventory.yaml',
    'inventory.yml',
  ]
    .map((name) => path.join(given, name))
    .find((one) => fs.existsSync(one));
  if (found === undefined)
    throw new MusterError('E_FILE_READ', `${given} has neither hosts.yaml nor inventory.ini; name the file`);
  return found;
}

/** The scalars of all files below group_vars; `skipped` gets those that cannot be read. */
function groupVariables(directory: string, skipped: string[]): Record<string, string> {
  const found: Record<string, string> = {};
  if (!fs.existsSync(directory)) return found;
  const files = fs
    .readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.ya?ml$/.test(entry.name))
    .map((entry) => path.join(entry.parentPath, entry.name))
    .toSorted();
  for (const file of files) {
    try {
      Object.assign(found, scalarsOf(foreignYaml(textOf(file), file)));
    } catch (error) {
      skipped.push(`${messageOf(error)}; this file is not translated`);
    }
  }
  return found;
}

function write(
  documents: readonly Draft[],
  notes: readonly string[],
  { output }: OutputOptions,
  io: Io,
): number {
  const texts = documents.map((draft) => ({ draft, text: yamlText(draft) }));
  const faults = writtenFaults(documents);
  if (output === undefined) io.out(texts.map(({ text }) => text).join('---\n'));
  else {
    fs.mkdirSync(output, { recursive: true });
    for (const { draft, text } of texts) {
      const file = path.join(output, `${draft.kind.toLowerCase()}-${draft.metadata.name}.yaml`);
      if (fs.existsSync(file)) throw new MusterError('E_USAGE', `${file} exists; name another directory`);
      fs.writeFileSync(file, text);
    }
    io.out(`${output} has ${texts.length} documents; look at them, then \`muster apply -f ${output}\`\n`);
  }
  for (const note of notes) io.err(`note: ${note}\n`);
  for (const fault of faults) io.err(`to correct: ${fault}\n`);
  return faults.length > 0 ? EXIT.failure : EXIT.ok;
}
