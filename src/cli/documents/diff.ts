/** `muster diff -f`: prints what `apply` would change, as a unified diff. */
import { FILE_HEADERS_ONLY, formatPatch, structuredPatch } from 'diff';
import type { Applied } from '../../resources/catalog.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { painted } from '../color.ts';
import { EXIT, type Io, printWarnings } from '../io.ts';
import { yamlText } from '../output.ts';
import { applyThrough } from './apply.ts';
import { consequencesText, profilesText } from './consequences.ts';

/** Exit code 0: no differences; 1: there are differences. A failure is 2 (see command-line.ts). */
export async function diff(
  options: ServerOptions & { readonly filename: readonly string[] },
  io: Io,
): Promise<number> {
  const client = openClient(options, io);
  const {
    results,
    warnings,
    consequences = [],
    profiles = [],
  } = await applyThrough(client, options.filename, true, io.signal);
  const changed = results.filter(({ action }) => action !== 'unchanged');
  for (const result of changed) io.out(colored(documentDiff(result), io.color));
  io.out(profilesText(profiles) + consequencesText(consequences));
  printWarnings(warnings, io);
  return changed.length > 0 ? 1 : EXIT.ok;
}

function documentDiff({ kind, name, before, after }: Applied): string {
  const label = `${kind}/${name}`;
  return unifiedDiff(
    before === undefined ? '' : yamlText(before),
    after === undefined ? '' : yamlText(after),
    before === undefined ? '/dev/null' : `live/${label}`,
    `new/${label}`,
  );
}

function colored(text: string, color: boolean): string {
  if (!color) return text;
  return text.replace(/^([-+@]).*$/gm, (line, sign: string) =>
    painted(line, sign === '+' ? 'green' : sign === '-' ? 'red' : 'cyan', true),
  );
}

/** The unified format (POSIX diff -u) of two texts; empty when they are equal. */
export function unifiedDiff(a: string, b: string, nameA: string, nameB: string): string {
  const patch = structuredPatch(nameA, nameB, a, b, undefined, undefined, { context: 3 });
  return patch.hunks.length === 0 ? '' : formatPatch(patch, FILE_HEADERS_ONLY);
}
