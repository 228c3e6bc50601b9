/** From an agent's facts to the plan of its machine. */

import { load } from 'js-yaml';
import { expect, test } from 'vitest';
import type { AgentFacts } from '../../../../src/agent/wire/facts.ts';
import type { PlanLine } from '../../../../src/agent/wire/plan.ts';
import { duration } from '../../../../src/base/duration.ts';
import { openRollouts } from '../../../../src/cluster/change/rollouts.ts';
import { partOf } from '../../../../src/cluster/etcd/etcd-plan.ts';
import { openPresentObjects } from '../../../../src/cluster/plan/desired-objects.ts';
import type { EtcdPart } from '../../../../src/cluster/plan/etcd-part.ts';
import { factsOf } from '../../pki/kit.ts';
import { clusterDocument, granted, machineDocument, rig, settle, TestMachine } from '../planner-kit.ts';
import { asked, PlayedTurns } from '../turns-kit.ts';

const EXTERNAL = {
  spec: { etcd: { topology: 'external' as const, machines: ['e1'] } },
  machines: [
    ...['cp1', 'cp2', 'cp3', 'w1', 'w2'].map((name, n) => ({ name, addresses: [`10.0.0.${11 + n}`] })),
    { name: 'e1', addresses: ['10.0.0.31'] },
  ],
};

/** A line as people read it, with the text of what is no secret and no certificate. */
function shown(line: PlanLine): string {
  const words = Object.entries(line).flatMap(([key, value]) =>
    key === 'content'
      ? []
      : key === 'key'
        ? [(value as { leaf: string }).leaf]
        : [
            key === 'mode'
              ? `0${(value as number).toString(8)}`
              : key === 'digest'
                ? 'DIGEST'
                : String(value),
          ],
  );
  if ((line.do !== 'put' && line.do !== 'put-with-key') || !('text' in line.content)) return words.join(' ');
  const { text, secret } = line.content;
  if (secret || /-----BEGIN|certificate-authority-data/.test(text)) return words.join(' ');
  const readable = text
    .replace(/"?[0-9a-f]{64}"?/g, 'DIGEST')
    .replace(/(MUSTER_REVISION(?:=|\s+value: )|text\/plain string )"?[0-9a-f]{16}"?/g, '$1REVISION');
  return [words.join(' '), ...readable.split('\n').map((one) => (one === '' ? '' : `    ${one}`))]
    .join('\n')
    .trimEnd();
}

test.for([
  ['control-plane', 'cp1', {}],
  ['worker', 'w1', {}],
  ['etcd', 'e1', EXTERNAL],
] as const)('the plan of a machine in the role %s is the golden one', async ([role, name, options]) => {
  const { planner } = await rig(options);
  if (name === 'w1') await settle(planner, new TestMachine('cp1'));
  const plan = await settle(planner, new TestMachine(name));
  await expect(`${plan.lines.map(shown).join('\n')}\n`).toMatchFileSnapshot(
    `../../../golden/cluster/plan-${role}.txt`,
  );
});

/** The text that a plan puts at `path`. */
const textAt = (lines: readonly PlanLine[], path: string): string | undefined =>
  lines.flatMap((line) =>
    line.do === 'put' && line.path === path && 'text' in line.content ? [line.content.text] : [],
  )[0];

const ENCRYPTION = '/etc/kubernetes/apiserver/encryption.yaml';

test('every control plane encrypts Secrets with the same key, and no other machine has it', async () => {
  const { planner } = await rig(EXTERNAL);
  await settle(planner, new TestMachine('e1'));
  const texts = new Set<string | undefined>();
  for (const name of ['cp1', 'cp2', 'cp3'])
    texts.add(textAt((await settle(planner, new TestMachine(name))).lines, ENCRYPTION));
  const [text, ...more] = [...texts];
  expect(more).toEqual([]);
  expect(text).toMatch(/secretbox[\s\S]*identity/);
  for (const name of ['e1', 'w1'])
    expect(textAt((await settle(planner, new TestMachine(name))).lines, ENCRYPTION)).toBeUndefined();
});

