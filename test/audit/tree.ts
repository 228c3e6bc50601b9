/**
 * The tree as the audits see it: files by folder, their text without comments, what they import.
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = path.dirname(path.dirname(path.dirname(fileURLToPath(import.meta.url))));

/**
 * Paths, from the root, of all files that git tracks or would track; what is ignored is left out.
 */
export function trackedFiles(): string[] {
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '-z'], { cwd: ROOT });
  return listed
    .toString('utf8')
    .split('\0')
    .filter((file) => file !== '' && fs.existsSync(path.join(ROOT, file)))
    .sort();
}

export const read = (file: string): string => fs.readFileSync(path.join(ROOT, file), 'utf8');

/** TypeScript below `folder`, with that of the page. */
export const sources = (folder: string): string[] =>
  trackedFiles().filter((file) => file.startsWith(`${folder}/`) && /\.tsx?$/.test(file));

/**
 * The code without comments but with its line breaks and texts, so that words in comments are no
 * findings.
 */
export function withoutComments(code: string): string {
  return code.replace(
    /('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`)|\/\*[\s\S]*?\*\/|(?<![:\\/])\/\/[^\n]*/g,
    (all, text: string | undefined) => text ?? all.replace(/[^\n]/g, ' '),
  );
}

export interface Import {
  readonly specifier: string;
  /** `import type`: nothing is loaded. */
  readonly typeOnly: boolean;
  /** `import(…)` inside a function: loaded when it runs. */
  readonly lazy: boolean;
}

export function importsOf(file: string): Import[] {
  const code = withoutComments(read(file));
  const found: Import[] = [];
  for (const [, kind, specifier] of code.matchAll(
    /^\s*(?:import|export)\s+(type\s)?(?:[\w*{][^;'"`]*?\sfrom\s+)?['"]([^'"]+)['"]/gm,
  ))
    found.push({ specifier: specifier!, typeOnly: kind !== undefined, lazy: false });
  for (const [, specifier] of code.matchAll(/\bimport\(\s*['"]([^'"]+)['"]\s*\)/g))
    found.push({ specifier: specifier!, typeOnly: false, lazy: true });
  return found;
}
