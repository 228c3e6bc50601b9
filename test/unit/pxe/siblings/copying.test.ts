/** Files that a boot host fetches from the others, with a real directory of files. */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { ManualClock } from '../../../../src/base/clock.ts';
import { millis } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { type Assets, openAssets } from '../../../../src/pxe/assets/assets.files.ts';
import { Copying, type Sibling } from '../../../../src/pxe/siblings/copying.ts';
import type { Wanted } from '../../../../src/pxe/siblings/wire.ts';

const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

const FILES = ['first', 'second', 'third'].map((text) => Buffer.from(text.repeat(1000)));
const hashOf = (octets: Uint8Array): string => createHash('sha256').update(octets).digest('hex');
const [ONE, TWO, THREE] = FILES.map(hashOf) as [string, string, string];
const wantedOf = (files: readonly string[], removed: readonly string[] = []): Wanted => ({
  ...{ v: 1, files: files.map((sha256) => ({ sha256, size: 1 })), removed: [...removed] },
});

interface World {
  readonly assets: Assets;
  readonly copying: Copying;
  readonly clock: ManualClock;
  readonly asked: string[];
}

/** A host that stands by, and others that have these files. */
async function standby(
  wanted: () => Wanted,
  others: Readonly<Record<string, readonly Buffer[]>>,
  {
    rate = 1e9,
    before = async () => {},
    content = (octets: Buffer) => octets,
  }: {
    readonly rate?: number;
    readonly before?: (assets: Assets) => Promise<void>;
    readonly content?: (octets: Buffer, host: string) => Buffer;
  } = {},
): Promise<World> {
  const directory = fs.mkdtempSync(join(tmpdir(), 'muster-copying-'));
  const assets = await openAssets({ directory, loaderDirectories: [], log: silentLog });
  await before(assets);
  const clock = new ManualClock();
  const ending = new AbortController();
  const asked: string[] = [];
  const siblings = Object.entries(others).map(
    ([host, files], n): Sibling => ({
      host,
      acts: n === 0,
      wanted: async () => (n === 0 ? wanted() : undefined),
      async file(sha256, offset) {
        asked.push(`${host} ${sha256} ${offset}`);
        const found = files.find((octets) => hashOf(octets) === sha256);
        if (found === undefined) return 'lacks';
        if (offset >= found.length) return 'shorter';
        const octets = content(found, host);
        return {
          total: octets.length,
          body: (async function* () {
            yield octets.subarray(offset);
          })(),
        };
      },
    }),
  );
  const copying = new Copying({
    ...{ assets, rate, clock, log: silentLog, signal: ending.signal },
    siblings: () => siblings,
    own: () => undefined,
    changed: () => {},
  });
  stops.push(async () => {
    ending.abort();
    await copying.ended;
    fs.rmSync(directory, { recursive: true });
  });
  return { assets, copying, clock, asked };
}

const settled = ({ copying }: World, lacking: number) =>
  expect.poll(() => copying.said?.lacking, { timeout: 30_000 }).toBe(lacking);

test('each file comes from the first host that has it, and a file that nobody has is named', async () => {
  const world = await standby(() => wantedOf([ONE, TWO, THREE]), {
    host1: [FILES[0]!],
    host2: [FILES[0]!, FILES[1]!],
  });
  await settled(world, 1);
  const names = (await world.assets.list()).map(({ sha256 }) => sha256);
  expect(names).toEqual([ONE, TWO].toSorted());
  expect(world.copying.said).toMatchObject({ lacks: [THREE], trouble: { code: 'nowhere' } });
  expect(world.asked.filter((one) => one.includes(ONE))).toEqual([`host1 ${ONE} 0`]);
});

test('what is left of a file is continued, and begun again when it was wrong', async () => {
  const part = (sha256: string, octets: Buffer) => async (assets: Assets) =>
    void (await assets.receive({
      ...{
        sha256,
        offset: 0,
        total: FILES[0]!.length,
        body: (async function* () {
          yield octets;
        })(),
      },
    }));
  const good = await standby(
    () => wantedOf([ONE]),
    { host1: [FILES[0]!] },
    {
      before: part(ONE, FILES[0]!.subarray(0, 100)),
    },
  );
  await settled(good, 0);
  expect(good.asked).toEqual([`host1 ${ONE} 100`]);
  const bad = await standby(
    () => wantedOf([ONE]),
    { host1: [FILES[0]!] },
    {
      before: part(ONE, Buffer.alloc(100)),
    },
  );
  await settled(bad, 0);
  expect(bad.asked).toEqual([`host1 ${ONE} 100`, `host1 ${ONE} 0`]);
});

test('a host that sends another file is left for the next one, and not asked again at once', async () => {
  const world = await standby(
    () => wantedOf([ONE]),
    { host1: [FILES[0]!] },
    {
      content: () => Buffer.from('something else'),
    },
  );
  await expect.poll(() => world.copying.said?.trouble?.code, { timeout: 30_000 }).toBe('damaged');
  for (let n = 0; n < 5; n++) {
    world.clock.advance(millis(5000));
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(world.asked).toEqual([`host1 ${ONE} 0`]);
  expect(await world.assets.list()).toEqual([]);
  const other = await standby(
    () => wantedOf([ONE]),
    { host1: [FILES[0]!], host2: [FILES[0]!] },
    {
      content: (octets, host) => (host === 'host1' ? Buffer.from('something else') : octets),
    },
  );
  await settled(other, 0);
});

test('a file is removed when an operator removed it, and stays when nobody said so', async () => {
  const lists = [wantedOf([ONE, TWO, THREE]), wantedOf([THREE], [ONE, THREE])];
  const world = await standby(() => lists[0]!, { host1: FILES });
  await settled(world, 0);
  lists.shift();
  world.clock.advance(millis(5000));
  await expect
    .poll(async () => (await world.assets.list()).map(({ sha256 }) => sha256), { timeout: 30_000 })
    .toEqual([TWO, THREE].toSorted());
});

test('octets come no faster than the rate', async () => {
  const world = await standby(() => wantedOf([ONE]), { host1: [FILES[0]!] }, { rate: 1000 });
  let advanced = 0;
  // The clock moves for the file alone: how fast this host is does not matter.
  await expect.poll(() => world.asked.length, { timeout: 30_000 }).toBe(1);
  for (; world.copying.said?.lacking !== 0 && advanced < 1_000_000; advanced += 100) {
    await new Promise((resolve) => setTimeout(resolve, 2));
    world.clock.advance(millis(100));
  }
  expect(world.copying.said?.lacking).toBe(0);
  expect(advanced).toBeGreaterThanOrEqual(4900);
});
