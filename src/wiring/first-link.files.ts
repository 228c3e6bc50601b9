/**
 * Shows the one-time link of the first administrator: on the terminal where the server was started,
 * and otherwise in a file that only the server's user may read. It is in no log.
 */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isatty } from 'node:tty';
import type { FirstLink } from '../api/accounts/first-link.ts';
import type { Log } from '../base/log.ts';
import type { ServeOptions } from '../cli/serve/options.ts';

const FILE = 'first-link';

/** Without a link, the file of an earlier start is removed. */
export function showFirstLink(
  first: FirstLink | undefined,
  { state }: Pick<ServeOptions, 'state'>,
  log: Log,
): void {
  const file = join(state, FILE);
  rmSync(file, { force: true });
  if (first === undefined) return;
  const until = new Date(first.until).toISOString();
  if (isatty(2)) {
    process.stderr.write(
      `Nobody can log in yet. This link makes you the administrator, once, until ${until}:\n`,
    );
    process.stderr.write(`  ${first.link}\n`);
    return;
  }
  writeFileSync(file, `${first.link}\n`, { mode: 0o600 });
  log.warn({ file, until }, 'nobody can log in yet: the file has a link that makes one administrator, once');
}
