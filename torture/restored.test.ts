/**
 * `make torture`: a snapshot from before a rotation of etcd's CA is restored after all members have
 * lost their data.
 */
import { X509Certificate } from 'node:crypto';
import { expect, test } from 'vitest';
import { systemClock } from '../src/base/clock.ts';
import { type Machine, PATIENCE_S, until, withRack } from '../test/peers/etcd/rack.ts';
import { caOf, rotationOf } from '../test/peers/etcd/rotation.ts';
import { loseAll, takeSnapshot } from '../test/peers/etcd/snapshot.ts';

test(
  "a snapshot from before a rotation of etcd's CA is restored under the CA of today, and nothing is changed before an API server answers",
  { timeout: 1_200_000 },
  withRack(
    async (rack) => {
      const { all } = rack;
      const [m1] = all as [Machine];
      rack.writer.start();
      await Promise.all(all.map((machine) => machine.powerOn()));
      await rack.healthy();
      await until('writes are acknowledged', () => rack.writer.acknowledged.size > 100, rack.state);
      const before = systemClock.monotonic();
      const id = await takeSnapshot(rack);
      const old = new X509Certificate(caOf(m1));
      // The control plane of this Cluster is not there.
      const words = ['etcd-ca', '--cluster', 'one', '--without', 'cp'];
      const rotated = await rack.muster('pki', 'rotate', ...words);
      expect(rotated, rotated.output).toMatchObject({ code: 0 });
      await until('the rotation has ended', async () => (await rotationOf(rack)).ended, rack.state, 600);
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
