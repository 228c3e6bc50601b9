/** Texts named on the command line: files, directories of YAML, `-` for standard input. */
import fs from 'node:fs';
import path from 'node:path';
import type { DocumentSource } from '../api/deps.ts';
import { MusterError } from '../base/errors.ts';

const DOCUMENT_FILE = /\.(ya?ml|json)$/;

/**
 * The texts of `paths`, each with the name that faults will show. A directory stands for its YAML and JSON files and those
 * of its subdirectories, ordered by name, hidden ones left out. Throws E_FILE_READ.
 */
export function readSources(paths: readonly string[]): DocumentSource[] {
  return paths.flatMap((name) => {
    if (name === '-') return [{ file: 'stdin', text: read(0, 'standard input') }];
    if (!stat(name).isDirectory()) return [{ file: name, text: read(name, name) }];
    const files = documentFiles(name);
    if (files.length === 0)
      throw new MusterError('E_FILE_READ', `${name} holds no .yaml, .yml or .json file`);
    return files.map((file) => ({ file, text: read(file, file) }));
  });
}

function documentFiles(directory: string): string[] {
  const entries = fs
    .readdirSync(directory, { withFileTypes: true })
    .filter((entry) => !entry.name.startsWith('.'))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  return entries.flatMap((entry) => {
    const file = path.join(directory, entry.name);
    if (entry.isDirectory()) return documentFiles(file);
    return DOCUMENT_FILE.test(entry.name) ? [file] : [];
  });
}

function stat(name: string): fs.Stats {
  try {
    return fs.statSync(name);
  } catch (cause) {
    throw fileError(name, cause);
  }
}

function read(file: string | number, shown: string): string {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch (cause) {
    throw fileError(shown, cause);
  }
}

function fileError(name: string, cause: unknown): MusterError {
  const { code, message } = cause as NodeJS.ErrnoException;
  const why =
    code === 'ENOENT'
      ? 'there is no such file or directory'
      : code === 'EACCES'
        ? 'permission denied'
        : message;
  return new MusterError('E_FILE_READ', `${name}: ${why}`, { cause });
}
