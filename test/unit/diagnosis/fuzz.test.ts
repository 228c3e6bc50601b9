/** Timelines of damaged journals. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { timelineView } from '../../../src/api/operations/timeline.ts';
import { millis } from '../../../src/base/duration.ts';
import { timelineText } from '../../../src/cli/machine/timeline.ts';
import { timelineOf } from '../../../src/diagnosis/timeline.ts';
import type { MusterEvent } from '../../../src/events/event.ts';
import { readEvent } from '../../../src/events/journal.files.ts';
import { damagedRecords, INPUTS } from '../fuzzing.ts';

const trace = path.join(import.meta.dirname, '../../golden/diagnosis/etcd-waits.jsonl');
const seeds = readFileSync(trace, 'utf8').split('\n').flatMap(readEvent);

/** So many events of a damaged journal make one timeline. */
const TOGETHER = 40;

it('whatever a journal contains, its timeline has an entry for each event of the boot', async () => {
  let events: MusterEvent[] = [];
  let made = 0;
  await damagedRecords('timeline', seeds, (text) => {
    events.push(...readEvent(text));
    if (events.length < TOGETHER) return;
    const timeline = timelineOf({ machine: 'node-2', events, now: millis(1795171600000) })!;
    expect(timeline.entries.length).toBeLessThanOrEqual(events.length);
    if (timeline.entries.every(({ at }) => Math.abs(at) < 8e15)) timelineText(timelineView(timeline), false);
    made++;
    events = [];
  });
  expect(made).toBeGreaterThan(INPUTS / 2000);
});
