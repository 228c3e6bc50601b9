/** Gives the host's clock what else knows the time, and tells operators when it is in doubt. */
import { z } from 'zod';
import type { ClockVerdict } from '../base/clock-judge.ts';
import { duration } from '../base/duration.ts';
import { parsed } from '../base/foreign-json.ts';
import type { HostClock } from '../base/host-clock.ts';
import { askTimeServers } from '../base/sntp.socket.ts';
import { isSynchronized } from '../cli/doctor/host.files.ts';
import { redate } from '../pki/redate.ts';
import { KEYS } from '../store/keys.ts';
import type { Store } from '../store/store.ts';
import type { Common } from './common.ts';
import type { State } from './state.ts';

/** How often the clock is looked at. */
const LOOK_EVERY = duration('10s');
/** How often time servers are asked while the clock is proved; otherwise at each look. */
const ASK_EVERY = duration('5m');
/** How often the proved time is stored. */
const STORE_EVERY = duration('10m');
/** At most this many time servers are asked. */
const SERVERS = 4;

const record = z.strictObject({ v: z.literal(1), at: z.int() });

/** The newest proved time in the store, ms since 1970; undefined when it has none. */
async function storedTime(store: Pick<Store, 'get'>): Promise<number | undefined> {
  const read = record.safeParse(parsed((await store.get(KEYS.clock.key()))?.value ?? ''));
  return read.success ? read.data.at : undefined;
}

/** Follows the clock until the returned function is called. */
export async function followClock(
  { clock, log, metrics }: Pick<Common, 'log' | 'metrics'> & { readonly clock: HostClock },
  { agents, catalog, events, pki, store }: State,
): Promise<() => Promise<void>> {
  let storedAt = -STORE_EVERY;
  let askedAt = -ASK_EVERY;
  let closed = false;
  const say = (verdict: ClockVerdict): void => {
    metrics.set('muster_clock_doubted', {}, verdict.proved ? 0 : 1);
    metrics.set('muster_clock_offset', {}, verdict.proved ? 0 : Math.round(verdict.offMs / 1000));
    if (verdict.proved) {
      if (!wasDoubted) return;
      wasDoubted = false;
      log.info({ by: verdict.by }, "the host's clock is proved again");
      events.record({ kind: 'clock.proved', subject: 'muster', fields: { by: verdict.by } });
      return;
    }
    wasDoubted = true;
    const { code, text } = verdict;
    log.error({ code }, `the host's clock is in doubt: ${text}`);
    events.record({ kind: 'clock.doubted', subject: 'muster', reason: { code, text } });
  };
  let wasDoubted = false;
  clock.follow({
    known: () => agents.identities.list().filter(({ revoked }) => revoked === undefined).length,
    stored: await storedTime(store),
    changed: say,
  });
  say(clock.verdict());

  const ask = async (): Promise<void> => {
    const named = catalog
      .list('Cluster')
      .flatMap(({ document }) => document.spec.kubernetes?.timeServers ?? []);
    clock.serversTold(await askTimeServers([...new Set(named)].slice(0, SERVERS)));
    clock.setSynchronized(await isSynchronized());
  };
  let mended = false;
  /** Ends what a wrong clock has left of CAs. */
  const mend = async (): Promise<void> => {
    for (const scope of await pki.scopes())
      for (const keyset of await redate({ pki, clock }, scope))
        events.record({ kind: 'pki.redated', subject: `Cluster/${scope}`, fields: { keyset } });
    mended = true;
  };
  const look = async (): Promise<void> => {
    const now = clock.monotonic();
    if (clock.doubt() !== undefined || now - askedAt >= ASK_EVERY) {
      askedAt = now;
      await ask();
    }
    const verdict = clock.verdict();
    if (!verdict.proved || verdict.by === 'nobody') {
      mended = false;
      return;
    }
    if (!mended) await mend();
    if (now - storedAt < STORE_EVERY) return;
    storedAt = now;
    await store.commit([{ key: KEYS.clock.key(), put: JSON.stringify({ v: 1, at: clock.now() }) }]);
  };
  let looking = Promise.resolve();
  let stop = (): void => {};
  const again = (): void => {
    looking = look()
      .catch((err: unknown) => log.warn({ err }, 'cannot compare the clock with others'))
      .then(() => {
        if (!closed) stop = clock.after(LOOK_EVERY, again);
      });
  };
  again();
  return async () => {
    closed = true;
    stop();
    await looking;
  };
}
