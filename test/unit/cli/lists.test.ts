/** Lists show what `explain` knows, and times carry their zone. */
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ipv4 } from '../../../src/base/ipv4.ts';
import { parseMac } from '../../../src/base/mac.ts';
import { COLUMNS } from '../../../src/cli/documents/columns.ts';
import { tableText } from '../../../src/cli/output.ts';
import { statusText } from '../../../src/cli/serve/status.ts';
import { followedTime, timeText } from '../../../src/cli/times.ts';
import { DOCUMENTS, openWorld, type World } from '../api/world.ts';
import { type Ran, run } from './run.ts';

const HELD = `---
apiVersion: muster/v1
kind: Machine
metadata: {name: bare}
spec: {macs: ["52:54:00:aa:00:21"]}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: lost}
spec: {macs: ["52:54:00:aa:00:22"], profile: gone}
---
apiVersion: muster/v1
kind: Profile
metadata: {name: gone}
spec: {image: nowhere}
---
apiVersion: muster/v1
kind: Cluster
metadata: {name: red}
spec: {trust: segment, kubernetes: {version: "1.36", endpoint: 10.77.0.210, controlPlanes: [nobody]}}
---
apiVersion: muster/v1
kind: Cluster
metadata: {name: plain}
spec: {}
`;

let world: World;
/** Hashes of files that are not here. */
const lacking = new Set<string>();
beforeEach(async () => {
  lacking.clear();
  world = await openWorld(DOCUMENTS + HELD, { lacking });
});
afterEach(() => world.close());

const muster = (...args: string[]): Promise<Ran> => run(args, { socket: world.socket });
const row = (out: string, name: string): string | undefined =>
  out
    .split('\n')
    .find((line) => line.startsWith(`${name} `))
    ?.replaceAll(/ +/g, ' ');

describe('get machines', () => {
  it('says why a machine would be held before it has ever booted', async () => {
    const { out } = await muster('get', 'machines');
    expect(row(out, 'bare')).toMatch(/ no_profile$/);
    expect(row(out, 'lost')).toMatch(/ image_missing$/);
    expect(row(out, 'node-1')).toMatch(/ <none>$/);
    lacking.add('a'.repeat(64));
    expect(row((await muster('get', 'machines')).out, 'node-1')).toMatch(/ image_missing$/);
    const shown = JSON.parse((await muster('get', 'machine', 'node-1', '-o', 'json')).out);
    expect(shown.status.outlook).toEqual({ code: 'image_missing', text: expect.stringContaining('kernel') });
  });

  it('says that a machine without a document waits to be accepted', async () => {
    const mac = parseMac('52:54:00:bb:00:01')!;
    world.roster.discover({ bootMac: mac, macs: [mac], network: 'lan' });
    const { out } = await muster('get', 'machines');
    expect(row(out, 'm-525400bb0001')).toMatch(/^m-525400bb0001 unknown .* unknown_machine$/);
  });

  it('shows the address that a machine has a lease on', async () => {
    const mac = parseMac('52:54:00:aa:00:21')!;
    await world.leases.setAside('lan', ipv4('10.77.0.111'), mac, 'bound');
    expect(row((await muster('get', 'machines')).out, 'bare')).toMatch(/ 10\.77\.0\.111 /);
  });
});

describe('get images and get clusters', () => {
  it('show whether an image is complete', async () => {
    expect(row((await muster('get', 'images')).out, 'small')).toMatch(/ complete$/);
    lacking.add('a'.repeat(64));
    expect(row((await muster('get', 'images')).out, 'small')).toMatch(/ incomplete$/);
  });

  it('show how far a cluster is', async () => {
    const { out } = await muster('get', 'clusters');
    expect(row(out, 'red')).toMatch(/ incomplete$/);
    expect(row(out, 'plain')).toMatch(/ <none>$/);
  });
});

describe('status', () => {
  it('is ready with reservations while an image that a profile names is incomplete', async () => {
    expect((await muster('status')).out).toMatch(/^muster 1\.2\.3: ready\n/);
    lacking.add('a'.repeat(64));
    const { code, out } = await muster('status');
    expect(code).toBe(0);
    expect(out).toMatch(
      /^muster 1\.2\.3: ready, with reservations\n0 urgent, \d+ that can wait: \d+ machines; red is incomplete\nimage small/,
    );
    expect(out).toMatch(/\nok +store: open\n$/);
  });

  it('lists what is wrong before what is well, in colours on a terminal only', () => {
    const status: Parameters<typeof statusText>[0] = {
      version: '1',
      ready: false,
      checks: [
        { name: 'networks', ok: true },
        { name: 'store', ok: false, detail: 'disk full' },
      ],
      faults: [],
      warnings: [],
      incompleteImages: [],
      concerns: [
        { code: 'boot-host', level: 'urgent', subject: 'boot host', text: 'store: disk full', fix: 'x' },
        {
          ...{ code: 'cluster-fails', level: 'urgent', subject: 'Cluster/blue' },
          ...{ text: 'etcd m1: it has an alarm', fix: 'muster cluster reclaim-space blue' },
        },
      ],
      checked: { machines: 3, clusters: [{ name: 'blue', condition: 'founding', checks: 0 }] },
    };
    expect(statusText(status, false)).toBe(
      [
        'muster 1: not ready',
        '2 urgent, 0 that can wait: 3 machines; blue is founding',
        'WAIT store: disk full',
        'urgent Cluster/blue: etcd m1: it has an alarm',
        '  muster cluster reclaim-space blue',
        'ok   networks',
        '',
      ].join('\n'),
    );
    expect(statusText(status, true)).toContain('\x1b[31mWAIT\x1b[0m store');
  });
});

