/** Ends that nobody prevented become events, metrics and warnings, once for each level. */
import { expect, test } from 'vitest';
import { startEndingWatch } from '../../../../src/agent/serve/ending-watch.ts';
import { duration, type Millis } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { createMetrics } from '../../../../src/base/metrics.ts';
import type { NewEvent } from '../../../../src/events/event.ts';
import { readAuthority } from '../../../../src/pki/x509.ts';
import { world } from '../../pki/kit.ts';

test('a certificate that was not renewed is an event at 30 and at 7 days, and a warning until it is replaced', async () => {
  const { pki, clock, leaves } = await world();
  await leaves();
  const seen: string[] = [];
  const metrics = createMetrics();
  await using closing = new AsyncDisposableStack();
  const watch = startEndingWatch({
    pki,
    agents: { certificateState: () => 'valid', agentCluster: () => 'golden', certifies: () => false },
    events: {
      record: (event: NewEvent) => {
        if (event.fields?.what === 'certificate kubelet')
          seen.push(`${event.kind} ${event.subject} ${event.reason?.code}`);
      },
    },
    metrics,
    clock,
    log: silentLog,
  });
  closing.defer(() => watch.close());
  await watch.look();
  expect(watch.warnings()).toEqual([]);
  expect(await metrics.text()).toMatch(
    /muster_pki_next_end_timestamp_seconds\{scope="golden",what="certificate kubelet"\} [1-9]/,
  );
  clock.leap(duration('340d'));
  await watch.look();
  await watch.look();
  expect(seen).toEqual(['pki.ends-soon cp1 soon']);
  clock.leap(duration('20d'));
  await watch.look();
  expect(seen).toEqual(['pki.ends-soon cp1 soon', 'pki.ends-soon cp1 urgent']);
  expect(
    watch
      .warnings()
      .map(({ message }) => message)
      .join('\n'),
  ).toMatch(/certificate kubelet of cp1 \(golden\) ends in [45]d\S*; it should have been renewed/);
  expect(await metrics.text()).toMatch(/muster_pki_alarms\{scope="golden",level="urgent"\} 1\d/);
  await leaves();
  await watch.look();
  expect(watch.warnings().filter(({ message }) => message.includes('kubelet'))).toEqual([]);
});

test("a CA that nobody rotates is an event at 30 and at 7 days: of its cluster, and of Muster's own", async () => {
  const { pki, clock } = await world();
  const seen: string[] = [];
  const events = {
    record: ({ kind, subject, reason, fields }: NewEvent) => {
      if (fields?.what === 'CA ca' || fields?.what === 'CA transport-ca')
        seen.push(`${kind} ${subject} ${reason?.code}`);
    },
  };
  const certifies = () => true;
  const agents = { certificateState: () => 'valid' as const, agentCluster: () => 'golden', certifies };
  const metrics = createMetrics();
  await using closing = new AsyncDisposableStack();
  const watch = startEndingWatch({ pki, agents, events, metrics, clock, log: silentLog });
  closing.defer(() => watch.close());
  await watch.look();
  const ca = (await pki.keysets('golden')).get('ca')!.trusted[0]!.certificate!;
  const left = readAuthority(ca).notAfter - clock.now();
  expect(seen).toEqual([]);
  clock.leap((left - duration('29d')) as Millis);
  await watch.look();
  expect(seen.toSorted()).toEqual(['pki.ends-soon Cluster/golden soon', 'pki.ends-soon muster soon']);
  clock.leap(duration('23d'));
  await watch.look();
  expect(seen.slice(2).toSorted()).toEqual([
    'pki.ends-soon Cluster/golden urgent',
    'pki.ends-soon muster urgent',
  ]);
  const texts = watch.warnings().map(({ message }) => message);
  expect(texts.find((text) => text.startsWith('CA transport-ca'))).toMatch(
    /ends in [56]d.*has to be rotated/,
  );
});
