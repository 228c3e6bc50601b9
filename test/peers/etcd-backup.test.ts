/**
 * Snapshots of etcd with real agents, real etcd and the shipped server: one is taken while a client
 * writes, all members lose their data, and the snapshot is restored.
 */
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { ChangeView } from '../../src/api/rotations.ts';
import { systemClock } from '../../src/base/clock.ts';
import { callApi } from './etcd/api.ts';
import { type Machine, PATIENCE_S, type Rack, until, withRack } from './etcd/rack.ts';
import { unpacked } from './unpacked.ts';

const ETCDCTL = unpacked('etcd-client', 'usr/bin/etcdctl').command;

const backup = async (rack: Rack): Promise<{ readonly id: string; readonly output: string }> => {
  const { code, output } = await rack.muster('cluster', 'backup', 'one');
  if (code !== 0) throw new Error(`${output}\n${await rack.state()}`);
  return { id: /snapshot (\S+):/.exec(output)![1]!, output };
};

/** All members lose their data, start, and wait. */
async function loseAll(rack: Rack): Promise<void> {
  const { m1, m2, m3 } = rack.machines;
  for (const machine of [m1, m2, m3]) {
    machine.lose('/var/lib/muster/etcd/member');
    machine.lose('/var/lib/muster/marker');
  }
  await Promise.all([m1, m2, m3].map((machine) => machine.cycle()));
  await Promise.all((['m1', 'm2', 'm3'] as const).map((name) => rack.decision(name, 'hold no-quorum')));
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
      const { id: founding } = (await rack.founding()).record!;
      const before = systemClock.monotonic();
      const { id } = await backup(rack);
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
    { document: 'api', diskMiB: 640 },
  ),
);

const caOf = (machine: Machine): string => machine.read('/etc/kubernetes/pki/etcd/ca-bundle.crt') ?? '';

test.concurrent(
  "a snapshot from before a rotation of etcd's CA is restored under the CA of today, and nothing is changed before an API server answers",
  { timeout: 1_200_000 },
  withRack(
    async (rack) => {
      const { m1, m2, m3 } = rack.machines;
      const all = [m1, m2, m3];
      rack.writer.start();
      await Promise.all(all.map((machine) => machine.powerOn()));
      await rack.healthy();
      await until('writes are acknowledged', () => rack.writer.acknowledged.size > 100, rack.state);
      const before = systemClock.monotonic();
      const { id } = await backup(rack);
      const old = new X509Certificate(caOf(m1));
      // The control plane of this Cluster is not there.
      const words = ['etcd-ca', '--cluster', 'one', '--without', 'cp'];
      const rotated = await rack.muster('pki', 'rotate', ...words);
      expect(rotated, rotated.output).toMatchObject({ code: 0 });
      const rotation = async (): Promise<ChangeView> =>
        JSON.parse((await callApi(rack.host.socket, 'GET', '/v1/clusters/one/rotation')).text) as ChangeView;
      await until('the rotation has ended', async () => (await rotation()).ended, rack.state, 600);
      expect(new X509Certificate(caOf(m1)).fingerprint256).not.toBe(old.fingerprint256);

      await rack.writer.stop();
      await loseAll(rack);
      const ordered = await rack.muster('cluster', 'restore', 'one', '--backup', id, '--confirm', 'one');
      expect(ordered, ordered.output).toMatchObject({ code: 0 });
      await rack.healthy(2 * PATIENCE_S);
      for (const machine of all) {
        expect(await rack.writer.missing(machine, false, before)).toEqual([]);
        const leaf = new X509Certificate(machine.read('/etc/kubernetes/pki/etcd/server.crt')!);
        expect(leaf.verify(old.publicKey)).toBe(false);
        expect(leaf.verify(new X509Certificate(caOf(machine)).publicKey)).toBe(true);
      }

      // Nobody knows yet what the API would publish.
      const status = await rack.muster('cluster', 'status', 'one');
      expect(status.output).toContain(
        `snapshot ${id} was restored, and its CAs and tokens are being put right`,
      );
      const again = await rack.muster('pki', 'rotate', ...words);
      expect(again.code).not.toBe(0);
      expect(again.output).toContain('no API server has answered yet');
    },
    { document: 'api', diskMiB: 640 },
  ),
);
