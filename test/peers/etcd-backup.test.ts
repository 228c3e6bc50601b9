/**
 * Snapshots of etcd with real agents, real etcd and the shipped server: one is taken while a client
 * writes, all members lose their data, and the snapshot is restored.
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { callApi } from './etcd/api.ts';
import { CLUSTER, PATIENCE_S, type Rack, until, withRack } from './etcd/rack.ts';
import { loseAll, takeSnapshot } from './etcd/snapshot.ts';
import { unpacked } from './unpacked.ts';

const ETCDCTL = unpacked('etcd-client', 'usr/bin/etcdctl').command;

/** An etcd that is full after 16 MiB. */
const SMALL = CLUSTER.replace('checks: {', 'flags: {etcd: {quota-backend-bytes: "16777216"}}, checks: {');

/**
 * etcd reaches its quota: status fails and names alarm and cure, a snapshot is taken all the same,
 * no change begins, and the cure ends with writes that are accepted.
 */
async function fullAndCured(rack: Rack): Promise<void> {
  expect(await rack.muster('cluster', 'status', 'one', '--etcd')).toMatchObject({ code: 0 });
  expect(await rack.writer.fill(rack.machines.m1)).toContain('database space exceeded');
  const status = await rack.muster('cluster', 'status', 'one', '--etcd');
  expect(status.code, status.output).toBe(1);
  expect(status.output).toMatch(/FAIL +etcd +m\d +alarm NOSPACE: .*muster cluster reclaim-space one/);
  await until(
    'the event says it',
    async () => (await rack.muster('events')).output.match(/cluster\.etcd +nospace/),
    rack.state,
  );
  await takeSnapshot(rack);
  const rotation = JSON.stringify({ kind: 'rotation', keysets: ['sa'] });
  const refused = await callApi(rack.host.socket, 'POST', '/v1/clusters/one/change', rotation);
  expect(refused).toMatchObject({ status: 409, text: expect.stringContaining('alarm NOSPACE') });

  const preview = await rack.muster('cluster', 'reclaim-space', 'one');
  expect(preview).toMatchObject({ code: 2, output: expect.stringContaining('add --confirm one') });
  const cured = await rack.muster('cluster', 'reclaim-space', 'one', '--confirm', 'one');
  expect(cured.code, `${cured.output}\n${await rack.state()}`).toBe(0);
  expect(cured.output).toMatch(
    /compacted to revision [\s\S]*m1 was defragmented[\s\S]*disarmed[\s\S]*A write was accepted/,
  );
  const { size } = rack.writer.acknowledged;
  await until('writes are acknowledged again', () => rack.writer.acknowledged.size > size + 10, rack.state);
  expect(await rack.muster('cluster', 'status', 'one', '--etcd')).toMatchObject({ code: 0 });
}

test.concurrent(
  'a snapshot that was taken under a writer brings back every earlier write after all members lost their data',
  { timeout: 1_200_000 },
  withRack(
    async (rack) => {
      const { m1, m2, m3 } = rack.machines;
      const all = [m1, m2, m3];
      const copies = fs.mkdtempSync(join(rack.host.home, 'copies-'));
      const shown = (await callApi(rack.host.socket, 'GET', '/v1/clusters/one')).text;
      const { apiVersion, kind, metadata, spec } = JSON.parse(shown) as Record<string, object>;
      const setting = { every: '12h', keep: 1, to: [{ directory: copies }] };
      const cluster = { apiVersion, kind, metadata, spec: { ...spec, backup: setting } };
      const applied = await callApi(rack.host.socket, 'POST', '/v1/apply', JSON.stringify(cluster));
      expect(applied.status, applied.text).toBeLessThan(300);

      rack.writer.start();
      await Promise.all(all.map((machine) => machine.powerOn()));
      await rack.healthy();
      await until('writes are acknowledged', () => rack.writer.acknowledged.size > 100, rack.state);
      // The schedule takes the first one by itself.
      await until(
        'the scheduled snapshot is there',
        async () => (await rack.muster('cluster', 'backups', 'one')).output.includes('schedule'),
        rack.state,
      );
      await fullAndCured(rack);
      const { id: founding } = (await rack.founding()).record!;
      const before = systemClock.monotonic();
      const id = await takeSnapshot(rack);
      const verified = await rack.muster('cluster', 'backup', 'verify', 'one', id, '--etcdutl', ETCDCTL);
      expect(verified).toMatchObject({ code: 0, output: expect.stringContaining('is whole, and') });
      expect(fs.readdirSync(copies).sort()).toContain(`one.${id}.json`);
      const sealed = fs.readFileSync(join(rack.host.state, `snapshots/one/${id}.etcd`));
      expect(sealed.includes('written/00000001')).toBe(false);
      expect(all.some((machine) => machine.has('/var/lib/muster/snapshot'))).toBe(false);

      // The older one is removed, here and among the copies.
      await until('one snapshot is left', () => fs.readdirSync(copies).length === 2, rack.state);
      const file = join(rack.host.home, 'got.db');
      expect(await rack.muster('cluster', 'backup', 'get', 'one', id, '-o', file)).toMatchObject({ code: 0 });
      execFileSync(ETCDCTL, ['snapshot', 'status', file], { env: { ...process.env, ETCDCTL_API: '3' } });

      // While etcd serves, nothing is restored.
      const restore = (...more: string[]) =>
        rack.muster('cluster', 'restore', 'one', '--backup', id, ...more);
      expect(await restore('--confirm', 'one')).toMatchObject({
        code: 1,
        output: expect.stringContaining('etcd has a quorum'),
      });
      await rack.writer.stop();
      await loseAll(rack);
      expect(await restore()).toMatchObject({ code: 2, output: expect.stringContaining('is lost') });
      const ordered = await restore('--confirm', 'one');
      expect(ordered, ordered.output).toMatchObject({ code: 0 });
      await rack.healthy(2 * PATIENCE_S);
      expect((await rack.founding()).record!.id).not.toBe(founding);
      for (const machine of all) expect(await rack.writer.missing(machine, false, before)).toEqual([]);
    },
    { document: 'api', diskMiB: 640, cluster: SMALL },
  ),
);
