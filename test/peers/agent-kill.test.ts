/** The agent killed at every point: run again, it ends in the same state. Root, inside scripts/in-namespace.sh. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { PlanLine } from '../../src/agent/plan.ts';
import { encodePlan } from '../../src/agent/wire.ts';
import { Disks } from './agent-disks.ts';
import { Desk, Machine, put } from './agent-kit.ts';

const UUID = '5eed0000-1111-4222-8333-444455556666';
/** Everything by which the agent changes anything; the shell itself only writes below /run. */
const EFFECTS =
  'cp mv ln rm rmdir mkdir chmod touch sync truncate tar dd curl openssl systemctl mkfs.ext4 mount'.split(
    ' ',
  );

let desk: Desk;
let files: http.Server;
let lines: readonly PlanLine[];

beforeAll(async () => {
  desk = await Desk.open();
  const packed = fs.mkdtempSync('/tmp/muster-packed-');
  fs.writeFileSync(`${packed}/tool`, 'tool');
  const archive = execFileSync('tar', ['-czf', '-', '-C', packed, 'tool']);
  fs.rmSync(packed, { recursive: true });
  const sha256 = createHash('sha256').update(archive).digest('hex');
  files = http.createServer((_, response) => response.end(archive));
  await new Promise<void>((resolve) => files.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(files.address() as AddressInfo).port}/${sha256}`;
  const content = { text: 'certificate\n' };
  lines = [
    { do: 'create-data', device: '/dev/vdb', filesystem: UUID },
    { do: 'marker', cluster: 'lab', founding: 'f1', member: 'cp1', machine: 'cp1' },
    { do: 'guard-new', filesystem: UUID },
    { do: 'set-aside-etcd', member: 'm0' },
    { do: 'request', leaf: 'kubelet', algorithm: 'ECDSA-P256' },
    { do: 'bind', directory: 'containerd', path: '/var/lib/containerd' },
    { do: 'directory', mode: 0o700, path: '/var/lib/muster/etcd' },
    put('/etc/kubernetes/pki/ca.crt', 'ca\n'),
    put('/etc/systemd/system/a.service', '[Service]\n', 0o600),
    { do: 'put-with-key', mode: 0o600, path: '/etc/kubelet.pem', leaf: 'kubelet', append: 'pem', content },
    { do: 'link', path: '/etc/kubelet-current.pem', to: 'kubelet.pem', onlyIfAbsent: true },
    { do: 'fetch', mode: 0o755, path: '/opt/archive', url, sha256 },
    { do: 'unpack', directory: '/opt/tools', url, sha256 },
    { do: 'remove', path: '/etc/old' },
    { do: 'run', unit: 'a.service', digest: 'd1' },
    { do: 'step', step: 'done' },
  ];
  desk.standing = lines;
});

afterAll(() => {
  desk.close();
  files.close();
});

/** A machine that is killed with all that it runs before its `n`th effect. */
class Victim {
  readonly machine = new Machine(desk, { data: 'serial=S2' });
  readonly #disks = new Disks(this.machine);

  constructor() {
    this.#disks.add('vdb', 32, 'S2');
    this.machine.write('/etc/old', 'old');
    fs.renameSync(this.machine.path('/bin/systemctl'), this.machine.path('/systemctl'));
    for (const name of EFFECTS) {
      const real =
        name === 'systemctl'
          ? this.machine.path('/systemctl')
          : ['/usr/bin', '/bin', '/usr/sbin', '/sbin']
              .map((at) => `${at}/${name}`)
              .find((at) => fs.existsSync(at))!;
      this.machine.command(
        name,
        `#!/bin/sh\nread -r n <"$MUSTER_ROOT/n"\necho $((n + 1)) >"$MUSTER_ROOT/n"\n[ "$n" != "$KILL" ] || kill -KILL 0\nexec ${real} "$@"\n`,
      );
    }
  }

  /** Polls once; killed at effect `at`, if it comes so far. */
  async run(at: number): Promise<{ status: number | string; said: string }> {
    this.machine.write('/n', '0\n');
    return this.machine.poll(undefined, { KILL: String(at) });
  }

  effects(): number {
    return Number(this.machine.read('/n'));
  }

  powerCut(): void {
    this.#disks.unmount();
    this.machine.reboot();
  }

  /** All that outlives a boot, keys and certificates aside, and what runs. */
  state() {
    const tree = Object.entries(this.machine.tree()).map(([at, text]) => [
      at,
      text
        .replace(/-----BEGIN ([A-Z ]+)-----[^-]*-----END [A-Z ]+-----\n/g, '<$1>\n')
        .replace(/^time=.*$/m, ''),
    ]);
    const units = fs.readdirSync(this.machine.path('/units')).filter((name) => name !== 'log');
    return { tree: Object.fromEntries(tree) as Record<string, string>, units: units.sort() };
  }

  close(): void {
    this.#disks.close();
    this.machine.close();
  }
}

test('killed before any of its effects, every other time with the power cut, the agent ends where it would have ended', {
  timeout: 1_500_000,
}, async () => {
  const whole = new Victim();
  expect(await whole.run(-1)).toEqual({ status: 0, said: '' });
  const effects = whole.effects();
  const end = whole.state();
  whole.close();
  expect(end.units).toEqual(['a.service.active', 'a.service.enabled']);
  expect(end.tree['/etc/kubelet.pem']).toBe('600 certificate\n<EC PRIVATE KEY>\n');
  expect(effects).toBeGreaterThan(100);
  const { digest } = encodePlan({ lines, pollSeconds: 0 });

  let next = 0;
  const worker = async (): Promise<void> => {
    for (let at = next++; at < effects; at = next++) {
      let victim = new Victim();
      try {
        let killed = await victim.run(at);
        // On a busy host a first try may end early by a time-out of curl.
        for (let tries = 0; killed.status !== 'SIGKILL' && tries < 2; tries++) {
          victim.close();
          victim = new Victim();
          killed = await victim.run(at);
        }
        expect([at, killed]).toEqual([at, { status: 'SIGKILL', said: expect.anything() }]);
        if (at % 2 === 1) victim.powerCut();
        let resumed = await victim.run(-1);
        for (let tries = 0; resumed.status !== 0 && tries < 2; tries++) resumed = await victim.run(-1);
        expect([at, resumed]).toEqual([at, { status: 0, said: expect.anything() }]);
        expect([at, victim.state()]).toEqual([at, end]);
        expect(victim.machine.read('/run/muster/applied')).toBe(`${digest}\n`);
      } finally {
        victim.close();
      }
    }
  };
  await Promise.all([worker(), worker(), worker()]);
});
