import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { run } from './run.ts';

const { out: script } = await run(['completion', 'bash']);

/**
 * What bash would offer after these words; `muster` itself is a function that knows two machines.
 */
function offered(...words: string[]): string[] {
  const line = words.map((word) => `'${word}'`).join(' ');
  const program = `
muster() { [ "$1 $2" = "get machines" ] && printf 'machine/node-1\\nmachine/node-2\\n'; }
${script}
COMP_WORDS=(muster ${line}); COMP_CWORD=${words.length}; COMPREPLY=()
_muster
printf '%s\\n' "\${COMPREPLY[@]}"`;
  const done = spawnSync('bash', ['--norc', '-c', program], { encoding: 'utf8' });
  expect(done.stderr).toBe('');
  return done.stdout.split('\n').filter((word) => word !== '');
}

it('offers verbs', () => {
  expect(offered('va')).toEqual(['validate']);
  expect(offered('')).toEqual(expect.arrayContaining(['apply', 'get', 'machine', 'serve']));
});

it('offers verbs below verbs, and their options', () => {
  expect(offered('machine', '')).toEqual(expect.arrayContaining(['add', 'accept']));
  expect(offered('machine', 'add', '--pro')).toEqual(['--profile']);
  expect(offered('machine', 'add', '--fi')).toEqual([]);
});

it('offers what an option takes', () => {
  expect(offered('get', 'machines', '-o', '')).toEqual(['table', 'wide', 'json', 'yaml', 'name']);
  expect(offered('explain', 'node-1', '--firmware', 'b')).toEqual(['bios']);
  expect(offered('apply', '-f', '/etc/host')).toContain('/etc/hosts');
});

it('offers kinds, then the names that the server knows', () => {
  expect(offered('get', 'pro')).toEqual(['profiles']);
  expect(offered('get', 'machines', 'node-')).toEqual(['node-1', 'node-2']);
  expect(offered('render', 'node-')).toEqual(['node-1', 'node-2']);
});

it('is refused for other shells', async () => {
  expect(await run(['completion', 'csh'])).toMatchObject({ code: 2 });
});