test.for([
  ['1.34', ['kube-apiserver']],
  ['1.35', []],
  ['1.36', []],
] as const)(
  'encryption turned off in %s keeps the key for reading, and restarts %j',
  async ([version, restarted]) => {
    const { planner, known } = await rig({ spec: { version } });
    const machine = new TestMachine('cp1');
    const manifests = async () => {
      const { lines } = await settle(planner, machine);
      return new Map(
        ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'etcd'].map((pod) => [
          pod,
          textAt(lines, `/etc/kubernetes/manifests/${pod}.yaml`)!,
        ]),
      );
    };
    const before = await manifests();
    known.put(clusterDocument({ version, encryptSecrets: false }));
    const after = await manifests();
    expect(textAt((await settle(planner, machine)).lines, ENCRYPTION)).toMatch(/identity[\s\S]*secretbox/);
    expect([...after].filter(([pod, text]) => text !== before.get(pod)).map(([pod]) => pod)).toEqual(
      restarted,
    );
  },
);

test('an image that arrives here is named by its digest from then on, and only its pod restarts', async () => {
  let here: string | undefined;
  const { planner } = await rig({
    supplies: () => ({
      binaries: [],
      mirrors: ['https://10.0.0.1:8443'],
      digestOf: (reference) => (reference.includes('/kube-scheduler:') ? here : undefined),
    }),
  });
  const machine = new TestMachine('cp1');
  const manifests = async () =>
    (await settle(planner, machine)).lines.flatMap((line) =>
      line.do === 'put' && line.path.startsWith('/etc/kubernetes/manifests/') && 'text' in line.content
        ? [line.content.text]
        : [],
    );
  const before = await manifests();
  here = `sha256:${'d'.repeat(64)}`;
  const changed = (await manifests()).filter((text) => !before.includes(text));
  expect(changed).toEqual([expect.stringContaining(`registry.k8s.io/kube-scheduler:v1.36.3@${here}"`)]);
});

test('the etcd of a distribution is stopped and masked on members, and nowhere else', async () => {
  const { planner } = await rig(EXTERNAL);
  const masked = {
    do: 'link',
    to: '/dev/null',
    path: '/etc/systemd/system/etcd.service',
    onlyIfAbsent: false,
  };
  for (const name of ['e1', 'cp1', 'w1']) {
    const { lines } = await settle(planner, new TestMachine(name));
    const at = lines.findIndex((line) => line.do === 'link' && line.path === masked.path);
    if (name !== 'e1') expect([name, at]).toEqual([name, -1]);
    else expect(lines.slice(at - 1, at + 1)).toEqual([{ do: 'stop', unit: 'etcd.service' }, masked]);
  }
});

/**
 * The apiserver's revision that a plan puts down; undefined when it leaves the manifest as it is.
 */
const revisionIn = (lines: readonly PlanLine[]): string | undefined =>
  /name: MUSTER_REVISION\s+value: "?([0-9a-f]+)/.exec(
    textAt(lines, '/etc/kubernetes/manifests/kube-apiserver.yaml') ?? '',
  )?.[1];

