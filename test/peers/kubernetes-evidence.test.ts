/**
 * A rotation as a machine observes it, with real Kubernetes: what its listeners show and accept in
 * every step, none of them restarted. Needs MUSTER_ARTIFACTS: test/artifacts.ts.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, type ListenerName, probeName } from '../../src/agent/wire/evidence.ts';
import type { PlanLine } from '../../src/agent/wire/plan.ts';
import { duration } from '../../src/base/duration.ts';
import { ENCRYPTION } from '../../src/pki/encryption.ts';
import { keyIdOf } from '../../src/pki/x509.ts';
import { ARTIFACTS } from '../artifacts.ts';
import { rig, settle, TestMachine } from '../unit/cluster/planner-kit.ts';
import { Machine, Planner } from './agent-kit.ts';
import { PlacedPlan } from './placed-plan.ts';

const ADDRESS = '10.0.0.11';
const FOUNDING = { state: 'new', token: 'one', members: [{ name: 'cp1', address: ADDRESS }] } as const;
const PODS = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler'] as const;
/** API servers look for another encryption configuration once a minute. */
const RELOADS = { timeout: 110_000, interval: 1000 };
const SOON = { timeout: 60_000, interval: 500 };

describe.skipIf(ARTIFACTS === undefined)('with the binaries of Kubernetes', () => {
  const placed = new PlacedPlan();
  const machine = new TestMachine('cp1');
  machine.said = { agent: '9' };
  let of: Awaited<ReturnType<typeof rig>>;
  let server: Planner;
  let agent: Machine;

  /** Brings the machine to its plan, as its agent would; restarts nothing. */
  async function applied(): Promise<void> {
    of.clock.advance(duration('6s'));
    const plan = await settle(of.planner, machine);
    placed.put(plan, machine);
    server.standing = plan.lines.flatMap((line): PlanLine[] => {
      if (line.do === 'probe' || line.do === 'read-encryption') return [line];
      if (line.do !== 'put-with-key' || !line.path.startsWith('/run/muster/probes/')) return [];
      if (!('text' in line.content)) return [];
      const text = line.content.text + machine.keys.get(line.leaf)!.pem();
      return [{ do: 'put', mode: line.mode, path: line.path, content: { text } }];
    });
    await agent.poll();
  }

  const evidence = async () => {
    await agent.poll();
    return server.facts().evidence!;
  };
  const answer = (listener: ListenerName, probe: ReturnType<typeof probeName>) => async () =>
    (await evidence()).listeners.get(listener)?.answers.get(probe);
  const expectAnswers = async (
    listeners: readonly ListenerName[],
    probe: ReturnType<typeof probeName>,
    said: Answer,
  ) => {
    for (const listener of listeners) await expect.poll(answer(listener, probe), SOON).toBe(said);
  };

  const keyset = async (name: 'ca' | 'front-proxy-ca') => (await of.pki.keysets('golden')).get(name)!;
  const step = (name: 'ca' | 'front-proxy-ca', what: 'trust' | 'promote' | 'distrust', generation: string) =>
    of.pki.transition('golden', name, { do: what, generation });

  beforeAll(async () => {
    execFileSync('ip', ['address', 'replace', `${ADDRESS}/24`, 'dev', 'lo']);
    of = await rig({
      spec: { endpoint: ADDRESS, controlPlanes: ['cp1'], workers: [], sans: [] },
      etcd: async () => ({ lines: [], founding: FOUNDING }),
    });
    server = await Planner.open();
    agent = new Machine(server);
    await applied();
    fs.mkdirSync(placed.inside('/var/lib/etcd'), { recursive: true, mode: 0o700 });
    for (const pod of PODS) placed.start(pod);
  });

  afterAll(async () => {
    agent?.close();
    server?.close();
    await placed.close();
  });

  const ready = (port: string, path: string): string => {
    try {
      const url = `https://127.0.0.1:${port}${path}`;
      return execFileSync('curl', ['-sk', '-o', '/dev/null', '-w', '%{http_code}', url], {
        encoding: 'utf8',
      });
    } catch {
      return '000';
    }
  };

  const CLIENTS: readonly ListenerName[] = ['kube-apiserver', 'kube-controller-manager'];

  test('the control plane is ready by the kubeconfigs that name files', async () => {
    await expect.poll(() => ready('6443', '/readyz'), SOON).toBe('200');
    for (const port of ['10257', '10259']) await expect.poll(() => ready(port, '/healthz'), SOON).toBe('200');
  });

  test('a new CA is refused, then accepted beside the old one, then alone; nothing restarts', async () => {
    const names = ['ca', 'front-proxy-ca'] as const;
    const old = new Map<string, string>();
    const next = new Map<string, string>();
    for (const name of names) {
      old.set(name, (await keyset(name)).primary);
      next.set(name, (await of.pki.transition('golden', name, { do: 'make' })).generation);
    }
    await applied();
    for (const name of names) {
      await expectAnswers(CLIENTS, probeName(name, old.get(name)!), 'accepted');
      await expectAnswers(CLIENTS, probeName(name, next.get(name)!), 'refused');
    }
    const issuer = async () => (await evidence()).listeners.get('kube-apiserver')?.issuer;
    const keyOf = async (id: string) =>
      keyIdOf(
        [...(await keyset('ca')).made, ...(await keyset('ca')).trusted].find((one) => one.id === id)!
          .publicKey,
      );
    expect(await issuer()).toBe(await keyOf(old.get('ca')!));

    for (const name of names) await step(name, 'trust', next.get(name)!);
    await applied();
    for (const name of names) {
      await expectAnswers(CLIENTS, probeName(name, old.get(name)!), 'accepted');
      await expectAnswers(CLIENTS, probeName(name, next.get(name)!), 'accepted');
    }

    for (const name of names) await step(name, 'promote', next.get(name)!);
    await applied();
    const now = await keyOf(next.get('ca')!);
    await expect.poll(issuer, SOON).toBe(now);

    for (const name of names) await step(name, 'distrust', old.get(name)!);
    await applied();
    for (const name of names) {
      await expectAnswers(CLIENTS, probeName(name, old.get(name)!), 'refused');
      await expectAnswers(CLIENTS, probeName(name, next.get(name)!), 'accepted');
    }
    // The ConfigMap from which the scheduler takes its CAs only grows: the file proves nothing.
    expect(await answer('kube-scheduler', probeName('ca', old.get('ca')!))()).toBe('accepted');
  });

  test('the API server says which encryption configuration it has loaded', async () => {
    const { generation } = await of.pki.transition('golden', 'encryption', { do: 'make' });
    await applied();
    const hash = () =>
      createHash('sha256')
        .update(fs.readFileSync(placed.inside(ENCRYPTION.path)))
        .digest('hex');
    const loaded = async () => (await evidence()).encryption;
    const first = hash();
    await expect.poll(loaded, SOON).toBe(first);
    await of.pki.transition('golden', 'encryption', { do: 'trust', generation });
    await applied();
    expect(hash()).not.toBe(first);
    await expect.poll(loaded, RELOADS).toBe(hash());
  });
});
