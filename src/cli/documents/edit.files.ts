/** The verb `muster edit KIND NAME`: a document in the operator's own editor. */
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type Fault, MusterError } from '../../base/errors.ts';
import { fileOwned } from '../../resources/apply.ts';
import type { ApplyResult } from '../../resources/catalog.ts';
import { PLURAL } from '../../resources/kinds.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, faultLine, type Io, printWarnings } from '../io.ts';
import { kindAndNames, kindOf } from '../names.ts';
import { yamlText } from '../output.ts';
import { fetchItems } from './get.ts';

interface EditOptions extends ServerOptions {
  /** Names of clusters in which changes that need it are accepted. */
  readonly confirm?: readonly string[];
}

/** The most times that a text with faults is shown again: an editor may be a script. */
const MOST_ROUNDS = 100;

/**
 * `muster edit`: opens a document in an editor and applies what was saved. A text with faults is
 * shown again with the faults above it, until it is right or saved unchanged. A document that
 * somebody else changed meanwhile is not overwritten. What could not be applied stays in a file,
 * which is named.
 *
 * @throws {MusterError} E_USAGE without one name or when the editor fails, E_NOT_FOUND,
 *   E_FILE_OWNED
 */
export async function edit(words: readonly string[], options: EditOptions, io: Io): Promise<number> {
  const { kind: word, names } = kindAndNames(words);
  const kind = kindOf(word);
  const [name, ...more] = names;
  if (name === undefined || more.length > 0)
    throw new MusterError('E_USAGE', `write it muster edit ${word} NAME: one document at a time`);
  const client = openClient(options, io);
  const { items, missing } = await fetchItems(client, kind, [name]);
  if (missing[0]) throw missing[0];
  const { status, ...document } = items[0]!;
  const { origin } = status;
  if (origin === undefined)
    throw new MusterError(
      'E_NOT_FOUND',
      `${name} was only seen and has no document; \`muster machine accept ${name}\` makes one`,
    );
  if (origin.from === 'file') throw new MusterError('E_FILE_OWNED', fileOwned(`${kind}/${name}`, origin.at));

  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-edit-'));
  const file = path.join(directory, `${name}.yaml`);
  const before = yamlText(document);
  let shown = before;
  let faults: readonly Fault[] = [];
  for (let round = 0; round < MOST_ROUNDS; round++) {
    fs.writeFileSync(file, remarks(faults) + shown, { mode: 0o600 });
    await runEditor(file, io);
    const text = withoutRemarks(fs.readFileSync(file, 'utf8'));
    if (text === before || text.trim() === '') {
      fs.rmSync(directory, { recursive: true });
      io.err(`${text === before ? 'Nothing was changed' : 'The file is empty'}; nothing was applied.\n`);
      return EXIT.ok;
    }
    if (faults.length > 0 && text === shown) break;
    try {
      const { action, warnings } = await client.call<ApplyResult['results'][number] & ApplyResult>(
        'PUT',
        `/v1/${PLURAL[kind]}/${encodeURIComponent(name)}`,
        {
          query: { confirm: options.confirm?.join(',') },
          headers: {
            'content-type': 'application/yaml',
            'if-match': `"r${origin.revision}"`,
            'x-muster-file': `${name}.yaml`,
          },
          body: text,
        },
      );
      fs.rmSync(directory, { recursive: true });
      io.out(`${kind.toLowerCase()}/${name} ${action === 'unchanged' ? 'unchanged' : 'edited'}\n`);
      printWarnings(warnings, io);
      return EXIT.ok;
    } catch (error) {
      if (!(error instanceof MusterError)) throw error;
      shown = text;
      faults = error.faults;
      // What is not in the text is not mended there: the document was changed meanwhile.
      if (error.code === 'E_CONFLICT' || faults.length === 0) {
        faults = [{ code: error.code, message: error.message }];
        break;
      }
    }
  }
  for (const fault of faults) io.err(`${faultLine(fault)}\n`);
  io.err(`Nothing was applied. Your text is in ${file}\n`);
  return EXIT.failure;
}

/** Lines with the faults, which count the lines that are written above the text. */
function remarks(faults: readonly Fault[]): string {
  if (faults.length === 0) return '';
  const added = faults.length + 1;
  const lines = faults.map(({ at, ...fault }) =>
    faultLine(at === undefined ? fault : { ...fault, at: { ...at, line: at.line + added } }),
  );
  return ['Nothing was applied. Correct it, or save it unchanged to give up:', ...lines]
    .map((line) => `#! ${line.replace(/\s+/g, ' ')}\n`)
    .join('');
}

const withoutRemarks = (text: string): string => text.replace(/^(#! .*\n)+/, '');

/** Runs $VISUAL, $EDITOR or vi on a file; with words of its own, as in `code --wait`. */
async function runEditor(file: string, { env, signal }: Io): Promise<void> {
  const editor = env.VISUAL || env.EDITOR || 'vi';
  const child = spawn('/bin/sh', ['-c', `${editor} "$1"`, 'sh', file], {
    stdio: 'inherit',
    env: { ...process.env, ...env },
    signal,
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  if (code !== 0)
    throw new MusterError(
      'E_USAGE',
      `the editor "${editor}" ended with ${code ?? 'a signal'}; nothing was applied. Your text is in ${file}; $EDITOR names another editor`,
    );
}
