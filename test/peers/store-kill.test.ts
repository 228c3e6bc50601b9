import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openAt, temporaryDirectory } from '../unit/store/stores.ts';

const ROUNDS = 15;
const CHILD = new URL('store-writer.ts', import.meta.url).pathname;

/**
 * A random generator with a fixed seed, so that a failure can be repeated as far as the timing of a
 * kill allows.
 */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** When to kill: after this many acknowledged commits, or this long after the start. */
type Moment = { readonly acknowledgements: number } | { readonly afterMs: number };

/** Lets a child write to the store and kills it; returns the keys that it saw acknowledged. */
async function writeUntilKilled(path: string, round: number, moment: Moment): Promise<string[]> {
  const child = spawn(process.execPath, [CHILD, path, `${round}`], { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  let lines = 0;
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
    lines += chunk.split('\n').length - 1;
    if ('acknowledgements' in moment && lines > moment.acknowledgements) child.kill('SIGKILL');
  });
  if ('afterMs' in moment) setTimeout(() => child.kill('SIGKILL'), moment.afterMs);
  const [, signal] = (await once(child, 'close')) as [number | null, string | null];
  expect(signal).toBe('SIGKILL');
  return text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .slice(1, -1);
}

test(`a store that is killed ${ROUNDS} times at any moment loses nothing that it acknowledged, and opens again`, async () => {
  const directory = await temporaryDirectory();
  const path = join(directory, 'store.sqlite');
  const next = random(20261120);
  const acknowledged: string[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const moment =
      round % 5 === 4
        ? { afterMs: 40 + next() * 200 }
        : { acknowledgements: 1 + Math.floor(next() ** 2 * 3000) };
    acknowledged.push(...(await writeUntilKilled(path, round, moment)));
    // Sometimes the next writer opens the store that the killed one left, sometimes this process
    // does.
    if (round % 3 < 2 && round < ROUNDS - 1) continue;
    const store = await openAt(path, { keptRevisions: 2000 });
    const { records } = await store.list('');
    const there = new Map(records.map((record) => [record.key, record]));
    const missing = acknowledged.filter((key) => !there.has(key));
    expect(missing).toEqual([]);
    const torn = records.filter(
      (record) => /^[0-9]/.test(record.key) && there.get(`twin/${record.key}`)?.revision !== record.revision,
    );
    expect(torn).toEqual([]);
    await store.close();
  }
  expect(acknowledged.length).toBeGreaterThan(ROUNDS * 100);
  await rm(directory, { recursive: true });
});
