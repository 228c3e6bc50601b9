/** The operators' page with ten thousand machines, in Chromium. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { pageDirectory } from '../src/api/page.files.ts';
import type { BootHost } from '../src/lab/simulated/boot-host.files.ts';
import { CHROMIUM, openBrowser } from '../test/page/browser.ts';
import { openServer, PAGE } from '../test/page/server.ts';
import { type BenchCase, type BenchSuite, median, percentile } from './compare.ts';
import { type Fresh, MACHINES, operatorOf, writeRecords } from './page-host.ts';
import { PLAIN, servePlain } from './page-plain.ts';
import { stallFlags, stalls } from './stalled.ts';

const TEN = MACHINES.toLocaleString('en');
const IF_MISSED =
  'Server, simulated machines and browser share two processors, and other work ran beside them. On a host with a load of 3 all aims were met; with a load of 10 everything took twice as long, also for the peer. A profile of the server shows half of its time in what it computes for each machine, and one of the page shows half of a key in layout and painting.';
/** Each key changes which rows are on the screen. */
const KEYSTROKES = ['7', '7', '7', 'Backspace', '3', 'Backspace', 'Backspace', 'Backspace'] as const;

const probed = <T>(page: Page, what: string): Promise<T> =>
  page.evaluate(`window.probe.${what}`) as Promise<T>;

/** Opens a list and resolves with the milliseconds until it can be used. */
async function load(page: Page, url: string): Promise<number> {
  await page.goto(url, { waitUntil: 'commit' });
  return probed<number>(page, 'usable');
}

/** Types into the filter; resolves with the milliseconds of each key. */
async function filterBy(page: Page): Promise<readonly number[]> {
  await page.locator('input[type=search]').focus();
  for (const [n, key] of KEYSTROKES.entries()) {
    await page.keyboard.press(key);
    await probed(page, `keysPainted(${n + 1})`);
    await pause(100);
  }
  return probed<readonly number[]>(page, 'keystrokes');
}

/** Opens a list with an empty cache and again, and filters it. */
async function listFigures(fresh: Fresh, url: string): Promise<Record<string, number>> {
  const context = await fresh();
  try {
    const page = await context.newPage();
    const cold = await load(page, url);
    await page.goto('about:blank');
    const warm = await load(page, url);
    // What a view does after it is shown is not the filter's.
    await pause(1000);
    const keys = await filterBy(page);
    return { cold, warm, key: median(keys), slowKey: Math.max(...keys) };
  } finally {
    await context.close();
  }
}

/** Octets that travel until the list can be used: of the page, and of answers of the API. */
async function transferred(fresh: Fresh): Promise<{ readonly page: number; readonly api: number }> {
  const context = await fresh();
  try {
    const page = await context.newPage();
    const sizes: Promise<readonly [boolean, number]>[] = [];
    page.on('requestfinished', (request) => {
      const api = new URL(request.url()).pathname.startsWith('/v1');
      sizes.push(
        request.sizes().then((size) => [api, size.responseHeadersSize + size.responseBodySize] as const),
      );
    });
    await load(page, `${PAGE}/#/fleet`);
    await pause(500);
    const all = await Promise.all(sizes);
    const sum = (api: boolean) => all.reduce((octets, [of, size]) => octets + (of === api ? size : 0), 0);
    return { page: sum(false) / 1000, api: sum(true) / 1000 };
  } finally {
    await context.close();
  }
}

const listed = (host: BootHost, fresh: Fresh): BenchCase => ({
  figures: {
    cold: { name: `Fleet of ${TEN}: usable, empty cache`, unit: 'ms', better: 'less', aim: 1000 },
    warm: { name: `Fleet of ${TEN}: usable, files in the cache`, unit: 'ms', better: 'less', aim: 1000 },
    key: {
      name: `Fleet of ${TEN}: key in the filter to changed rows, median`,
      unit: 'ms',
      better: 'less',
      aim: 50,
      ifMissed: IF_MISSED,
    },
    slowKey: {
      name: `Fleet of ${TEN}: key in the filter to changed rows, slowest of eight`,
      unit: 'ms',
      better: 'less',
      aim: 50,
      ifMissed: IF_MISSED,
    },
    stall: {
      name: `Longest block of the main thread while the list of ${TEN} is loaded`,
      unit: 'ms',
      better: 'less',
    },
    files: { name: 'Files of the page at first load', unit: 'kB', better: 'less', aim: 120 },
    answers: { name: `Answers of the API until a fleet of ${TEN} is shown`, unit: 'kB', better: 'less' },
  },
  async ours() {
    await stalls(host.pid);
    const figures = await listFigures(fresh, `${PAGE}/#/fleet`);
    const { maxMs } = await stalls(host.pid);
    const { page, api } = await transferred(fresh);
    return { ...figures, stall: maxMs, files: page, answers: api };
  },
  peers: { 'plain table, its list a file': () => listFigures(fresh, PLAIN) },
});

/** Machines whose rows are on the screen; every fourth power-on is one of them. */
const WATCHED = 16;
const ONE_OF = 4;
/** A boot has 25 events. A machine is in each phase long enough to be seen. */
const FLOW = { perSecond: 22, seconds: 15, worksMs: 250 } as const;