test('a restart of API servers reaches one control plane after the other; founding does not wait', async () => {
  const { planner, known, clock } = await rig();
  const names = ['cp1', 'cp2', 'cp3'] as const;
  const machines = new Map(names.map((name) => [name, new TestMachine(name)]));
  const running = new Map<string, string>();
  const poll = async (name: (typeof names)[number]) => {
    const revision = running.get(name);
    const facts = machines.get(name)!.facts({
      applied: 'f'.repeat(64),
      ...(revision !== undefined && {
        etcd: { wal: 'present', health: 'serving' },
        apiserver: { health: 'ready', revision },
      }),
    });
    return planner.plan({ machine: name, serial: '1', address: '10.0.0.1' }, facts);
  };
  for (const name of names) {
    const { lines } = await settle(planner, machines.get(name)!);
    expect(lines.filter((line) => line.do === 'hold')).toEqual([]);
    running.set(name, revisionIn(lines)!);
  }
  // All run, and the server is no longer new.
  clock.advance(duration('1m'));
  for (const name of names) expect(revisionIn((await poll(name)).lines)).toBe(running.get(name));
  known.put(clusterDocument({ podSecurity: 'restricted' }));
  const turn = await poll('cp2');
  const next = revisionIn(turn.lines)!;
  expect(next).toMatch(/^[0-9a-f]{16}$/);
  expect(next).not.toBe(running.get('cp2'));
  expect(turn.pollSeconds).toBe(2);
  const waits = await poll('cp1');
  expect(revisionIn(waits.lines)).toBeUndefined();
  expect(waits.lines.at(-1)).toMatchObject({
    do: 'hold',
    code: 'waiting-for-turn',
    text: 'cp2 is changed first: its kube-apiserver was not restarted yet.',
  });
  expect(waits.pollSeconds).toBe(2);
  // All else of the plan is done meanwhile.
  expect(textAt(waits.lines, '/etc/kubernetes/apiserver/admission.yaml')).toContain('enforce: restricted');
  running.set('cp2', next);
  await poll('cp2');
  expect(revisionIn((await poll('cp1')).lines)).toBeDefined();
  expect(revisionIn((await poll('cp3')).lines)).toBeUndefined();
});

const polled = (planner: Awaited<ReturnType<typeof rig>>['planner'], name: string, facts: AgentFacts) =>
  planner.plan({ machine: name, serial: '1', address: '10.0.0.1' }, facts);

test.for([
  [2 * 3_600_000, 'Its clock is 2 hours ahead: set it in the firmware, or name timeServers.'],
  [-10 * 365 * 86_400_000, 'Its clock is 10 years behind: set it in the firmware, or name timeServers.'],
  [-6 * 60_000, 'Its clock is 6 minutes behind: set it in the firmware, or name timeServers.'],
] as const)(
  'a machine whose clock is off by %i ms is held with the reason before anything is started',
  async ([off, text]) => {
    const { planner, clock } = await rig({ spec: { timeServers: ['time.example'] } });
    const machine = new TestMachine('cp1');
    await settle(planner, machine);
    const { lines } = await polled(planner, 'cp1', machine.facts({ clock: clock.now() + off }));
    expect(lines.at(-1)).toEqual({ do: 'hold', code: 'clock', text });
    expect(lines.filter((line) => line.do === 'run')).toMatchObject([{ unit: 'systemd-timesyncd.service' }]);
    expect(textAt(lines, '/etc/systemd/timesyncd.conf.d/90-muster.conf')).toContain('NTP=time.example\n');
  },
);

test('a clock that is off by minutes, or on a machine that runs, holds nobody', async () => {
  const { planner, clock } = await rig();
  const machine = new TestMachine('cp1');
  await settle(planner, machine);
  for (const changes of [{ clock: clock.now() - 240_000 }, { clock: 0, applied: 'f'.repeat(64) }]) {
    const { lines } = await polled(planner, 'cp1', machine.facts(changes));
    expect(lines.filter((line) => line.do === 'hold')).toEqual([]);
  }
});

test('of two machines with one machine-id the second is held, until the first is not heard any more', async () => {
  const { planner, clock } = await rig();
  const [first, second] = [new TestMachine('cp1'), new TestMachine('cp2')];
  await settle(planner, first);
  await settle(planner, second);
  const ask = async (machine: TestMachine) => {
    const facts = machine.facts({ machineId: 'a'.repeat(32), clock: clock.now() });
    return (await polled(planner, machine.name, facts)).lines.filter((line) => line.do === 'hold');
  };
  expect(await ask(first)).toEqual([]);
  expect(await ask(second)).toMatchObject([
    { code: 'machine-id', text: expect.stringContaining('cp1 has the same machine-id') },
  ]);
  expect(await ask(first)).toEqual([]);
  clock.advance(duration('46s'));
  expect(await ask(second)).toEqual([]);
});

