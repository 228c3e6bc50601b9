/**
 * `restore-etcd` for etcd as a static pod, with the real agent, containerd and etcd, while kubelet
 * is stopped. Needs root and scripts/in-namespace.sh.
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { PlanLine } from '../../src/agent/wire/plan.ts';
import type { Disks } from './agent-disks.ts';
import { type Machine, Planner, SHELLS } from './agent-kit.ts';
import { bridge, type Muster, remove, startMuster } from './dhcp-segment.ts';
import { standInForCrictl } from './etcd/crio.ts';
import { Containerd, CTR, EtcdAlone, IMAGE, PROGRAMS, packImage, write } from './etcd/pod.ts';
import { until } from './etcd/rack.ts';
import {
  CLIENT,
  data,
  imageHost,
  isRestored,
  KEYS,
  METRICS,
  prepared,
  RESTORE,
  written,
} from './etcd/restoring.ts';

let set: string;
let planner: Planner;
let containerd: Containerd;
let machine: Machine;
let disks: Disks;

beforeAll(() => {
  set = fs.mkdtempSync('/run/set-');
  packImage(set);
});
afterAll(() => fs.rmSync(set, { recursive: true }));

beforeEach(async () => {
  planner = await Planner.open();
  containerd = await Containerd.start();
  ({ machine, disks } = await prepared(planner));
  machine.command('ctr', `#!/bin/sh\nexec ${CTR} "$@"\n`);
  fs.mkdirSync(machine.path('/run/containerd'), { recursive: true });
  fs.symlinkSync(containerd.socket, machine.path('/run/containerd/containerd.sock'));
});

afterEach(async () => {
  await machine.stop();
  await containerd.stop();
  disks.close();
  machine.close();
  planner.close();
});

test.for(SHELLS)(
  'by %s, etcd’s container is ended as kubelet would end it, and the programs of its image restore the data',
  async (shell) => {
    containerd.import(set);
    const urls = [`http://127.0.0.1:${CLIENT}`, `http://127.0.0.1:${METRICS}`];
    containerd.run(
      'own',
      'etcd-cp1',
      data(machine),
      'etcd',
      '--name',
      'cp1',
      '--data-dir',
      '/var/lib/etcd',
      ...[
        '--listen-client-urls',
        urls[0]!,
        '--advertise-client-urls',
        urls[0]!,
        '--listen-metrics-urls',
        urls[1]!,
        '--listen-peer-urls',
        'unix:///var/lib/etcd/peer:0',
      ],
    );
    fs.mkdirSync(machine.path('/other'));
    const unix = ['--listen-client-urls', 'unix:///var/lib/etcd/c:0', '--advertise-client-urls', urls[0]!];
    containerd.run(
      'other',
      'etcd-cp2',
      machine.path('/other'),
      'etcd',
      '--data-dir',
      '/var/lib/etcd',
      ...unix,
      ...['--listen-peer-urls', 'unix:///var/lib/etcd/p:0'],
    );
    await until('etcd takes writes', () => write({ port: CLIENT }, 0, 1).then(() => true));
    await write({ port: CLIENT }, 1, KEYS);

    // As a service, only its unit may stop it.
    planner.plan([RESTORE]);
    expect(await machine.poll(shell)).toMatchObject({
      status: 1,
      said: expect.stringContaining('etcd-runs'),
    });
    expect(containerd.state('own')).toBe('RUNNING');

    const lines: readonly PlanLine[] = [{ ...RESTORE, image: IMAGE }];
    planner.plan(lines);
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    expect(containerd.state('own')).toBe('STOPPED');
    expect(containerd.state('other')).toBe('RUNNING');
    await isRestored(machine);
    expect(containerd.ctr('leases', 'ls', '-q') + containerd.ctr('snapshots', 'ls')).not.toContain(
      machine.root,
    );
    // The order is done only once: the pod runs with the new founding by then.
    planner.plan(lines);
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
  },
);

test.for(SHELLS)(
  'by %s, a pod without a manifest is ended for good, also a container that kubelet started last and that has no data yet',
  async (shell) => {
    containerd.import(set);
    const begin = (id: string, pod: string) => {
      fs.mkdirSync(machine.path(`/${id}`));
      const unix = ['unix:///var/lib/etcd/c:0', '--advertise-client-urls', 'http://127.0.0.1:1'];
      containerd.run(
        ...([id, pod, machine.path(`/${id}`), 'etcd', '--data-dir', '/var/lib/etcd'] as const),
        ...['--listen-client-urls', ...unix, '--listen-peer-urls', 'unix:///var/lib/etcd/p:0'],
      );
    };
    begin('other', 'etcd-cp2');
    machine.write('/units/kubelet.service.active', '');
    fs.renameSync(machine.path('/bin/systemctl'), machine.path('/systemctl'));
    // kubelet is being stopped while its last call is still answered; the agent can see only the
    // container.
    machine.command(
      'systemctl',
      '#!/bin/sh\n[ "$*" != "stop kubelet.service" ] || { : >"$MUSTER_ROOT/stopping"; until [ -e "$MUSTER_ROOT/begun" ]; do sleep 0.1; done; }\nexec "$MUSTER_ROOT/systemctl" "$@"\n',
    );
    planner.plan([{ do: 'end-etcd', machine: 'cp1' }]);
    const polled = machine.poll(shell);
    await until('kubelet is being stopped', () => machine.exists('/stopping'));
    begin('own', 'etcd-cp1');
    machine.write('/begun', '');
    expect(await polled).toEqual({ status: 0, said: '' });
    expect(containerd.state('own')).toBe('STOPPED');
    expect(containerd.state('other')).toBe('RUNNING');
    expect(machine.read('/units/log')).toMatch(/stop kubelet\.service\n(?:.*\n)*start kubelet\.service\n/);
  },
);

// Debian has no CRI-O, so these are the answers of the real one (agent-restore-crio.test.ts).
describe('under CRI-O', () => {
  let socket: net.Server;
  beforeEach(() => {
    fs.mkdirSync(machine.path('/var/run/crio'), { recursive: true });
    socket = net.createServer().listen(machine.path('/var/run/crio/crio.sock'));
    machine.command('ctr', '#!/bin/sh\nexit 1\n');
  });
  afterEach(() => void socket.close());

  test('under CRI-O a pod without a manifest is ended with crictl', async () => {
    machine.command(
      'crictl',
      '#!/bin/sh\necho "$*" >>"$MUSTER_ROOT/crictl.log"\ncase $1 in ps) [ -e "$MUSTER_ROOT/ended" ] || echo 0123abcd ;; stop) : >"$MUSTER_ROOT/ended" ;; esac\n',
    );
    planner.plan([{ do: 'end-etcd', machine: 'cp1' }]);
    expect(await machine.poll()).toEqual({ status: 0, said: '' });
    const pod = '--label io.kubernetes.pod.namespace=kube-system --label io.kubernetes.pod.name=etcd-cp1';
    const asked = machine.read('/crictl.log').split('\n');
    expect(asked).toContain('stop --timeout 30 0123abcd');
    expect(
      asked.filter((line) => line === `ps -q --state running --name ^etcd$ ${pod}`).length,
    ).toBeGreaterThan(3);
  });

  test.for(SHELLS)(
    'under CRI-O and by %s, the programs of a container that never starts restore the data, and its pod is removed',
    async (shell) => {
      await written(machine);
      standInForCrictl(machine);
      planner.plan([{ ...RESTORE, image: IMAGE }]);
      expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
      await isRestored(machine);
      expect(machine.read('/crictl.log').match(/(?<=^--timeout 2m )\w+/gm)).toEqual(
        'pods rmp inspecti pull runp create inspect pods rmp'.split(' '),
      );
      expect(fs.readdirSync(machine.path('/pods'))).toEqual([]);
    },
  );

  test('under CRI-O the data of an etcd service are restored without a call of crictl', async () => {
    await written(machine);
    for (const [name, program] of Object.entries(PROGRAMS))
      machine.command(name, `#!/bin/sh\nexec ${program} "$@"\n`);
    machine.command('crictl', '#!/bin/sh\nexit 1\n');
    planner.plan([RESTORE]);
    expect(await machine.poll()).toEqual({ status: 0, said: '' });
    await isRestored(machine);
  });
});

test('data that a process has open are not touched, although etcd does not answer', async () => {
  await written(machine);
  const etcd = await EtcdAlone.start(data(machine));
  planner.plan([RESTORE]);
  expect(await machine.poll()).toMatchObject({ status: 1, said: expect.stringContaining('etcd-runs') });
  await etcd.stop();
  expect(machine.exists('/var/lib/muster/etcd.copy')).toBe(false);
  expect(machine.read('/var/lib/muster/marker')).toBe('lab f1 cp1 cp1\n');
});

test('without etcd’s image the data stay as they are until the image appears', async () => {
  await written(machine);
  containerd.import(set);
  planner.plan([{ ...RESTORE, image: 'registry.k8s.io/none:1' }]);
  expect(await machine.poll()).toMatchObject({ status: 1, said: expect.stringContaining('restore-failed') });
  expect(machine.exists('/var/lib/muster/etcd.before-f2')).toBe(false);
  planner.plan([{ ...RESTORE, image: IMAGE }]);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  await isRestored(machine);
});

const NET = '10.83.0';
const HOST = `${NET}.1`;

test('an image that the machine does not have is pulled from where kubelet would get it', async () => {
  await written(machine);
  bridge('br-restore', `${HOST}/24`);
  let muster: Muster | undefined;
  try {
    muster = await startMuster(['br-restore'], imageHost(NET));
    execFileSync('bin/muster', ['artifacts', 'import', set, '--socket', muster.socket]);
    machine.write(
      '/etc/containerd/certs.d/_default/hosts.toml',
      `[host."https://${HOST}:8443"]\ncapabilities = ["pull", "resolve"]\nskip_verify = true\n`,
    );
    planner.plan([{ ...RESTORE, image: IMAGE }]);
    expect(await machine.poll()).toEqual({ status: 0, said: '' });
  } finally {
    await muster?.stop();
    remove([], ['br-restore']);
  }
  await isRestored(machine);
});
