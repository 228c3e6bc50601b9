/** Makes the server's state directory. */
import fs from 'node:fs';
import path from 'node:path';
import { MusterError } from '../../base/errors.ts';

/**
 * Makes the directory and the missing directories above it. Node's own recursive mkdir never
 * returns when the kernel reports a missing parent that does exist, as in /proc.
 *
 * @throws {MusterError} E_STORE_OPEN when a directory cannot be made.
 */
export function makeStateDirectory(directory: string): void {
  const missing: string[] = [];
  let here = path.resolve(directory);
  while (!fs.existsSync(here)) {
    missing.unshift(here);
    here = path.dirname(here);
  }
  for (const one of missing)
    try {
      fs.mkdirSync(one, { mode: 0o700 });
    } catch (cause) {
      const { code, message } = cause as NodeJS.ErrnoException;
      if (code === 'EEXIST') continue;
      throw new MusterError('E_STORE_OPEN', `--state ${directory}: ${message}`, { cause });
    }
}