test('the same facts give the same plan, with the same certificates', async () => {
  const { planner, pki } = await rig();
  const machine = new TestMachine('cp1');
  const first = await settle(planner, machine);
  const count = (await pki.issued('golden')).length;
  expect(await settle(planner, machine)).toEqual(first);
  expect((await pki.issued('golden')).length).toBe(count);
});

test('a restarted server gives the same certificates for the same keys', async () => {
  const one = await rig();
  const machine = new TestMachine('cp1');
  const first = await settle(one.planner, machine);
  const { createPlanner } = await import('../../../../src/cluster/plan/planner.ts');
  const again = createPlanner({
    catalog: one.known.catalog,
    clusters: one.clusters,
    applied: one.applied,
    restarts: openRollouts({
      ...{ clock: one.clock, events: { record: () => undefined } },
      ...{ askNow: asked(one.clock), givenTurns: new PlayedTurns().opened() },
    }),
    pki: one.pki,
    clock: one.clock,
    events: { record: () => undefined },
    tokens: one.tokens,
    etcd: async () => ({ lines: [], founding: (await import('../kit.ts')).FOUNDING }),
    present: openPresentObjects(undefined, () => 'F'),
    newFilesystem: () => 'x',
  });
  expect(await settle(again, machine)).toEqual(first);
});

test('a certificate is renewed for the same key when a third of its life is left, or up to a month earlier', async () => {
  const { planner, pki, clock } = await rig();
  const machine = new TestMachine('cp1');
  await settle(planner, machine);
  machine.keys.delete('applier');
  const count = (await pki.issued('golden')).length;
  clock.advance(duration('210d'));
  await settle(planner, machine);
  expect((await pki.issued('golden')).length).toBe(count);
  clock.advance(duration('34d'));
  await settle(planner, machine);
  expect((await pki.issued('golden')).length).toBe(2 * count - 1);
});

test('a control plane gets the credential for in-cluster objects until it has applied them, and again when they change', async () => {
  const { planner, known } = await rig();
  const machine = new TestMachine('cp1');
  const applies = async () => {
    const { lines } = await settle(planner, machine);
    return lines.some((line) => line.do === 'run' && line.unit === 'muster-objects.service');
  };
  expect(await applies()).toBe(true);
  expect(await applies()).toBe(true);
  machine.keys.delete('applier');
  expect(await applies()).toBe(false);
  known.put(clusterDocument({ dnsDomain: 'other.local' }));
  expect(await applies()).toBe(true);
});

test('a cluster whose etcd was founded again applies its in-cluster objects again, though they are the same', async () => {
  let founding = 'first';
  const { planner } = await rig({ founding: () => founding });
  const machine = new TestMachine('cp1');
  const applying = async () => {
    const { lines } = await settle(planner, machine);
    const run = lines.find((line) => line.do === 'run' && line.unit === 'muster-objects.service');
    return run?.do === 'run' ? run.digest : undefined;
  };
  const first = await applying();
  expect(first).toBeDefined();
  machine.keys.delete('applier');
  expect(await applying()).toBeUndefined();
  founding = 'second';
  const second = await applying();
  expect(second).toBeDefined();
  // The unit of the first time may still be there, done: it is started anew.
  expect(second).not.toBe(first);
});

test('another address of a machine means other certificates, only where it is named in them', async () => {
  const { planner, pki, known } = await rig();
  const machine = new TestMachine('cp1');
  await settle(planner, machine);
  const before = new Set((await pki.issued('golden')).map(({ serial }) => serial));
  known.put(machineDocument('cp1', ['10.0.0.11', 'fd00::11']));
  await settle(planner, machine);
  const anew = (await pki.issued('golden')).filter(({ serial }) => !before.has(serial));
  expect(anew.map(({ leaf }) => leaf).sort()).toEqual([
    'apiserver',
    'etcd-peer',
    'etcd-server',
    'kubelet-serving',
  ]);
  for (const { certificate } of anew) expect(factsOf(certificate).sans).toContain('IP:FD00:0:0:0:0:0:0:11');
});

