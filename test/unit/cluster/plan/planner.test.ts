/** From an agent's facts to the plan of its machine. */

import { expect, test } from 'vitest';
import { type Evidence, WATCHED_PROGRAMS } from '../../../../src/agent/wire/evidence.ts';
import type { PlanLine } from '../../../../src/agent/wire/plan.ts';
import { duration } from '../../../../src/base/duration.ts';
import { openRollouts } from '../../../../src/cluster/change/rollouts.ts';
import { openPresentObjects } from '../../../../src/cluster/plan/desired-objects.ts';
import type { EtcdPart } from '../../../../src/cluster/plan/etcd-part.ts';
import { factsOf } from '../../pki/kit.ts';
import { clusterDocument, machineDocument, QUIET, rig, settle, TestMachine } from '../planner-kit.ts';
import { QUIET_ROLLOUTS } from '../quiet.ts';
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

/**
 * The apiserver's revision that a plan puts down; undefined when it leaves the manifest as it is.
 */
const revisionIn = (lines: readonly PlanLine[]): string | undefined =>
  /name: MUSTER_REVISION\s+value: "?([0-9a-f]+)/.exec(
    textAt(lines, '/etc/kubernetes/manifests/kube-apiserver.yaml') ?? '',
  )?.[1];

/** The programs besides etcd and API server, as they run after a plan. */
const evidenceAfter = (lines: readonly PlanLine[]): Evidence => ({
  ...{ listeners: new Map(), tokens: new Map() },
  programs: new Map(
    WATCHED_PROGRAMS.flatMap((program) => {
      const text = lines.flatMap((line) =>
        'path' in line && 'content' in line && 'text' in line.content && line.path.includes(program)
          ? [line.content.text]
          : [],
      );
      const revision = /MUSTER_REVISION(?:=|\s+value: "?)([0-9a-f]+)/.exec(text.join('\n'))?.[1];
      return revision === undefined ? [] : [[program, { health: 'ready', revision }] as const];
    }),
  ),
});

test('a restart of API servers reaches one control plane after the other; founding does not wait', async () => {
  const { planner, known, clock } = await rig();
  const names = ['cp1', 'cp2', 'cp3'] as const;
  const machines = new Map(names.map((name) => [name, new TestMachine(name)]));
  const running = new Map<string, string>();
  const evidence = new Map<string, Evidence>();
  const poll = async (name: (typeof names)[number]) => {
    const revision = running.get(name);
    const facts = machines.get(name)!.facts({
      applied: 'f'.repeat(64),
      ...(revision !== undefined && {
        etcd: { wal: 'present', health: 'serving' },
        apiserver: { health: 'ready', revision },
        evidence: evidence.get(name)!,
      }),
    });
    return planner.plan({ machine: name, serial: '1', address: '10.0.0.1' }, facts);
  };
  for (const name of names) {
    const { lines } = await settle(planner, machines.get(name)!);
    expect(lines.filter((line) => line.do === 'hold')).toEqual([]);
    running.set(name, revisionIn(lines)!);
    evidence.set(name, evidenceAfter(lines));
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
    ...QUIET,
    catalog: one.known.catalog,
    clusters: one.clusters,
    applied: one.applied,
    restarts: openRollouts({
      ...QUIET_ROLLOUTS,
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

test('no key of a cluster is made for a member that the founding stops', async () => {
  const stop: EtcdPart = { lines: [], hold: { code: 'data-without-record', text: 'Lost.', stop: true } };
  const { planner, pki, store } = await rig({ etcd: async () => stop });
  for (const { key } of (await store.list('pki/golden/')).records)
    await store.commit([{ key, delete: true }]);
  const plan = await settle(planner, new TestMachine('cp1'));
  expect(plan.lines.at(-1)).toMatchObject({ do: 'hold', code: 'data-without-record' });
  expect(await pki.isFounded('golden')).toBe(false);
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
