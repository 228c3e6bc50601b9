/**
 * The agent under the shells that machines have, with the real curl, openssl and tar, and a server
 * that answers as Muster does.
 */
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { maskDistributionsEtcd } from '../../src/cluster/plan/etcd-service.ts';
import { Machine, openssl, Planner, put, SHELLS } from './agent-kit.ts';

let planner: Planner;
let machine: Machine;

beforeEach(async () => {
  planner = await Planner.open();
  machine = new Machine(planner);
});

afterEach(() => {
  machine.close();
  planner.close();
});

const D1 = '1'.repeat(64);
const D2 = '2'.repeat(64);

describe.for(SHELLS)('by %s', (shell) => {
  test('a machine exchanges its ticket for a certificate, reports its facts and does its plan', async () => {
    const digest = planner.plan([
      { do: 'request', leaf: 'etcd-peer', algorithm: 'ECDSA-P256' },
      { do: 'directory', mode: 0o700, path: '/var/lib/etcd' },
      put('/etc/kubernetes/pki/ca.crt', 'certificate\n'),
      put('/etc/kubernetes/a b'.replace(' ', '_'), '', 0o600),
      { do: 'put', mode: 0o755, path: '/opt/tool', content: { octets: Uint8Array.of(0, 255, 10, 13) } },
      { do: 'link', path: '/etc/kubernetes/ca.crt', to: 'pki/ca.crt', onlyIfAbsent: false },
      { do: 'run', unit: 'kubelet.service', digest: D1 },
      { do: 'step', step: 'files' },
    ]);
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    expect(planner.asked.map(({ path, by }) => [path, by])).toEqual([
      ['/agent/redeem', undefined],
      ['/agent/poll', 'cp1'],
    ]);
    expect(planner.facts()).toMatchObject({
      agent: '1',
      bootId: 'b0070000-0000-4000-8000-000000000001',
      machineId: '0123456789abcdef0123456789abcdef',
      disk: { state: 'unused' },
      etcd: { wal: 'absent', health: 'down' },
      pins: new Map(),
    });
    expect(Math.abs(planner.facts().clock - Date.now())).toBeLessThan(60_000);
    expect(machine.read('/etc/kubernetes/pki/ca.crt')).toBe('certificate\n');
    expect(machine.mode('/etc/kubernetes/pki/ca.crt')).toBe('644');
    expect(machine.mode('/etc/kubernetes/pki')).toBe('755');
    expect(machine.mode('/etc/kubernetes/a_b')).toBe('600');
    expect(machine.mode('/var/lib/etcd')).toBe('700');
    expect(fs.readFileSync(machine.path('/opt/tool'))).toEqual(Buffer.from([0, 255, 10, 13]));
    expect(fs.readlinkSync(machine.path('/etc/kubernetes/ca.crt'))).toBe('pki/ca.crt');
    expect(machine.told()).toEqual(['enable kubelet.service', 'start kubelet.service']);

    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    expect(planner.asked).toHaveLength(3);
    const { applied, step, pins, requests } = planner.facts();
    expect({ applied, step }).toEqual({ applied: digest, step: 'files' });
    const key = openssl(['pkey', '-in', machine.path('/var/lib/muster/agent/keys/etcd-peer.key'), '-pubout']);
    expect(openssl(['req', '-verify', '-noout', '-pubkey'], requests.get('etcd-peer')!)).toBe(key);
    expect(pins.get('etcd-peer')).toMatch(/^[0-9a-f]{64}$/);
  });

  test('a key is replaced where the plan names its pin, and only that one', async () => {
    const ask = (replaces?: string) =>
      planner.plan([
        { do: 'request', leaf: 'kubelet', algorithm: 'ECDSA-P256', ...(replaces && { replaces }) },
      ]);
    const pinNow = async (): Promise<string> => {
      expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
      return planner.facts().pins.get('kubelet')!;
    };
    ask();
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    const first = await pinNow();
    ask(first);
    await pinNow();
    const second = await pinNow();
    expect(second).not.toBe(first);
    expect(second).toMatch(/^[0-9a-f]{64}$/);
    // The plan still names the first key, which is gone: the second one stays.
    expect(await pinNow()).toBe(second);
    const key = openssl(['pkey', '-in', machine.path('/var/lib/muster/agent/keys/kubelet.key'), '-pubout']);
    const request = planner.facts().requests.get('kubelet')!;
    expect(openssl(['req', '-verify', '-noout', '-pubkey'], request)).toBe(key);
  });

  test('a unit is restarted once for each digest, and starts again after a reboot', async () => {
    const said = async (digest: string, restart: 'run' | 'reload' = 'run') => {
      planner.plan([
        put('/etc/systemd/system/a.service', '[Service]\n'),
        { do: restart, unit: 'a.service', digest },
      ]);
      expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
      return machine.told();
    };
    expect(await said(D1)).toEqual(['daemon-reload ', 'enable a.service', 'start a.service']);
    expect(await said(D1)).toEqual([]);
    expect(await said(D2)).toEqual(['enable a.service', 'restart a.service']);
    expect(await said(D2)).toEqual([]);
    expect(await said(D1, 'reload')).toEqual(['enable a.service', 'reload a.service']);
    machine.reboot();
    expect(await said(D1)).toEqual(['enable a.service', 'start a.service']);
  });

  test('a reboot is ordered once, of the boot that the plan names, and what refuses it is reported', async () => {
    const first = 'b0070000-0000-4000-8000-000000000001';
    const poll = async () => {
      planner.plan([{ do: 'reboot', id: first }]);
      return machine.poll(shell);
    };
    machine.write('/units/none.broken', '');
    expect(await poll()).toMatchObject({ status: 1 });
    expect(machine.told()).toEqual(['reboot']);
    fs.rmSync(machine.path('/units/none.broken'));
    await poll();
    expect(planner.facts().hold).toEqual({ code: 'reboot-failed', text: 'Job for failed.' });
    expect(machine.told()).toEqual(['reboot']);
    // The agent still runs while the machine goes down.
    expect((await poll()).status).toBe(0);
    expect(machine.told()).toEqual([]);
    machine.reboot();
    machine.write('/proc/sys/kernel/random/boot_id', 'b0070000-0000-4000-8000-000000000002\n');
    expect(await poll()).toEqual({ status: 0, said: '' });
    expect(machine.told()).toEqual([]);
  });

  test('an etcd that a distribution’s package started is stopped and masked once', async () => {
    const unit = '/etc/systemd/system/etcd.service';
    machine.write('/units/etcd.service.active', '');
    machine.write('/units/etcd.service.enabled', '');
    machine.write(unit, '[Service]\nExecStart=/usr/bin/etcd\n');
    const poll = async () => {
      planner.plan(maskDistributionsEtcd);
      expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
      return machine.told();
    };
    expect(await poll()).toEqual(['stop etcd.service', 'disable etcd.service']);
    expect(fs.readlinkSync(machine.path(unit))).toBe('/dev/null');
    expect(await poll()).toEqual([]);
  });
});