test('a machine without a document is held, and nothing is written', async () => {
  const { planner } = await rig();
  const plan = await settle(planner, new TestMachine('stranger'));
  expect(plan.lines).toMatchObject([{ do: 'hold', code: 'not-accepted' }]);
});

test('a machine that no Cluster names has nothing to do', async () => {
  const { planner, known } = await rig();
  known.put(machineDocument('other', ['10.0.0.99']));
  expect((await settle(planner, new TestMachine('other'))).lines).toEqual([]);
});

test('a Cluster that became faulty holds its machines with the reason', async () => {
  const { planner, known } = await rig();
  known.put(clusterDocument({ controlPlanes: ['cp1', 'cp2'] }));
  expect((await settle(planner, new TestMachine('cp1'))).lines).toMatchObject([
    { do: 'hold', code: 'cluster-faulty', text: expect.stringContaining('odd number') },
  ]);
});

test.for([
  ['no-data-disk', { state: 'unused' }],
  ['no-data-disk', { state: 'none', detail: 'serial=A' }],
  ['no-data-disk', { state: 'several', detail: '/dev/vdb /dev/vdc' }],
  ['foreign-disk', { state: 'foreign', device: '/dev/vdb', detail: 'ext4' }],
] as const)('a member of etcd is held with %s when its disk is %o', async ([code, disk]) => {
  const { planner } = await rig();
  expect((await settle(planner, new TestMachine('cp1', disk))).lines).toMatchObject([{ do: 'hold', code }]);
});

test('no key of a cluster is made for a member that the founding stops', async () => {
  const stop: EtcdPart = { lines: [], hold: { code: 'data-without-record', text: 'Lost.', stop: true } };
  const { planner, pki, store } = await rig({ etcd: async () => stop });
  for (const { key } of (await store.list('pki/golden/')).records)
    await store.commit([{ key, delete: true }]);
  const plan = await settle(planner, new TestMachine('cp1'));
  expect(plan.lines.at(-1)).toMatchObject({ do: 'hold', code: 'data-without-record' });
  expect(await pki.isFounded('golden')).toBe(false);
});

test('another etcd binary restarts only the service; a static pod does not care', async () => {
  let sha256 = 'a'.repeat(64);
  const program = (): PlanLine[] => [
    {
      do: 'unpack',
      directory: '/usr/local/lib/muster/etcd',
      url: `http://10.0.0.1/assets/${sha256}`,
      sha256,
    },
  ];
  for (const [runs, units] of [
    ['service', ['muster-etcd.service']],
    ['pod', []],
  ] as const) {
    const { planner } = await rig({
      spec: { etcd: { runs } },
      supplies: () => ({ binaries: program(), mirrors: [], digestOf: () => undefined }),
    });
    const machine = new TestMachine('cp1');
    const started = async () =>
      (await settle(planner, machine)).lines.flatMap((line) =>
        line.do === 'run' ? [[line.unit, line.digest] as const] : [],
      );
    const before = new Map(await started());
    sha256 = runs === 'service' ? 'b'.repeat(64) : 'c'.repeat(64);
    const changed = (await started()).filter(([unit, digest]) => before.get(unit) !== digest);
    expect(changed.map(([unit]) => unit)).toEqual(units);
  }
});

const RESTORING = { member: 'cp1', address: '10.0.0.11', filesystem: 'F', id: 'f2', from: 'f1', at: 0 };

