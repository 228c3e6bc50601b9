/**
 * The boot host is backed up while it serves, lost, and restored on another host with another
 * address: agents find it, and nothing happens until an operator accepts it. The lost one comes
 * back and stops answering.
 */
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { callApi } from './etcd/api.ts';
import { DEBIAN_13, type Rack, until, withRack } from './etcd/rack.ts';

/** Facts of the agent of m1, as this boot host knows them. */
const holdOf = async (socket: string): Promise<string | undefined> => {
  const { text } = await callApi(socket, 'GET', '/v1/machines/m1');
  const { status } = JSON.parse(text) as { status: { agent?: { hold?: { code: string } } } };
  return status.agent?.hold?.code;
};

const readiness = async (socket: string): Promise<string> => (await callApi(socket, 'GET', '/readyz')).text;

test.concurrent(
  'a boot host that is restored at another address is found by agents, waits for an operator, and supersedes the old one',
  { timeout: 1_200_000 },
  withRack(
    async (rack: Rack) => {
      const { host } = rack;
      const second = rack.secondHost();
      await host.kill();
      await host.start('--standby', second.address);
      await rack.machines.m1.powerOn();
      await rack.healthy();
      const { id } = (await rack.founding()).record!;

      const key = join(host.home, 'key.txt');
      execFileSync('age-keygen', ['-o', key], { stdio: 'ignore' });
      const recipient = String(execFileSync('age-keygen', ['-y', key])).trim();
      const file = join(host.home, 'host.age');
      const made = await rack.muster('backup', 'create', '-o', file, '--recipient', recipient, '--assets');
      expect(made, made.output).toMatchObject({ code: 0 });
      const checked = await rack.muster('backup', 'verify', file, '--identity', key);
      expect(checked).toMatchObject({ code: 0, output: expect.stringContaining('1 files of documents') });
      expect(fs.readFileSync(file).includes('muster-vault-1')).toBe(false);
      // What is stored after the backup is lost with the host.
      await rack.muster('machine', 'add', '52:54:00:09:00:77', '--name', 'late');
      await host.kill();

      const config = join(second.home, 'config');
      fs.rmSync(config, { recursive: true });
      const restored = await rack.muster(
        ...['backup', 'restore', file, '--identity', key, '--state', second.state, '--config', config],
      );
      expect(restored, restored.output).toMatchObject({ code: 0 });
      await second.start();
      await until(
        'the agent of m1 finds the other host',
        async () => (await holdOf(second.socket)) === 'store-restored',
        second.log,
      );
      expect(await readiness(second.socket)).toContain('muster backup accept');
      expect(await second.muster('backup', 'accept')).toMatchObject({
        code: 2,
        output: expect.stringContaining('was restored at'),
      });
      expect(await second.muster('backup', 'accept', '--confirm')).toMatchObject({ code: 0 });
      await until(
        'm1 goes on with the other host',
        async () => (await holdOf(second.socket)) === undefined,
        second.log,
      );
      const shown = (await callApi(second.socket, 'GET', '/v1/clusters/one/founding')).text;
      expect(JSON.parse(shown)).toMatchObject({
        record: { id, founded: {} },
        members: [{ name: 'm1', health: 'serving' }],
      });

      // The old one comes back, and m1 speaks to it at its next boot.
      await host.start('--standby', second.address);
      await second.kill();
      await rack.machines.m1.cycle();
      await until(
        'the old one has stopped',
        async () => (await readiness(host.socket)).includes('a later life'),
        () => host.log(),
      );
      await host.kill();
      await host.start();
      expect(await readiness(host.socket)).toContain('answers no machine any more');
      // The kernel may take the connection, since the socket is inherited; nobody answers it.
      const url = `http://${rack.server}:8080/`;
      expect((await rack.fromMachine('m1', ['curl', '-s', '-m', '2', url])).code).not.toBe(0);
    },
    { members: ['m1'] },
  ),
);

/** When the certificate of a machine's etcd begins, ms since 1970. */
const beginsAt = (machine: Rack['all'][number]): number =>
  Date.parse(new X509Certificate(machine.read('/etc/kubernetes/pki/etcd/server.crt') ?? '').validFrom);

/** Resolves when each agent has got another answer. */
async function polled(rack: Rack): Promise<void> {
  const answered = (machine: Rack['all'][number]) =>
    /^date: .*/im.exec(machine.read('/run/muster/headers') ?? '')?.[0];
  const before = rack.all.map(answered);
  for (const [n, machine] of rack.all.entries())
    await until(
      `the agent of ${machine.name} polls`,
      () => ![undefined, before[n]].includes(answered(machine)),
      rack.state,
    );
}

test.concurrent(
  'a boot host whose clock is wrong for a while harms no running cluster',
  { timeout: 600_000 },
  withRack(
    async (rack: Rack) => {
      const { host, writer } = rack;
      const writes = async (): Promise<void> => {
        const before = writer.acknowledged.size;
        await until('etcd takes writes', () => writer.acknowledged.size > before + 50, rack.state, 60);
      };
      const lines = async (): Promise<string> =>
        (await rack.muster('cluster', 'status', 'one', '--etcd')).output;
      await Promise.all(rack.all.map((machine) => machine.powerOn()));
      await rack.healthy();
      writer.start();
      await writes();

      for (const [days, restarts] of [
        [400, false],
        [250, true],
      ] as const) {
        host.setClock(days);
        if (restarts) await host.restart();
        await until(
          `status names the clock, ${days} days off`,
          async () => / clock .*(ahead|behind)/.test(await lines()),
          lines,
          60,
        );
        // No agent gets anything from the wrong time.
        await polled(rack);
        await writes();
        expect((await rack.muster('pki', 'renew', 'one')).output).toContain('E_CLOCK');
        expect((await rack.muster('status')).output).toMatch(/^WAIT clock/m);
        host.setClock(0);
        if (restarts) await host.restart();
        await until('the clock is proved', async () => !/ clock /.test(await lines()), lines, 60);
        await rack.healthy(60);
        await writes();
      }
      await polled(rack);
      await writes();
      for (const machine of rack.all) expect(beginsAt(machine)).toBeLessThan(Date.now());
      expect(writer.failedTwice).toEqual([]);
      const status = (await rack.muster('pki', 'status', 'one', '-o', 'json')).output;
      expect(status).not.toContain('not yet valid');
      await rack.nothingLost();
    },
    { document: 'api', setsClock: true, etcd: DEBIAN_13, diskMiB: 320 },
  ),
);
