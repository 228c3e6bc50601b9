/** The boot host of the suite `page`: its machines have booted, and an operator is logged in. */
import { join } from 'node:path';
import type { Browser, BrowserContext } from 'playwright-core';
import type { Millis } from '../src/base/duration.ts';
import { silentLog } from '../src/base/log.ts';
import type { Mac } from '../src/base/mac.ts';
import { createMetrics } from '../src/base/metrics.ts';
import type { BootHost } from '../src/lab/simulated/boot-host.files.ts';
import { orderOf } from '../src/lab/simulated/documents.files.ts';
import type { MachineStatus } from '../src/machines/machine.ts';
import { KEYS } from '../src/store/keys.ts';
import { openSqliteStore } from '../src/store/sqlite.files.ts';
import { MAX_OPERATIONS } from '../src/store/store.ts';
import { openContext } from '../test/page/browser.ts';
import { firstLogIn, invited } from '../test/page/server.ts';

export const MACHINES = 10_000;
const PROBE = new URL('page-probe.js', import.meta.url).pathname;

/** What a machine that has booted leaves in the store. */
function recordOf(n: number): { readonly name: string; readonly status: MachineStatus } {
  const { name, mac, address } = orderOf(n);
  const at = (Date.now() - 86_400_000 + n * 1000) as Millis;
  const uuid = `4c4c4544-0042-4410-8054-${n.toString(16).padStart(12, '0')}`;
  return {
    name,
    status: {
      v: 1,
      phase: 'ready',
      since: at,
      firstSeen: at,
      lastSeen: at,
      seen: {
        ...{ macs: [mac as Mac], bootMacs: [mac as Mac], arch: 'x86_64', firmware: 'uefi' },
        ...{ network: 'rack', address, uuid, serial: `SIM${n.toString(36).toUpperCase()}` },
        ...{ manufacturer: 'Simulated', product: 'Machine' },
      },
      bootsWithoutReady: 0,
    },
  };
}

/** Writes the records of all machines into the store of a server that does not run yet. */
export async function writeRecords(state: string): Promise<void> {
  const store = await openSqliteStore({
    path: join(state, 'muster.db'),
    log: silentLog,
    metrics: createMetrics(),
  });
  try {
    const records = Array.from({ length: MACHINES }, (_, n) => recordOf(n));
    for (let from = 0; from < MACHINES; from += MAX_OPERATIONS)
      await store.commit(
        records
          .slice(from, from + MAX_OPERATIONS)
          .map(({ name, status }) => ({ key: KEYS.machine.key(name), put: JSON.stringify(status) })),
      );
  } finally {
    await store.close();
  }
}

/** A browser with the session of an operator, and nothing in its cache. */
export type Fresh = () => Promise<BrowserContext>;

/** Makes an operator and logs in. */
export async function operatorOf(host: BootHost, browser: Browser): Promise<Fresh> {
  const first = await openContext(browser);
  await firstLogIn(first, invited(host, 'ada', 'operator'));
  const { cookies } = await first.storageState();
  await first.close();
  return async () => {
    const context = await openContext(browser);
    await context.addCookies(cookies);
    await context.addInitScript({ path: PROBE });
    return context;
  };
}
