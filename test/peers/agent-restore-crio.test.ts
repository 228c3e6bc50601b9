/**
 * `restore-etcd` for etcd as a static pod under CRI-O, with the real agent, CRI-O and etcd, while
 * kubelet is stopped. Needs root, scripts/in-namespace.sh and MUSTER_ARTIFACTS (test/artifacts.ts).
 */
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Disks } from './agent-disks.ts';
import { type Machine, Planner, SHELLS } from './agent-kit.ts';
import { bridge, type Muster, remove, startMuster } from './dhcp-segment.ts';
import { CRIO_IS_THERE, Crio } from './etcd/crio.ts';
import { IMAGE, packImage, write } from './etcd/pod.ts';
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

const NET = '10.84.0';
const HOST = `${NET}.1`;
const PLAN = [{ ...RESTORE, image: IMAGE }];

describe.skipIf(!CRIO_IS_THERE)('with the real CRI-O', () => {
  let muster: Muster | undefined;
  let crio: Crio;
  let planner: Planner;
  let machine: Machine;
  let disks: Disks;

  beforeAll(async () => {
    bridge('br-crio', `${HOST}/24`);
    crio = await Crio.start(`${HOST}:8443`);
  });
  afterAll(async () => {
    await crio?.stop();
    await muster?.stop();
    remove([], ['br-crio']);
  });

  beforeEach(async () => {
    planner = await Planner.open();
    ({ machine, disks } = await prepared(planner));
    machine.command('crictl', `#!/bin/sh\nexec ${crio.program.join(' ')} "$@"\n`);
    fs.mkdirSync(machine.path('/var/run/crio'), { recursive: true });
    fs.symlinkSync(crio.socket, machine.path('/var/run/crio/crio.sock'));
  });
  afterEach(async () => {
    await machine.stop();
    disks.close();
    machine.close();
    planner.close();
  });

  const pods = (): string => crio.crictl('pods', '-q', '--name', 'muster');

  /** Loses /run and the mounts below it, and starts CRI-O again. */
  async function cutPower(): Promise<void> {
    spawnSync('umount', [machine.path('/run/muster/etcd-image')]);
    machine.reboot();
    await crio.cutPower();
  }

  test('without etcd’s image the data stay as they are; the image is pulled once, from where kubelet would get it', async () => {
    await written(machine);
    const set = fs.mkdtempSync('/run/set-');
    packImage(set);
    // The name that the plan gives to an image that Muster has.
    const { manifests } = JSON.parse(fs.readFileSync(`${set}/oci/index.json`, 'utf8'));
    const plan = [{ ...RESTORE, image: `registry.k8s.io/etcd@${manifests[0].digest}` }];
    planner.plan(plan);
    expect(await machine.poll()).toMatchObject({
      status: 1,
      said: expect.stringMatching(/restore-failed.*fatal msg="pulling image/),
    });
    expect(machine.exists('/var/lib/muster/etcd.before-f2')).toBe(false);

    muster = await startMuster(['br-crio'], imageHost(NET));
    execFileSync('bin/muster', ['artifacts', 'import', set, '--socket', muster.socket]);
    fs.rmSync(set, { recursive: true });
    planner.plan(plan);
    expect(await machine.poll()).toEqual({ status: 0, said: '' });
    await isRestored(machine);
    expect(pods()).toBe('');
    await muster.stop();
    muster = undefined;
  });

  test.for(SHELLS)(
    'by %s, etcd’s container is ended as kubelet would end it, and the programs of its image restore the data',
    async (shell) => {
      const urls = [`http://127.0.0.1:${CLIENT}`, `http://127.0.0.1:${METRICS}`] as const;
      const own = crio.run(
        ...(['etcd-cp1', data(machine), 'etcd', '--name', 'cp1', '--data-dir', '/var/lib/etcd'] as const),
        ...['--listen-client-urls', urls[0], '--advertise-client-urls', urls[0]],
        ...['--listen-metrics-urls', urls[1], '--listen-peer-urls', 'unix:///var/lib/etcd/peer:0'],
      );
      fs.mkdirSync(machine.path('/other'));
      const other = crio.run(
        ...(['etcd-cp2', machine.path('/other'), 'etcd', '--data-dir', '/var/lib/etcd'] as const),
        ...['--listen-client-urls', 'unix:///var/lib/etcd/c:0', '--advertise-client-urls', urls[0]],
        ...['--listen-peer-urls', 'unix:///var/lib/etcd/p:0'],
      );
      await until('etcd takes writes', () => write({ port: CLIENT }, 0, 1).then(() => true));
      await write({ port: CLIENT }, 1, KEYS);
      planner.plan(PLAN);
      expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
      expect(crio.state(own)).toBe('CONTAINER_EXITED');
      expect(crio.state(other)).toBe('CONTAINER_RUNNING');
      await isRestored(machine);
      expect(pods()).toBe('');
      // The order is done only once: the pod runs with the new founding by then.
      planner.plan(PLAN);
      expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
      crio.crictl('rmp', '--all', '--force');
    },
  );

  test('an agent that is killed before or after any call of CRI-O, or with the whole machine, ends in the same state', {
    timeout: 600_000,
  }, async () => {
    await written(machine);
    const kept = machine.path('/kept');
    fs.cpSync(data(machine), kept, { recursive: true });
    for (const [name, real] of [
      ['crictl', crio.program.join(' ')],
      ['mount', '/usr/bin/mount'],
      ['umount', '/usr/bin/umount'],
    ] as const)
      machine.command(name, counting(real));
    const restore = async (kill: string | number) => {
      machine.write('/n', '0\n');
      planner.plan(PLAN);
      return machine.poll(SHELLS[0], { KILL: String(kill) });
    };
    const again = () => {
      for (const name of ['var/lib/muster/etcd', 'var/lib/muster/etcd.before-f2', 'before'])
        fs.rmSync(machine.path(name), { recursive: true, force: true });
      fs.cpSync(kept, data(machine), { recursive: true });
      machine.write('/var/lib/muster/marker', 'lab f1 cp1 cp1\n');
    };
    expect(await restore('never')).toEqual({ status: 0, said: '' });
    const points = Number(machine.read('/n'));
    // Seven calls of crictl, one mount and one unmount.
    expect(points).toBe(18);
    for (let kill = 0; kill < points; kill++) {
      again();
      expect(await restore(kill)).toMatchObject({ status: 'SIGKILL' });
      await machine.stop();
      if (kill % 2 === 1) await cutPower();
      expect(await restore('never'), `killed at ${kill}`).toEqual({ status: 0, said: '' });
      await isRestored(machine);
      expect(pods(), `killed at ${kill}`).toBe('');
    }
  });
});

/**
 * Wraps a command: at its turn it ends everything that the agent runs, either before the command
 * does anything or after it is done and before it returns.
 */
const counting = (real: string): string => `#!/bin/sh
read -r n <"$MUSTER_ROOT/n"
echo $((n + 2)) >"$MUSTER_ROOT/n"
[ "$n" != "$KILL" ] || kill -KILL 0
${real} "$@"
code=$?
[ $((n + 1)) != "$KILL" ] || kill -KILL 0
exit $code
`;
