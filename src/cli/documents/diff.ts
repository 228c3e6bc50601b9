/** `muster diff -f`: prints what `apply` would change, as a unified diff. */
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
    before === undefined ? [] : linesOf(yamlText(before)),
    after === undefined ? [] : linesOf(yamlText(after)),
    before === undefined ? '/dev/null' : `live/${label}`,
    `new/${label}`,
  );
}

const linesOf = (text: string): string[] => text.replace(/\n$/, '').split('\n');

function colored(text: string, color: boolean): string {
  if (!color) return text;
  return text.replace(/^([-+@]).*$/gm, (line, sign: string) =>
    painted(line, sign === '+' ? 'green' : sign === '-' ? 'red' : 'cyan', true),
  );
}

type Edit = { readonly sign: ' ' | '-' | '+'; readonly line: string };

const CONTEXT = 3;

/** The unified format (POSIX diff -u) of two texts as lines; empty when they are equal. */
export function unifiedDiff(
  a: readonly string[],
  b: readonly string[],
  nameA: string,
  nameB: string,
): string {
  const edits = editsOf(a, b);
  const keep = edits.map(() => false);
  edits.forEach((edit, n) => {
    if (edit.sign === ' ') return;
    for (let k = Math.max(0, n - CONTEXT); k <= Math.min(edits.length - 1, n + CONTEXT); k++) keep[k] = true;
  });
  let text = '';
  let lineA = 1;
  let lineB = 1;
  for (let n = 0; n < edits.length; ) {
    if (!keep[n]) {
      lineA++;
      lineB++;
      n++;
      continue;
    }
    const hunk: Edit[] = [];
    while (n < edits.length && keep[n]) hunk.push(edits[n++]!);
    const countA = hunk.filter(({ sign }) => sign !== '+').length;
    const countB = hunk.filter(({ sign }) => sign !== '-').length;
    text += `@@ -${rangeText(lineA, countA)} +${rangeText(lineB, countB)} @@\n`;
    text += hunk.map(({ sign, line }) => `${sign}${line}\n`).join('');
    lineA += countA;
    lineB += countB;
  }
  return text === '' ? '' : `--- ${nameA}\n+++ ${nameB}\n${text}`;
}

/** `LINE,COUNT`; a range of no lines names the line before it. */
const rangeText = (line: number, count: number): string => `${count === 0 ? line - 1 : line},${count}`;

/**
 * The edits by the longest common subsequence, after the lines that are equal at both ends.
 * Documents are short, so a quadratic algorithm is fast enough.
 */
function editsOf(a: readonly string[], b: readonly string[]): Edit[] {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  const midA = a.slice(start, a.length - end);
  const midB = b.slice(start, b.length - end);
  const width = midB.length + 1;
  const longest = new Uint32Array((midA.length + 1) * width);
  for (let i = midA.length - 1; i >= 0; i--)
    for (let j = midB.length - 1; j >= 0; j--)
      longest[i * width + j] =
        midA[i] === midB[j]
          ? longest[(i + 1) * width + j + 1]! + 1
          : Math.max(longest[(i + 1) * width + j]!, longest[i * width + j + 1]!);
  const edits: Edit[] = a.slice(0, start).map((line) => ({ sign: ' ', line }));
  let i = 0;
  let j = 0;
  while (i < midA.length || j < midB.length) {
    if (i < midA.length && j < midB.length && midA[i] === midB[j]) {
      edits.push({ sign: ' ', line: midA[i++]! });
      j++;
    } else if (
      j >= midB.length ||
      (i < midA.length && longest[(i + 1) * width + j]! >= longest[i * width + j + 1]!)
    )
      edits.push({ sign: '-', line: midA[i++]! });
    else edits.push({ sign: '+', line: midB[j++]! });
  }
  return [...edits, ...a.slice(a.length - end).map((line): Edit => ({ sign: ' ', line }))];
}