interface Recorded {
  readonly sequence: number;
  /** RFC 3339. */
  readonly at: string;
  readonly kind: string;
  readonly subject: string;
  readonly session?: string;
  readonly fields?: { readonly to?: string };
}
/** A phase that a row shows from `at` on. */
interface Seen {
  readonly name: string;
  readonly phase: string;
  readonly at: number;
}

const recorded = (host: BootHost): readonly Recorded[] => JSON.parse(host.muster('events', '-o', 'json'));

/**
 * Milliseconds from each change of a phase until its row showed it or a later phase of the same
 * boot; undefined for a change that no row showed.
 */
function delays(events: readonly Recorded[], seen: readonly Seen[]): readonly (number | undefined)[] {
  const rows = Map.groupBy(seen, ({ name }) => name);
  const boots = Map.groupBy(
    events.filter(({ kind }) => kind === 'machine.phase'),
    ({ session }) => session,
  );
  return [...boots.values()].flatMap((boot) =>
    boot.map(({ at, subject }, n) => {
      const later = new Set(boot.slice(n).map(({ fields }) => fields?.to));
      const began = Date.parse(at);
      const row = rows.get(subject)?.find((one) => one.at >= began && later.has(one.phase));
      return row && row.at - began;
    }),
  );
}

/** Powers machines on, a part of them watched. */
const order = ({ machines }: BootHost): Parameters<BootHost['powerOn']>[0] => ({
  machines: Array.from({ length: FLOW.perSecond * FLOW.seconds }, (_, n) =>
    n % ONE_OF === 0 ? machines[(n / ONE_OF) % WATCHED]! : machines[100 + n]!,
  ),
  ...{ perSecond: FLOW.perSecond, worksMs: FLOW.worksMs, keep: false, until: 'ready', partial: true },
});

async function flow(host: BootHost, fresh: Fresh): Promise<Record<string, number>> {
  const context = await fresh();
  try {
    const page = await context.newPage();
    await load(page, `${PAGE}/#/fleet`);
    await page.getByText('live', { exact: true }).waitFor();
    await probed(page, 'watchPhases()');
    const before = recorded(host).at(-1)?.sequence ?? 0;
    await host.powerOn(order(host));
    await pause(1000);
    const events = recorded(host).filter(({ sequence }) => sequence > before);
    const [first, last] = [events[0]!, events.at(-1)!].map(({ at }) => Date.parse(at));
    const watched = new Set(host.machines.slice(0, WATCHED).map(({ name }) => name));
    const mine = events.filter(({ subject }) => watched.has(subject));
    const all = delays(mine, await probed<readonly Seen[]>(page, 'phases'));
    const shown = all.filter((one) => one !== undefined);
    return {
      p50: median(shown),
      p99: percentile(shown, 0.99),
      lost: all.length - shown.length,
      rate: (1000 * events.length) / (last! - first!),
    };
  } finally {
    await context.close();
  }
}

const followed = (host: BootHost, fresh: Fresh): BenchCase => ({
  rounds: 3,
  figures: {
    p50: {
      name: `Fleet of ${TEN}: event to pixel, p50`,
      unit: 'ms',
      better: 'less',
      aim: 200,
      ifMissed: IF_MISSED,
    },
    p99: {
      name: `Fleet of ${TEN}: event to pixel, p99`,
      unit: 'ms',
      better: 'less',
      aim: 200,
      ifMissed: IF_MISSED,
    },
    lost: { name: 'Changes of phases that no row showed', unit: 'in all', better: 'less', aim: 0 },
    rate: { name: 'Events meanwhile', unit: '1/s', better: 'more', aim: 500, ifMissed: IF_MISSED },
  },
  ours: () => flow(host, fresh),
});

export const suite: BenchSuite = {
  about:
    'The operators’ page in Chromium without a graphics card, from the shipped command, with 10,000 machines that booted before: their records are written into the store before it starts. A list can be used when its rows and its filter are on the screen; a key or an event counts until the frame that shows its effect is painted. The peer is a page of forty lines that draws all rows of the same list and hides those that do not fit; nginx serves the list to it as a file, without TLS, so it waits for no server. While events flow, 22 simulated machines a second boot (25 events each), and the rows of sixteen of them are on the screen; a phase lasts 250 ms or longer. Server, machines and browser share the processors of one host, which other work used as well.',
  needs() {
    if (!existsSync(CHROMIUM)) return `there is no ${CHROMIUM}`;
    return existsSync(join(pageDirectory(), 'index.html')) ? undefined : 'run `make page` first';
  },
  async open() {
    const closing: (() => Promise<unknown>)[] = [];
    const close = async () => {
      for (const one of closing.reverse()) await one();
    };
    try {
      const host = await openServer(MACHINES, { nodeFlags: stallFlags(), before: writeRecords });
      closing.push(() => host.close());
      const browser = await openBrowser();
      closing.push(() => browser.close());
      const plain = await servePlain(
        JSON.stringify(JSON.parse(host.muster('get', 'machines', '-o', 'json'))),
      );
      closing.push(() => plain.stop());
      const fresh = await operatorOf(host, browser);
      return { cases: [listed(host, fresh), followed(host, fresh)], close };
    } catch (error) {
      await close();
      throw error;
    }
  },
};