test.for([
  ['pod', 'containerd', ['remove', 'stop kubelet.service', 'run containerd.service', 'restore-etcd', 'hold']],
  ['pod', 'cri-o', ['remove', 'stop kubelet.service', 'run crio.service', 'restore-etcd', 'hold']],
  ['service', 'containerd', ['remove', 'stop muster-etcd.service', 'restore-etcd', 'hold']],
] as const)(
  'to restore etcd that is a %s under %s, nothing is started but what its programs need',
  async ([runs, runtime, want]) => {
    const { planner } = await rig({
      spec: { runtime, etcd: { runs } },
      etcd: async (resolved, machine) => partOf(resolved, machine, { do: 'restore', restoring: RESTORING }),
    });
    const { lines } = await settle(planner, new TestMachine('cp1'));
    const said = lines.flatMap((line) => {
      if (line.do === 'run' || line.do === 'stop') return [`${line.do} ${line.unit}`];
      return ['remove', 'restore-etcd', 'hold'].includes(line.do) ? [line.do] : [];
    });
    expect(said).toEqual(want);
    expect(lines.at(-1)).toMatchObject({ do: 'hold', code: 'restoring' });
    const restore = lines.find((line) => line.do === 'restore-etcd');
    expect(restore).toMatchObject({
      from: 'f1',
      to: 'f2',
      member: 'cp1',
      address: '10.0.0.11',
      program: 'etcdutl',
    });
    expect(restore?.image).toBe(runs === 'pod' ? 'registry.k8s.io/etcd:3.6.8-0' : undefined);
  },
);

test('a restore names the image as containerd has it from kubelet, and the same containerd keeps running', async () => {
  let restoring = false;
  const digest = `sha256:${'5'.repeat(64)}`;
  const { planner } = await rig({
    supplies: () => ({ binaries: [], mirrors: [], digestOf: () => digest }),
    etcd: async (resolved, machine) =>
      restoring ? partOf(resolved, machine, { do: 'restore', restoring: RESTORING }) : granted(),
  });
  const machine = new TestMachine('cp1');
  const containerd = (lines: readonly PlanLine[]) =>
    lines.filter((line) => line.do === 'run' && line.unit === 'containerd.service');
  const before = await settle(planner, machine);
  expect(textAt(before.lines, '/etc/kubernetes/manifests/etcd.yaml')).toContain(`etcd:3.6.8-0@${digest}`);
  restoring = true;
  const { lines } = await settle(planner, machine);
  expect(lines.find((line) => line.do === 'restore-etcd')?.image).toBe(`registry.k8s.io/etcd@${digest}`);
  expect(containerd(lines)).toHaveLength(1);
  expect(containerd(lines)).toEqual(containerd(before.lines));
});

test('a worker waits for the keys that the first member of etcd brings about', async () => {
  const { planner, pki, store } = await rig();
  for (const { key } of (await store.list('pki/golden/')).records)
    await store.commit([{ key, delete: true }]);
  const worker = new TestMachine('w1', { state: 'unused' });
  expect((await settle(planner, worker)).lines).toMatchObject([{ do: 'hold', code: 'waiting-for-members' }]);
  await settle(planner, new TestMachine('cp1'));
  expect(await pki.isFounded('golden')).toBe(true);
  expect((await settle(planner, worker)).lines.length).toBeGreaterThan(20);
});

test('a member that waits for others is prepared but for etcd, and then held', async () => {
  const wait: EtcdPart = { lines: [], hold: { code: 'waiting-for-members', text: 'Two.', stop: false } };
  const { planner } = await rig({ etcd: async () => wait });
  const { lines } = await settle(planner, new TestMachine('cp1'));
  const paths = lines.flatMap((line) => (line.do === 'put' ? [line.path] : []));
  expect(paths).toContain('/etc/kubernetes/manifests/kube-apiserver.yaml');
  expect(paths).not.toContain('/etc/kubernetes/manifests/etcd.yaml');
  expect(lines.at(-1)).toMatchObject({ do: 'hold', code: 'waiting-for-members' });
});

