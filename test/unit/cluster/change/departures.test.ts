/** What is done at the API for leaving machines, and what operators see meanwhile. */
import { expect, test } from 'vitest';
import { silentLog } from '../../../../src/base/log.ts';
import { createDepartures } from '../../../../src/cluster/change/departures.ts';
import type { FoundingRecord, Leaving } from '../../../../src/cluster/etcd/founding.ts';
import { ImpatientClock } from '../../clock.ts';

test('the reason why a machine waits is dropped when its stage is over', async () => {
  const leaving: Leaving = {
    stage: 'etcd',
    since: 7,
    member: '10.0.0.3',
    node: false,
    clear: false,
    drainUntil: 0,
  };
  let record = { v: 1, cluster: 'one', id: 'f1', leaving: { m3: leaving } } as unknown as FoundingRecord;
  const departures = createDepartures({
    founder: { records: () => [record], passed: async () => undefined },
    clusters: { get: () => undefined },
    kubes: () => () => Promise.reject(new Error('no API server here')),
    clock: new ImpatientClock(),
    log: silentLog,
  });
  departures.go('one');
  while (departures.waiting('one').m3 === undefined) await new Promise((next) => setImmediate(next));
  expect(departures.waiting('one')).toEqual({ m3: 'it is still a member of etcd' });
  // By the executor of the founding.
  record = { ...record, leaving: { m3: { ...leaving, stage: 'down' } } };
  expect(departures.waiting('one')).toEqual({});
  await departures.close();
});