describe('delete image', () => {
  it('refuses what image rm refuses, unless forced', async () => {
    fs.writeFileSync(path.join(world.directory, 'config', 'all.yaml'), HELD);
    await world.deps.catalog.reload();
    const file = path.join(world.directory, 'api.yaml');
    fs.writeFileSync(file, DOCUMENTS);
    expect((await muster('apply', '-f', file)).code).toBe(0);
    const refused = 'Image/small is named by Profile/worker, whose machines would be held';
    for (const words of [
      ['delete', 'image', 'small'],
      ['delete', 'image/small', '--dry-run'],
      ['image', 'rm', 'small', '--keep-files'],
    ])
      expect(await muster(...words)).toMatchObject({
        code: 1,
        out: '',
        err: expect.stringContaining(refused),
      });
    expect(
      (await muster('delete', 'machine/node-1', 'profile/worker', 'image/small', '--dry-run')).code,
    ).toBe(0);
    expect(await muster('delete', 'image', 'small', '--force')).toMatchObject({
      code: 0,
      out: 'image "small" deleted\n',
    });
  });
});

describe('times', () => {
  const zone = process.env.TZ;
  const at = Date.UTC(2026, 10, 26, 0, 45, 12);
  afterEach(() => {
    if (zone === undefined) delete process.env.TZ;
    else process.env.TZ = zone;
  });

  it.for([
    ['Europe/Berlin', '2026-11-26 01:45:12+01:00'],
    ['UTC', '2026-11-26 00:45:12Z'],
    ['America/St_Johns', '2026-11-25 21:15:12-03:30'],
  ] as const)('are local in %s, with their offset: %s', ([name, text]) => {
    process.env.TZ = name;
    expect(timeText(new Date(at).toISOString())).toBe(text);
  });

  it('show the date in a stream of events when it is not today', () => {
    process.env.TZ = 'UTC';
    const time = new Date(at).toISOString();
    expect(followedTime(time, at + 3_600_000)).toBe('00:45:12Z');
    expect(followedTime(time, at + 86_400_000)).toBe('2026-11-26 00:45:12Z');
  });

  it('carry their zone in every table', async () => {
    world.deps.events.record({ kind: 'boot.session', subject: 'node-1' });
    for (const words of [['events'], ['get', 'events'], ['events', 'node-1', '-o', 'wide']])
      expect((await muster(...words)).out).toMatch(/\n\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d) /);
  });
});

describe('tables on a terminal', () => {
  const columns = [
    { heading: 'NAME', cell: ({ name }: Item) => name },
    { heading: 'LABELS', cell: ({ labels }: Item) => labels, cuts: true as const },
    { heading: 'STATE', cell: () => 'FAIL', color: () => 'red' as const },
  ];
  interface Item {
    readonly name: string;
    readonly labels: string;
  }
  const items: readonly Item[] = [{ name: 'node-1', labels: 'a'.repeat(60) }];
  const look = { wide: false, headings: true };

  it('cut what may be cut to the width of the terminal, and nothing where there is none', () => {
    const lines = tableText(columns, items, { ...look, columns: 50 }).split('\n');
    expect(lines[1]).toBe(`node-1   ${'a'.repeat(32)}…   FAIL`);
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(50);
    expect(tableText(columns, items, look)).toContain('a'.repeat(60));
  });

  it('colour cells only where allowed', () => {
    expect(tableText(columns, items, { ...look, color: true })).toContain('\x1b[31mFAIL \x1b[0m');
    expect(tableText(columns, items, look)).not.toContain('\x1b');
  });
});

describe('the wide list of machines', () => {
  it('shows the version of each agent', () => {
    const machine = { apiVersion: 'muster/v1', kind: 'Machine', metadata: { name: 'cp1' } } as const;
    const since = '2026-01-01T00:00:00.000Z';
    const agent = { since, version: '3', bootId: 'b' };
    const text = tableText(COLUMNS.Machine, [{ ...machine, status: { agent } }], {
      wide: true,
      headings: true,
    });
    const [head, row] = text.split('\n');
    const at = head!.indexOf('AGENT');
    expect(at).toBeGreaterThan(0);
    expect(row!.slice(at, at + 1)).toBe('3');
    const build = { machine: 'cp1', runs: 'aaaaaaaa', wanted: 'bbbbbbbb', state: 'waits', text: '' } as const;
    const later = tableText(COLUMNS.Machine, [{ ...machine, status: { agent, build } }], {
      wide: true,
      headings: true,
    });
    expect(later).toContain('aaaaaaaa → bbbbbbbb');
  });
});

describe('events of a subject', () => {
  it('are found by kind and name in any case, and by the name alone', async () => {
    world.deps.events.record({ kind: 'cluster.founding', subject: 'Cluster/red' });
    for (const subject of ['cluster/red', 'Cluster/red', 'CLUSTERS/red', 'cl/red', 'red'])
      expect((await muster('events', subject)).out, subject).toMatch(/ Cluster\/red +cluster\.founding/);
    expect((await muster('events', 'machine/node-1')).code).toBe(0);
  });

  it('that nothing has are an error that says what was meant', async () => {
    for (const words of [['events'], ['get', 'events'], ['events', '--follow']])
      expect(await muster(...words, 'node-11')).toMatchObject({
        code: 1,
        out: '',
        err: expect.stringContaining('has the name "node-11"; did you mean "node-1"? (E_NOT_FOUND)'),
      });
    expect((await muster('events', 'cluster/rad')).err).toContain('did you mean "red"?');
    expect(await muster('get', 'leases', 'nosuch')).toMatchObject({
      code: 1,
      err: expect.stringContaining('no lease has the address, MAC or machine "nosuch"'),
    });
  });
});