test('a worker whose data disk is marked by another machine is held before anything is put there', async () => {
  const { planner } = await rig();
  await settle(planner, new TestMachine('cp1'));
  const worker = new TestMachine('w1');
  await settle(planner, worker);
  const swapped = new TestMachine('w2', worker.disk);
  swapped.marker = { cluster: 'golden', founding: 'none', member: 'none', machine: 'w1' };
  const { lines } = await settle(planner, swapped);
  expect(lines.at(-1)).toMatchObject({ do: 'hold', code: 'foreign-marker' });
  expect(lines.filter((line) => line.do === 'put')).toEqual([]);
});

test('a request that is none is recorded, and asked for again after a while', async () => {
  const { planner, events } = await rig();
  const machine = new TestMachine('cp1');
  await settle(planner, machine);
  machine.keys.delete('apiserver');
  const facts = machine.facts({ requests: new Map([['apiserver', 'no request']]) });
  const plan = await planner.plan({ machine: 'cp1', serial: '1', address: '10.0.0.11' }, facts);
  expect(plan.lines).toContainEqual({ do: 'request', leaf: 'apiserver', algorithm: 'ECDSA-P256' });
  expect(plan.pollSeconds).toBeGreaterThan(0);
  expect(events).toMatchObject([
    { kind: 'certificate.refused', subject: 'cp1', reason: { code: 'not-pem' } },
  ]);
});

test('a key whose request is of another key gets no certificate', async () => {
  const { planner } = await rig();
  const machine = new TestMachine('cp1');
  await settle(planner, machine);
  const other = new TestMachine('cp2');
  await other.obey({
    lines: [{ do: 'request', leaf: 'apiserver', algorithm: 'ECDSA-P256' }],
    pollSeconds: 0,
  });
  const pins = new Map([...machine.facts().pins, ['apiserver' as const, 'f'.repeat(64)]]);
  const facts = machine.facts({ pins, requests: other.facts().requests });
  const plan = await planner.plan({ machine: 'cp1', serial: '1', address: '10.0.0.11' }, facts);
  expect(plan.lines.filter((line) => line.do === 'request')).toMatchObject([{ leaf: 'apiserver' }]);
});

test('units start after everything that they read, and their digests cover it', async () => {
  const { planner, known } = await rig();
  const machine = new TestMachine('cp1');
  const digest = (lines: readonly PlanLine[], unit: string) =>
    lines.flatMap((line) => (line.do === 'run' && line.unit === unit ? [line.digest] : []))[0];
  const before = (await settle(planner, machine)).lines;
  const last = Math.max(...before.map((line, n) => (line.do.startsWith('put') ? n : 0)));
  expect(before.findIndex(({ do: what }) => what === 'run')).toBeGreaterThan(last);
  known.put(clusterDocument({ overrides: { kubelet: { config: { maxPods: 50 } } } }));
  const after = (await settle(planner, machine)).lines;
  expect(digest(after, 'kubelet.service')).not.toBe(digest(before, 'kubelet.service'));
  expect(digest(after, 'containerd.service')).toBe(digest(before, 'containerd.service'));
});

const VIRTUAL = { endpoint: '10.0.0.10', sans: [] };

test('with kube-vip a static pod holds the address by a lock in etcd, and sees no key of a CA', async () => {
  const { planner, known } = await rig({
    spec: { ...VIRTUAL, virtualAddress: { by: 'kube-vip', interface: 'eth0' } },
  });
  const machine = new TestMachine('cp1');
  const { lines } = await settle(planner, machine);
  const path = '/etc/kubernetes/manifests/kube-vip.yaml';
  const { spec } = load(textAt(lines, path)!) as {
    spec: {
      containers: { args: string[]; env: { name: string; value: string }[]; image: string }[];
      volumes: { hostPath: unknown }[];
    };
  };
  const [{ args, env, image }] = spec.containers as [(typeof spec.containers)[0]];
  expect(args).toContain('--leaderElectionType=etcd');
  expect(args).toContain('--etcdEndpoints=127.0.0.1:2379');
  expect(env).toContainEqual({ name: 'vip_leaseduration', value: '15' });
  expect(env).toContainEqual({ name: 'address', value: '10.0.0.10' });
  expect(image).toMatch(/kube-vip:v/);
  expect(spec.volumes.map(({ hostPath }) => hostPath)).toEqual(
    ['etcd/ca-bundle.crt', 'apiserver-etcd-client.crt', 'apiserver-etcd-client.key'].map((name) => ({
      path: `/etc/kubernetes/pki/${name}`,
      type: 'File',
    })),
  );
  expect(lines).toContainEqual({ do: 'stop', unit: 'muster-address.service' });
  const slow = { flags: { etcd: { 'election-timeout': '5000', 'heartbeat-interval': '500' } } };
  known.put(
    clusterDocument({
      ...VIRTUAL,
      virtualAddress: { by: 'kube-vip', interface: 'eth0' },
      overrides: slow,
    }),
  );
  expect(textAt((await settle(planner, machine)).lines, path)).toMatch(/vip_leaseduration\n +value: "25"/);
  known.put(clusterDocument({ ...VIRTUAL, virtualAddress: { interface: 'eth0' } }));
  expect((await settle(planner, machine)).lines).toContainEqual({ do: 'remove', path });
});

