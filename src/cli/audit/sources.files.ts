/**
 * Files of a security log for `muster audit verify`: a directory of segments, or one exported file.
 */
import { createReadStream } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { messageOf } from '../../base/error-text.ts';
import { MusterError } from '../../base/errors.ts';
import { segmentStart } from '../../events/audit-segments.files.ts';

export interface AuditFile {
  readonly name: string;
  readonly pieces: AsyncIterable<string>;
}

const failed = (path: string, error: unknown): MusterError =>
  new MusterError('E_AUDIT_FILE', `${path}: ${messageOf(error)}`, { cause: error });

/**
 * The files to read, oldest first.
 * @throws {MusterError} E_AUDIT_FILE when there are none; reading a file may throw it too.
 */
export async function auditFiles(path: string): Promise<readonly AuditFile[]> {
  if (path === '-') {
    process.stdin.setEncoding('utf8');
    return [{ name: 'standard input', pieces: process.stdin as AsyncIterable<string> }];
  }
  try {
    if (!(await stat(path)).isDirectory()) return [{ name: basename(path), pieces: piecesOf(path) }];
    const found = (await readdir(path)).flatMap((name) => {
      const first = segmentStart(name);
      return first === undefined ? [] : [{ name, first }];
    });
    if (found.length > 0)
      return found
        .sort((a, b) => a.first - b.first)
        .map(({ name }) => ({ name, pieces: piecesOf(join(path, name)) }));
  } catch (error) {
    throw failed(path, error);
  }
  throw new MusterError('E_AUDIT_FILE', `${path} has no files named audit-NUMBER.jsonl`);
}

async function* piecesOf(path: string): AsyncGenerator<string> {
  try {
    for await (const piece of createReadStream(path, { encoding: 'utf8' })) yield piece as string;
  } catch (error) {
    throw failed(path, error);
  }
}

/** The text of a small file. @throws {MusterError} E_AUDIT_FILE */
export async function readTextFile(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw failed(path, error);
  }
}
