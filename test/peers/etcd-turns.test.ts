/**
 * A changed flag restarts the members of etcd one after the other: with the shipped boot host, the
 * real agent, real etcd, and a client that writes all the time. See
 * docs/decisions/0033-one-control-plane-after-the-other.md.
 */
import fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { EventView } from '../../src/api/times.ts';
import { callApi } from './etcd/api.ts';
import { type Machine, openRack, type Rack, until } from './etcd/rack.ts';

/** When each process of this machine's etcd began, from its log. */
const starts = (machine: Machine): number[] =>
  (machine.read('/run/muster-etcd.service.log') ?? '').split('\n').flatMap((line) => {
    const at = /"ts":"([^"]+)".*"msg":"starting an etcd server"/.exec(line)?.[1];
    return at === undefined ? [] : [Date.parse(at)];
  });

async function turns(rack: Rack): Promise<EventView[]> {
  const { text } = await callApi(rack.host.socket, 'GET', '/v1/events?limit=1000');
  const { items } = JSON.parse(text) as { items: EventView[] };
  return items.filter(({ kind }) => kind === 'cluster.rollout');
}

/** Edits the file as an operator would. */
function change(rack: Rack, from: string, to: string): void {
  const file = join(rack.host.home, 'config/all.yaml');
  const text = fs.readFileSync(file, 'utf8');
  expect(text).toContain(from);
  fs.writeFileSync(`${file}.new`, text.replace(from, to));
  fs.renameSync(`${file}.new`, file);
}

test('a changed flag of etcd reaches one member after the other, each once the previous one answers with it, and no write is lost', {
  timeout: 1_200_000,
}, async () => {
  const rack = await openRack();
  try {
    await Promise.all(rack.all.map((machine) => machine.powerOn()));
    await rack.healthy();
    rack.writer.start();
    const before = rack.all.map((machine) => starts(machine).length);
    change(rack, 'checks: {', 'flags: {etcd: {heartbeat-interval: "150"}}, checks: {');
    const flag = '--heartbeat-interval=150';
    const unit = '/etc/systemd/system/muster-etcd.service';
    await until(
      'every member runs with the new flag',
      () =>
        rack.all.every(
          (machine, n) => starts(machine).length > before[n]! && machine.read(unit)?.includes(flag),
        ),
      rack.state,
    );
    await rack.healthy();
    const given = await turns(rack);
    expect(given.map(({ reason }) => reason?.code)).toEqual(['turn', 'turn', 'turn']);
    expect(given.map(({ subject }) => subject).sort()).toEqual(['m1', 'm2', 'm3']);
    for (const [n, next] of given.slice(1).entries()) {
      const former = rack.all.find(({ name }) => name === given[n]!.subject)!;
      // The API gives times as RFC 3339 texts.
      expect(Date.parse(next.at)).toBeGreaterThan(starts(former).at(-1)!);
    }
    // Each member was restarted exactly once.
    expect(rack.all.map((machine, n) => starts(machine).length - before[n]!)).toEqual([1, 1, 1]);
    await rack.nothingLost();
  } finally {
    await rack.close();
  }
});
