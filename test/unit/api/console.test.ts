import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { run } from '../cli/run.ts';
import { openWorld, type World } from './world.ts';

const BOOT = '00000000-0000-4000-8000-000000000001';
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

test('the lines after a number are asked for, and a code of a key that waits is never among them', async () => {
  vi.spyOn(world.deps.agents, 'waiting').mockReturnValue([{ code: '7QK-3FD' } as never]);
  const lines = ['one', 'muster machine approve node-1 7QK-3FD', 'three'];
  await world.consoles.take('node-1', { boot: BOOT, lines });
  const asked = { params: { name: 'node-1' }, query: { boot: BOOT, after: 1 } };
  const view = await world.client.ask('GET /v1/machines/:name/console', asked);
  expect(view.lines).toEqual([
    { number: 2, text: expect.stringMatching(/^\[This line showed an approval code/) },
    { number: 3, text: 'three' },
  ]);
});