test('an endpoint with another port has a balancer on every control plane, which keepalived checks and which stops with that port', async () => {
  const { planner, known } = await rig({
    spec: { ...VIRTUAL, endpoint: '10.0.0.10:443', virtualAddress: { interface: 'eth0' } },
  });
  const machine = new TestMachine('cp2');
  const { lines } = await settle(planner, machine);
  const config = textAt(lines, '/etc/muster/balancer.cfg');
  expect(config).toContain('  bind *:443\n');
  for (const n of [1, 2, 3]) expect(config).toContain(`  server cp${n} 10.0.0.1${n}:6443\n`);
  expect(textAt(lines, '/etc/systemd/system/muster-balancer.service')).toContain('CAP_NET_BIND_SERVICE');
  expect(textAt(lines, '/etc/muster/keepalived.conf')).toContain('https://127.0.0.1:443/readyz"');
  expect(lines).toContainEqual({ do: 'check', check: 'port', of: ['443', 'haproxy'] });
  const at = (unit: string) => lines.findIndex((line) => line.do === 'reload' && line.unit === unit);
  expect(at('muster-balancer.service')).toBeGreaterThan(0);
  expect(at('muster-address.service')).toBeGreaterThan(at('muster-balancer.service'));
  const worker = await settle(planner, new TestMachine('w1'));
  expect(textAt(worker.lines, '/etc/muster/balancer.cfg')).toContain('  bind 127.0.0.1:6443\n');
  expect(textAt(worker.lines, '/etc/systemd/system/muster-balancer.service')).not.toContain('Ambient');

  known.put(clusterDocument({ ...VIRTUAL, virtualAddress: { interface: 'eth0' } }));
  const after = (await settle(planner, machine)).lines;
  expect(after).toContainEqual({ do: 'stop', unit: 'muster-balancer.service' });
  expect(textAt(after, '/etc/muster/keepalived.conf')).toContain('https://127.0.0.1:6443/readyz"');
});

test('control planes hold the virtual address in turn, each asking its own apiserver and knowing the others', async () => {
  const { planner } = await rig({
    spec: { ...VIRTUAL, virtualAddress: { interface: 'eth0' } },
  });
  const { lines } = await settle(planner, new TestMachine('cp2'));
  const config = textAt(lines, '/etc/muster/keepalived.conf');
  expect(config).toContain('unicast_src_ip 10.0.0.12');
  expect(config).toContain('  unicast_peer {\n    10.0.0.11\n    10.0.0.13\n  }');
  expect(config).toContain('10.0.0.10/32 dev eth0');
  expect(lines).toContainEqual(expect.objectContaining({ do: 'reload', unit: 'muster-address.service' }));
  const worker = await settle(planner, new TestMachine('w1', { state: 'unused' }));
  expect(worker.lines.filter((line) => line.do === 'reload')).toMatchObject([
    { unit: 'muster-balancer.service' },
  ]);
});
