/** Sessions outlive the server, and end when they should. */
import { expect, it } from 'vitest';
import { openSessions } from '../../../../src/api/accounts/sessions.ts';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration, type Millis } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';

const START = Date.UTC(2026, 10, 28) as Millis;
const ALICE = { name: 'oidc+alice', subject: 'a-1', grants: [{ role: 'viewer' as const }] };

function server() {
  const store = openMemoryStore();
  /** What a start of the server finds, so much later. */
  return {
    store,
    start: (later: Millis = 0 as Millis) =>
      openSessions({ store, clock: new ManualClock((START + later) as Millis), log: silentLog }),
  };
}

it('a session outlives a restart of the server, and then lasts as long as it was to last', async () => {
  const { start, store } = server();
  const text = (await (await start()).begin(ALICE)).text.reveal();
  expect(JSON.stringify(await store.list(''))).not.toContain(text);
  const soon = await start(duration('50m'));
  expect(soon.owner(text)).toEqual({ owner: ALICE, age: duration('50m') });
  expect(soon.owner('another')).toBeUndefined();
  // That was a use, and the next hour counts from it.
  const later = await start(duration('109m'));
  expect(later.owner(text, true)).toMatchObject({ owner: ALICE });
  expect((await start(duration('12h'))).owner(text)).toBeUndefined();
});

it('a session that nobody used for an hour has ended, also while the server was down', async () => {
  const { start, store } = server();
  const text = (await (await start()).begin('ada')).text.reveal();
  expect((await start(duration('61m'))).owner(text)).toBeUndefined();
  expect((await store.list('operator-session/')).records).toEqual([]);
});

it('a session from a future that never was counts for nothing after a restart', async () => {
  const { start } = server();
  const text = (await (await start(duration('400d'))).begin('ada')).text.reveal();
  expect((await start()).owner(text)).toBeUndefined();
});

it('an operator ends one session or all of a person, and restarts do not bring them back', async () => {
  const { start } = server();
  const sessions = await start();
  const [one, two] = [await sessions.begin(ALICE), await sessions.begin(ALICE)];
  const id = sessions.list()[0]!.id;
  expect(two.text.reveal()).not.toContain(id);
  expect(await sessions.endById(id)).toMatchObject({ operator: 'oidc+alice' });
  await expect(sessions.endById(id)).rejects.toMatchObject({ code: 'E_NOT_FOUND' });
  const again = await start();
  expect([one, two].map(({ text }) => again.owner(text.reveal())?.owner)).toEqual([ALICE, undefined]);
  await again.endAll('oidc+alice', 'removed');
  expect([one, two].map(({ text }) => again.whyEnded(text.reveal()))).toEqual(['removed', 'unknown']);
  expect((await start()).list()).toEqual([]);
});

it('whoever only looks whether a session still counts does not prolong it', async () => {
  const store = openMemoryStore();
  const clock = new ManualClock(START);
  const sessions = await openSessions({ store, clock, log: silentLog });
  const text = (await sessions.begin('ada')).text.reveal();
  for (let n = 0; n < 5; n++) {
    clock.advance(duration('10m'));
    expect(sessions.owner(text, true)).toBeDefined();
  }
  clock.advance(duration('10m'));
  expect(sessions.owner(text, true)).toBeUndefined();
});
