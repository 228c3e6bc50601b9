import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { millis } from '../../../src/base/duration.ts';
import { HOLDS } from '../../../src/cluster/etcd/holds.ts';
import { RULES, WRONG_ROOT } from '../../../src/diagnosis/rules.ts';
import { timelineOf } from '../../../src/diagnosis/timeline.ts';
import { diagnose } from '../../../src/diagnosis/verdicts.ts';
import type { MusterEvent } from '../../../src/events/event.ts';
import { readEvent } from '../../../src/events/journal.files.ts';
import { TICKET_REFUSALS } from '../../../src/machines/tickets.ts';
import { REASONS } from '../../../src/pxe/decide/decision.ts';
import { DHCP_OUTCOMES } from '../../../src/pxe/dhcp/outcomes.ts';

const TRACES = path.join(import.meta.dirname, '../../golden/diagnosis');
const read = (file: string): readonly MusterEvent[] =>
  readFileSync(file, 'utf8')
    .trimEnd()
    .split('\n')
    .flatMap((line) => {
      const found = readEvent(line);
      expect(found, line).toHaveLength(1);
      return found;
    });
const trace = (name: string): readonly MusterEvent[] => read(path.join(TRACES, `${name}.jsonl`));
const healthy = read(path.join(import.meta.dirname, '../../golden/one-boot/events.jsonl'));
const after = (events: readonly MusterEvent[], ms = 200_000) => millis(events.at(-1)!.at + ms);
const codes = (events: readonly MusterEvent[], now = after(events)) =>
  diagnose({ machine: 'node-2', events, now, over: false }).map(({ code }) => code);

test.each(RULES.map(({ code }) => code))(
  'the recorded events of %s give that verdict and no other',
  (code) => {
    expect(codes(trace(code))).toEqual([code]);
  },
);

test('every recorded trace is that of a verdict', () => {
  const names = readdirSync(TRACES).map((name) => path.basename(name, '.jsonl'));
  expect(names.sort()).toEqual(RULES.map(({ code }) => code).toSorted());
});

test('the reasons in recorded traces are those of the tables', () => {
  const texts: Readonly<Record<string, string>> = {
    ...Object.fromEntries(Object.entries(DHCP_OUTCOMES).map(([code, { text }]) => [code, text])),
    ...REASONS,
    ...TICKET_REFUSALS,
    ...Object.fromEntries(Object.entries(HOLDS).map(([code, { text }]) => [code, text])),
  };
  for (const { code } of RULES)
    for (const { kind, reason } of trace(code))
      if (reason && /^(dhcp|boot)\.|^machine\.held|^agent\.refused/.test(kind))
        expect(reason.text).toBe(texts[reason.code]);
});

test('a boot that becomes ready has no verdict at any moment of it', () => {
  for (let count = 1; count <= healthy.length; count++) {
    const events = healthy.slice(0, count);
    expect(codes(events, millis((healthy[count] ?? events.at(-1)!).at)), `after event ${count}`).toEqual([]);
  }
});

test('evidence names events of the boot, and the remedy names the machine', () => {
  const events = trace('other-dhcp-server');
  const [verdict] = diagnose({ machine: 'node-2', events, now: after(events), over: false });
  expect(verdict?.evidence).toEqual([
    { sequence: 4, at: events[3]!.at, text: expect.stringContaining('10.77.0.254') },
  ]);
  expect(verdict?.page).toBe('docs/diagnosis.md#other-dhcp-server');
  const held = trace('boot-loop');
  expect(diagnose({ machine: 'node-2', events: held, now: after(held), over: false })[0]?.remedy).toContain(
    'muster machine timeline node-2 --boot -1',
  );
});

test('a hold that has ended is no verdict', () => {
  const events = trace('etcd-waits');
  const last = events.at(-1)!;
  const ended = [
    ...events,
    { ...last, sequence: last.sequence + 1, kind: 'agent.step' as const, fields: { step: 'files' } },
  ];
  expect(codes(ended)).toEqual([]);
});

test('a client that has just been offered an address is given time to take it', () => {
  const events = trace('offers-unanswered');
  expect(codes(events, after(events, 1000))).toEqual([]);
  expect(codes(events, after(events, 31_000))).toEqual(['offers-unanswered']);
});

test('verdicts of an earlier boot do not wait: nothing more will happen in it', () => {
  const events = trace('offers-unanswered');
  const later = { ...events[0]!, sequence: 99, session: 'later', at: millis(events.at(-1)!.at + 1000) };
  const now = millis(later.at + 1);
  expect(
    timelineOf({ machine: 'node-2', events: [...events, later], boot: '-1', now })?.verdicts,
  ).toMatchObject([{ code: 'offers-unanswered' }]);
});

test('the initrd still reports a wrong root image in the words that the rule looks for', () => {
  const script = path.join(import.meta.dirname, '../../../images/debian/initramfs/scripts/muster');
  expect(readFileSync(script, 'utf8')).toContain(`why="${WRONG_ROOT}`);
});
