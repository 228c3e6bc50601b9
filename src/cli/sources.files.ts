/** Texts named on the command line: files, directories of YAML, `-` for standard input. */
import fs from 'node:fs';
import type { DocumentSource } from '../api/deps.ts';
import { MusterError } from '../base/errors.ts';
import { scan } from '../resources/directory.files.ts';

/**
 * The texts of `paths`, each with the name that faults will show. A directory stands for the files that `muster serve --config`
 * would read there. Throws E_FILE_READ.
 */
export function readSources(paths: readonly string[]): DocumentSource[] {
  return paths.flatMap((name) => {
    if (name === '-') return [{ file: 'stdin', text: read(0, 'standard input') }];
    if (!stat(name).isDirectory()) return [{ file: name, text: read(name, name) }];
    const files = [...scan(name).files.keys()];
    if (files.length === 0) throw new MusterError('E_FILE_READ', `${name} holds no .yaml or .yml file`);
    return files.map((file) => ({ file, text: read(file, file) }));
  });
}

/** The octets of a file. Throws E_FILE_READ. */
export function readOctets(name: string): Uint8Array {
  try {
    return fs.readFileSync(name);
  } catch (cause) {
    throw fileError(name, cause);
  }
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
