import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { projectRoot } from '../../../src/base/paths.ts';
import { run } from '../cli/run.ts';
import { openWorld, type World } from './world.ts';

const BOOT = '00000000-0000-4000-8000-000000000001';
const NEXT_BOOT = '00000000-0000-4000-8000-000000000002';
let world: World;
beforeEach(async () => {
  world = await openWorld();
});
afterEach(() => world.close());

test('`muster machine console` prints what a machine printed, and whose claim it is', async () => {
  const none = await run(['machine', 'console', 'node-1', '--socket', world.socket]);
  expect(none).toMatchObject({ code: 0, out: '', err: 'node-1: nothing of its console is kept\n' });
  await world.consoles.take('node-1', { boot: BOOT, lines: ['[    0.000000] Linux version 6.1', 'next'] });
  const shown = await run(['machine', 'console', '52:54:00:aa:00:01', '--socket', world.socket]);
  expect(shown.out).toBe('[    0.000000] Linux version 6.1\nnext\n');
  expect(shown.err).toContain(`What node-1 says of itself in boot ${BOOT}`);
  const other = await run(['machine', 'console', 'node-1', '--boot=-1', '--socket', world.socket]);
  expect(other.err).toContain('nothing is kept of boot "-1"');
});

test('`--follow` prints each line once as it comes, and goes on with the next boot', async () => {
  const stop = new AbortController();
  const take = (boot: string, ...lines: string[]) => world.consoles.take('node-1', { boot, lines });
  await take(BOOT, 'one');
  const steps = [
    () => take(BOOT, 'two', 'three'),
    () => undefined,
    () => take(NEXT_BOOT, 'the next boot'),
    () => take(NEXT_BOOT, 'its end'),
    () => stop.abort(),
  ];
  const { out, err } = await run(['machine', 'console', 'node-1', '--follow', '--socket', world.socket], {
    signal: stop.signal,
    onPause: () => steps.shift()?.(),
  });
  expect(out).toBe('one\ntwo\nthree\nthe next boot\nits end\n');
  expect(err.match(/in boot \S+/g)).toEqual([`in boot ${BOOT},`, `in boot ${NEXT_BOOT},`]);
});

test('Ctrl-C ends `--follow` with the code of the signal', async () => {
  await world.consoles.take('node-1', { boot: BOOT, lines: ['one'] });
  const args = ['machine', 'console', 'node-1', '--follow', '--socket', world.socket];
  const child = spawn(path.join(projectRoot(), 'bin/muster'), args, { stdio: ['ignore', 'pipe', 'ignore'] });
  const ended = once(child, 'close');
  await once(child.stdout, 'data');
  child.kill('SIGINT');
  expect(await ended).toEqual([130, null]);
});

test('the lines after a number are asked for', async () => {
  await world.consoles.take('node-1', { boot: BOOT, lines: ['one', 'two', 'three'] });
  const asked = { params: { name: 'node-1' }, query: { boot: BOOT, after: 1 } };
  const view = await world.client.ask('GET /v1/machines/:name/console', asked);
  expect(view.lines).toEqual([
    { number: 2, text: 'two' },
    { number: 3, text: 'three' },
  ]);
});

test('while a key waits it is said that no code in the lines proves anything', async () => {
  vi.spyOn(world.deps.agents, 'waits').mockReturnValue({ code: 'approval', text: '' });
  await world.consoles.take('node-1', { boot: BOOT, lines: ['one'] });
  const { err } = await run(['machine', 'console', 'node-1', '--socket', world.socket]);
  expect(err).toContain('A key of node-1 waits: a line here may show the code of another key.');
});
