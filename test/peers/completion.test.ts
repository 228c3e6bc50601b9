/** The completion scripts in real shells, with the real command behind them. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';

const ROOT = path.join(import.meta.dirname, '../..');
let directory: string;

beforeAll(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-completion-'));
  fs.writeFileSync(path.join(directory, 'machines.yaml'), '');
  fs.symlinkSync(path.join(ROOT, 'bin/muster'), path.join(directory, 'muster'));
});
afterAll(() => fs.rmSync(directory, { recursive: true }));

/** The lines that a shell prints for a script. */
function lines(shell: readonly [string, ...string[]], script: string): readonly string[] {
  const [command, ...args] = shell;
  const done = spawnSync(command, [...args, '-c', script], {
    cwd: directory,
    encoding: 'utf8',
    env: { PATH: `${directory}:${process.env.PATH}`, HOME: directory, TERM: 'dumb' },
  });
  expect(done.stderr).toBe('');
  return done.stdout.split('\n').filter((line) => line !== '');
}

/** What a shell offers for the last of these words. */
const OFFERS: Readonly<Record<string, (words: readonly string[]) => readonly string[]>> = {
  bash: (words) =>
    lines(
      ['bash', '--norc'],
      `source <(muster completion bash); COMP_WORDS=(muster ${words.map((word) => `'${word}'`).join(' ')})
COMP_CWORD=${words.length}; _muster; printf '%s\\n' "\${COMPREPLY[@]}"`,
    ),
  // compadd and _files only work inside the line editor: here they print what they are given
  zsh: (words) =>
    lines(
      ['zsh', '-f'],
      `compdef() { :; }; compadd() { shift; print -l -- "$@"; }; _files() { print -l -- *; }
source <(muster completion zsh); words=(muster ${words.map((word) => `'${word}'`).join(' ')})
CURRENT=$#words; _muster`,
    ),
  fish: (words) =>
    lines(
      ['fish', '--no-config'],
      `muster completion fish | source; complete -C 'muster ${words.join(' ')}'`,
    ).map((line) => line.split('\t')[0]!),
};

it.for(Object.keys(OFFERS))('%s offers verbs, values and files', { timeout: 60_000 }, (shell) => {
  const offers = OFFERS[shell]!;
  expect(offers(['vali'])).toEqual(['validate']);
  expect(offers(['cluster', 'remove-'])).toEqual(['remove-node']);
  expect(offers(['image', 'build', ''])).toEqual(['debian', 'discovery', 'probe']);
  expect(offers(['explain', '--firmware', 'u'])).toEqual(['uefi']);
  expect(offers(['apply', '-f', 'mach'])).toContain('machines.yaml');
});