// Not by busybox, whose shell would run its own dmesg.
test('what kernel and system printed follows a poll, once, and again if the server wants it later', async () => {
  const report = path.join(import.meta.dirname, '../../src/ignition/report/muster-report.sh');
  machine.write('/etc/muster/muster-report.sh', fs.readFileSync(report));
  machine.write('/proc/cmdline', 'quiet\n');
  const print = (dmesg: string) => machine.command('dmesg', `#!/bin/sh\ncat <<'END'\n${dmesg}END\n`);
  machine.command('journalctl', '#!/bin/sh\n');
  const sent = () =>
    planner.asked.flatMap(({ path: asked, form, by }) =>
      asked === '/agent/console' ? [[by, form.get('boot'), form.get('lines')]] : [],
    );
  const bootId = machine.read('/proc/sys/kernel/random/boot_id').trim();
  print('[    0.000000] Linux version 6.1\n[    1.000000] 100% & more\n');
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  const first = ['cp1', bootId, '[    0.000000] Linux version 6.1\n[    1.000000] 100% & more\n'];
  expect(sent()).toEqual([first]);
  print('[    1.000000] 100% & more\n[    2.000000] next\n');
  planner.consoleAnswers.push({ status: 429 });
  for (let n = 0; n < 3; n++) await machine.poll();
  const next = ['cp1', bootId, '[    2.000000] next\n'];
  expect(sent()).toEqual([first, next, next]);
});
