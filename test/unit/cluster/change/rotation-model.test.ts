/**
 * Rotations of a simulated cluster under random kills of the boot host, power cuts, slow restarts,
 * pauses and orders to roll back. Keysets, engine, table, evidence and turns are the real ones; the
 * machines are simulated: what a program reads at its start stays in it until it starts again.
 */
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Evidence, ListenerEvidence, ListenerName, ProbeName } from '../../../../src/agent/evidence.ts';
import { LISTENERS, probeName } from '../../../../src/agent/evidence.ts';
import type { AgentFacts } from '../../../../src/agent/facts.ts';
import { duration } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { type Changes, openChanges } from '../../../../src/cluster/change/changes.ts';
import { anyKind } from '../../../../src/cluster/change/kind.ts';
import { openRollouts, type Rollouts } from '../../../../src/cluster/change/rollouts.ts';
import { listenersOf } from '../../../../src/cluster/change/rotation/evidence.ts';
import type { RotationOrder } from '../../../../src/cluster/change/rotation/order.ts';
import { rotation } from '../../../../src/cluster/change/rotation/rotation.ts';
import { createRotations, type Rotations } from '../../../../src/cluster/change/rotation/rotations.ts';
import { keyIdOfTokens } from '../../../../src/cluster/change/rotation/token-key.ts';
import type { FoundingStatus } from '../../../../src/cluster/etcd/status.ts';
import type { Kube } from '../../../../src/cluster/kube.ts';
import type { ClusterMachine, ResolvedCluster } from '../../../../src/cluster/spec/resolved-cluster.ts';
import { type EncryptionKeyset, encryptionConfig } from '../../../../src/pki/encryption.ts';
import { newGeneration } from '../../../../src/pki/issue.ts';
import {
  allGenerations,
  bridgesBehind,
  type Generation,
  type Keyset,
  trustBundle,
} from '../../../../src/pki/keyset.ts';
import type { Keysets } from '../../../../src/pki/pki.ts';
import { readAuthority } from '../../../../src/pki/x509.ts';
import { type World, world } from '../../pki/kit.ts';
import { resolved } from '../kit.ts';

/** A certificate: the generation that signed it, and those that signed its bridges. */
interface Leaf {
  readonly generation: string;
  readonly bridges: readonly string[];
}

type Ids = readonly string[];
const trusts = (ids: Ids, { generation, bridges }: Leaf): boolean =>
  ids.includes(generation) || bridges.some((id) => ids.includes(id));
const digest = (value: unknown): string =>
  createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 16);

/** What a machine has of the keys: files that most programs read again by themselves. */
interface Files {
  readonly trust: Readonly<Record<'ca' | 'etcd-ca' | 'front-proxy-ca' | 'sa', Ids>>;
  readonly leaf: Readonly<Record<'ca' | 'etcd-ca' | 'front-proxy-ca', Leaf>>;
  readonly sa: string;
  /** Encryption keys, the one that encrypts first. */
  readonly encryption: Ids;
  readonly encryptionHash: string;
}

const leafOf = (keyset: Keyset): Leaf => {
  const signs = allGenerations(keyset).find(({ id }) => id === keyset.primary)!;
  const sent = bridgesBehind(keyset, signs);
  const bridges = (signs.bridges ?? []).filter(({ certificate }) => sent.includes(certificate));
  return { generation: signs.id, bridges: bridges.map(({ issuer }) => issuer) };
};

function filesOf(keysets: Keysets, encryption: EncryptionKeyset): Files {
  const trusted = (name: 'ca' | 'etcd-ca' | 'front-proxy-ca' | 'sa') =>
    keysets.get(name)!.trusted.map(({ id }) => id);
  const others = encryption.trusted.map(({ id }) => id).filter((id) => id !== encryption.primary);
  return {
    trust: {
      ca: trusted('ca'),
      'etcd-ca': trusted('etcd-ca'),
      'front-proxy-ca': trusted('front-proxy-ca'),
      sa: trusted('sa'),
    },
    leaf: {
      ca: leafOf(keysets.get('ca')!),
      'etcd-ca': leafOf(keysets.get('etcd-ca')!),
      'front-proxy-ca': leafOf(keysets.get('front-proxy-ca')!),
    },
    sa: keysets.get('sa')!.primary,
    encryption: [encryption.primary, ...others],
    encryptionHash: createHash('sha256').update(encryptionConfig(encryption, true)).digest('hex'),
  };
}

/** The programs of a machine, with what they read when they started. */
class Machine {
  readonly spec: ClusterMachine;
  files: Files;
  etcd: { trust: Ids; revision: string };
  api: { etcdTrust: Ids; verifiers: Ids; signs: string; revision: string };
  kubelet: { trust: Ids; client: Leaf };
  controller: { rootCa: Ids };
  /** The keys that the API server has loaded; it looks once in a while. */
  encryption: { ids: Ids; hash: string };
  /** Ticks until a restarted program answers. */
  etcdStarts = 0;
  apiStarts = 0;
  off = 0;
  restarts = { etcd: 0, api: 0 };
  applied = '';
  tokensOf: string;

  constructor(spec: ClusterMachine, files: Files) {
    this.spec = spec;
    this.files = files;
    this.etcd = { trust: files.trust['etcd-ca'], revision: etcdRevision(files) };
    this.api = apiOf(files);
    this.kubelet = { trust: files.trust.ca, client: files.leaf.ca };
    this.controller = { rootCa: files.trust.ca };
    this.encryption = { ids: files.encryption, hash: files.encryptionHash };
    this.tokensOf = files.sa;
  }

  has(role: string): boolean {
    return this.spec.roles.some((one) => one === role);
  }

  get etcdUp(): boolean {
    return this.has('etcd') && this.off === 0 && this.etcdStarts === 0;
  }

  get apiUp(): boolean {
    return this.has('control-plane') && this.off === 0 && this.apiStarts === 0;
  }

  /** Ticks until the API server looks at its encryption keys again. */
  looks = 0;

  readEncryption(): void {
    this.encryption = { ids: this.files.encryption, hash: this.files.encryptionHash };
    this.looks = 7 + this.spec.name.length + (this.spec.name.charCodeAt(2) % 5);
  }

  /** Everything starts again with the files that are there. */
  boot(): void {
    const { files } = this;
    this.etcd = { trust: files.trust['etcd-ca'], revision: etcdRevision(files) };
    this.api = apiOf(files);
    this.kubelet = { trust: files.trust.ca, client: files.leaf.ca };
    this.controller = { rootCa: files.trust.ca };
    this.encryption = { ids: files.encryption, hash: files.encryptionHash };
    this.tokensOf = files.sa;
  }

  evidence(keysets: Keysets, published: Ids): Evidence {
    const listeners = new Map<ListenerName, ListenerEvidence>();
    for (const name of listenersOf(this.spec.roles)) {
      const { accepts, serves } = LISTENERS[name] as {
        readonly accepts: readonly ('ca' | 'etcd-ca' | 'front-proxy-ca')[];
        readonly serves?: 'ca' | 'etcd-ca';
      };
      const up = name.startsWith('etcd') ? this.etcdUp : name === 'kube-apiserver' ? this.apiUp : true;
      const issuer =
        serves && up ? keyIdOf(keysets.get(serves)!, this.files.leaf[serves].generation) : undefined;
      const answers = new Map<ProbeName, 'accepted' | 'refused' | 'unreachable'>();
      for (const keyset of accepts)
        for (const { id } of allGenerations(keysets.get(keyset)!)) {
          const trust = name.startsWith('etcd')
            ? this.etcd.trust
            : name === 'kube-scheduler' && keyset === 'ca'
              ? [...new Set([...published, ...this.files.trust.ca])]
              : this.files.trust[keyset];
          answers.set(
            probeName(keyset, id),
            up ? (trust.includes(id) ? 'accepted' : 'refused') : 'unreachable',
          );
        }
      listeners.set(name, { answers, ...(issuer !== undefined && { issuer }) });
    }
    const { generation } = this.kubelet.client;
    const kid = keyIdOfTokens(
      keysets.get('sa')!.trusted.find(({ id }) => id === this.tokensOf)?.publicKey ??
        keysets.get('sa')!.distrusted.find(({ id }) => id === this.tokensOf)!.publicKey,
    );
    return {
      listeners,
      programs: new Map(),
      kubeletIssuer: keyIdOf(keysets.get('ca')!, generation),
      ...(this.has('control-plane') && { encryption: this.encryption.hash }),
      tokens: new Map([[kid, 3]]),
    };
  }
}

const memoKeyIds = new Map<string, string>();
function keyIdOf(keyset: Keyset, id: string): string {
  const known = memoKeyIds.get(id);
  if (known !== undefined) return known;
  const keyId = readAuthority(allGenerations(keyset).find((one) => one.id === id)!.certificate!).keyId!;
  memoKeyIds.set(id, keyId);
  return keyId;
}

const etcdRevision = (files: Files): string => digest(files.trust['etcd-ca']);
const apiOf = (files: Files) => ({
  etcdTrust: files.trust['etcd-ca'],
  verifiers: files.trust.sa,
  signs: files.sa,
  revision: digest([files.trust['etcd-ca'], files.trust.sa, files.sa]),
});

class Cluster {
  readonly world: World;
  readonly spec: ResolvedCluster = resolved();
  readonly machines: Machine[];
  /** Whether every server so far was killed at its start. */
  changes!: Changes;
  rotations!: Rotations;
  rollouts!: Rollouts;
  /** What extension-apiserver-authentication holds of client CAs. */
  published: Ids;
  /** Secret → the key that encrypted it. */
  secrets: string[];

  constructor(made: World, files: Files) {
    this.world = made;
    this.machines = this.spec.machines.map((machine) => new Machine(machine, files));
    this.published = files.trust.ca;
    this.secrets = [files.encryption[0]!, files.encryption[0]!];
  }

  static async open(): Promise<Cluster> {
    const made = await world();
    const files = filesOf(await made.pki.keysets('golden'), (await made.pki.encryption('golden'))!);
    const cluster = new Cluster(made, files);
    await cluster.startServer();
    return cluster;
  }

  async startServer(): Promise<void> {
    const { pki, store, clock } = this.world;
    await this.changes?.close();
    this.rollouts = openRollouts({
      clock,
      events: { record: () => undefined },
      paused: (name) => this.changes.running(name)?.paused === true,
    });
    const clusters = { get: () => ({ resolved: this.spec, faults: [] }) as never };
    const kind = anyKind(
      rotation({
        pki,
        clusters,
        clock,
        kubes: () => this.kube,
        storedValues: async () => this.secrets.map((key) => Buffer.from(`k8s:enc:secretbox:v1:${key}:x`)),
      }),
    );
    this.changes = await openChanges({
      store,
      clock,
      log: silentLog,
      events: { record: () => undefined },
      clusters,
      kinds: [kind],
      settled: this.rollouts.settled,
    });
    const founding = async () => ({ record: { founded: { at: 0, by: 'cp1' } } }) as unknown as FoundingStatus;
    this.rotations = createRotations({ changes: this.changes, kind, pki, clusters, founding, clock });
  }

  readonly kube: Kube = async (path, call) => {
    const up = this.machines.filter(({ apiUp }) => apiUp);
    if (up.length === 0) throw new Error('no API server');
    const answer = (body: unknown) => ({ body, text: '', date: 0 });
    const keysets = await this.world.pki.keysets('golden');
    const bundle = (ids: Ids) =>
      (allGenerations(keysets.get('ca')!) as readonly Generation[])
        .filter(({ id }) => ids.includes(id))
        .sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1))
        .map(({ certificate }) => certificate)
        .join('');
    if (path === '/api/v1/namespaces') return answer({ items: [{ metadata: { name: 'default' } }] });
    if (path.startsWith('/api/v1/configmaps?fieldSelector')) {
      const data = { 'ca.crt': bundle(up[0]!.controller.rootCa) };
      return answer({ items: [{ metadata: { namespace: 'default' }, data }] });
    }
    if (path.endsWith('/extension-apiserver-authentication')) {
      if (call?.method === 'PATCH') this.published = keysets.get('ca')!.trusted.map(({ id }) => id);
      const front = keysets.get('front-proxy-ca')!;
      return answer({
        data: {
          'client-ca-file': bundle(this.published),
          'requestheader-client-ca-file': trustBundle(front),
        },
      });
    }
    if (path.startsWith('/api/v1/secrets?limit'))
      return answer({
        items: this.secrets.map((_, n) => ({ metadata: { namespace: 'a', name: `${n}` } })),
        metadata: {},
      });
    if (call?.method === 'PUT') {
      const [key] = up[0]!.encryption.ids;
      this.secrets[Number(path.split('/').at(-1))] = key!;
    }
    return answer({ items: [] });
  };

  /** Two seconds: programs start, machines poll, the engine looks. */
  async tick(asking: readonly Machine[], startTakes = 3): Promise<void> {
    const { pki, clock } = this.world;
    clock.leap(duration('2s'));
    const keysets = await pki.keysets('golden');
    const files = filesOf(keysets, (await pki.encryption('golden'))!);
    for (const machine of this.machines) {
      if (machine.etcdStarts > 0) machine.etcdStarts--;
      if (machine.apiStarts > 0) machine.apiStarts--;
      if (machine.off > 0 && --machine.off === 0) machine.boot();
      // An API server looks at its encryption keys once in a minute.
      if (machine.apiUp && --machine.looks <= 0) machine.readEncryption();
    }
    for (const machine of asking) if (machine.off === 0) this.poll(machine, files, keysets, startTakes);
    this.check();
    await this.changes.look('golden');
  }

  poll(machine: Machine, files: Files, keysets: Keysets, startTakes: number): void {
    const facts = {
      etcd: machine.has('etcd')
        ? { wal: 'present', health: machine.etcdUp ? 'serving' : 'alive', revision: machine.etcd.revision }
        : { wal: 'absent', health: 'down' },
      ...(machine.has('control-plane') && {
        apiserver: { health: machine.apiUp ? 'ready' : 'alive', revision: machine.api.revision },
      }),
      evidence: machine.evidence(keysets, this.published),
    } as unknown as AgentFacts;
    const wanted = {
      ...(machine.has('etcd') && { etcd: etcdRevision(files) }),
      ...(machine.has('control-plane') && { 'kube-apiserver': apiOf(files).revision }),
    };
    const { turn } = machine.has('worker')
      ? { turn: { do: 'go', changes: [] } as const }
      : this.rollouts.ask(this.spec, machine.spec, facts, wanted);
    const plan = digest([files, turn.do === 'wait' ? turn.changes : []]);
    this.changes.heard('golden', machine.spec.name, {
      facts,
      since: this.world.clock.monotonic(),
      applied: plan === machine.applied && turn.do === 'go',
    });
    if (plan === machine.applied) return;
    machine.applied = plan;
    // kubelet and controller manager restart at once.
    machine.files = files;
    machine.kubelet = { trust: files.trust.ca, client: files.leaf.ca };
    machine.controller = { rootCa: files.trust.ca };
    machine.tokensOf = files.sa;
    for (const program of turn.do === 'go' ? turn.changes : []) {
      if (program === 'etcd') {
        machine.etcd = { trust: files.trust['etcd-ca'], revision: etcdRevision(files) };
        machine.etcdStarts = startTakes;
        machine.restarts.etcd++;
      } else {
        machine.api = apiOf(files);
        machine.readEncryption();
        machine.apiStarts = startTakes;
        machine.restarts.api++;
      }
    }
  }

  /** What has to hold at every moment. */
  check(): void {
    const members = this.machines.filter(({ etcdUp }) => etcdUp);
    const apis = this.machines.filter(({ apiUp }) => apiUp);
    const restarting = this.machines.filter(({ etcdStarts, off }) => etcdStarts > 0 && off === 0);
    expect(restarting.length, 'members of etcd that restart at once').toBeLessThanOrEqual(1);
    for (const a of members)
      for (const b of members)
        expect(trusts(a.etcd.trust, b.files.leaf['etcd-ca']), `${b.spec.name} speaks to ${a.spec.name}`).toBe(
          true,
        );
    for (const api of apis)
      for (const member of members) {
        expect(trusts(api.api.etcdTrust, member.files.leaf['etcd-ca']), 'API server trusts etcd').toBe(true);
        expect(trusts(member.etcd.trust, api.files.leaf['etcd-ca']), 'etcd trusts API server').toBe(true);
      }
    for (const api of apis)
      for (const machine of this.machines.filter(({ off }) => off === 0)) {
        expect(trusts(api.files.trust.ca, machine.kubelet.client), 'API server trusts kubelet').toBe(true);
        expect(trusts(machine.kubelet.trust, api.files.leaf.ca), 'kubelet trusts API server').toBe(true);
      }
    for (const api of apis)
      for (const other of apis) {
        expect(other.api.verifiers.includes(api.api.signs), 'API servers accept each others tokens').toBe(
          true,
        );
        expect(
          other.encryption.ids.includes(api.encryption.ids[0]!),
          'API servers read what others wrote',
        ).toBe(true);
      }
    for (const api of apis)
      for (const key of this.secrets)
        expect(api.encryption.ids.includes(key), 'every Secret can be read').toBe(true);
  }

  /** Runs until the change has ended. */
  async finish(): Promise<void> {
    for (let n = 0; n < 600; n++) {
      const record = this.changes.record('golden');
      if (record?.ended) return;
      if (record?.paused) await this.changes.resume('golden', 'root');
      await this.tick(this.machines);
    }
    throw new Error(
      JSON.stringify([this.changes.record('golden'), this.changes.waiting('golden')], undefined, 1),
    );
  }

  async settle(): Promise<void> {
    for (let n = 0; n < 35; n++) await this.tick(this.machines);
  }
}

const ALL = { keysets: ['all'], pauseBefore: [], without: [], leave: [], emergency: false };

test('all keysets are rotated together: etcd restarts once, API servers three times, and nobody loses anybody', async () => {
  const cluster = await Cluster.open();
  await cluster.settle();
  const before = await cluster.world.pki.keysets('golden');
  await cluster.rotations.rotate('golden', ALL, 'root');
  await cluster.finish();
  const { ended, steps } = cluster.rotations.show('golden');
  expect(ended?.as).toBe('done');
  expect(steps.map(({ name }) => name)).toEqual([
    'generate',
    'trust',
    'issue',
    'rewrite',
    'search',
    'distrust',
    'publish',
    'forget',
  ]);
  const planes = cluster.machines.slice(0, 3);
  expect(planes.map(({ restarts }) => restarts)).toEqual([
    { etcd: 1, api: 3 },
    { etcd: 1, api: 3 },
    { etcd: 1, api: 3 },
  ]);
  for (const [name, keyset] of await cluster.world.pki.keysets('golden')) {
    expect(allGenerations(keyset)).toHaveLength(1);
    expect(keyset.primary).not.toBe(before.get(name)?.primary);
  }
  await cluster.changes.close();
});

test('etcd restarts once and API servers once for the CAs and the encryption key', async () => {
  const cluster = await Cluster.open();
  await cluster.settle();
  const keysets = ['ca', 'etcd-ca', 'front-proxy-ca', 'encryption'];
  await cluster.rotations.rotate('golden', { ...ALL, keysets }, 'root');
  await cluster.finish();
  const [plane] = cluster.machines;
  expect(plane!.restarts).toEqual({ etcd: 1, api: 1 });
  await cluster.changes.close();
});

test('a rotation leads to the CA that an operator imported', async () => {
  const cluster = await Cluster.open();
  await cluster.settle();
  const ours = await newGeneration('ca', { now: cluster.world.clock.now() });
  await cluster.world.pki.transition('golden', 'ca', { do: 'make', given: ours });
  await cluster.rotations.rotate('golden', { ...ALL, keysets: ['ca'] }, 'root');
  await cluster.finish();
  const keyset = (await cluster.world.pki.keysets('golden')).get('ca')!;
  expect(allGenerations(keyset).map(({ id }) => id)).toEqual([ours.id]);
  await cluster.changes.close();
});

test.for(['trust', 'rewrite', 'distrust'])(
  'a rotation that pauses before %s is rolled back: the old keys sign, and the new ones are forgotten',
  async (step) => {
    const cluster = await Cluster.open();
    await cluster.settle();
    const before = await cluster.world.pki.keysets('golden');
    await cluster.rotations.rotate('golden', { ...ALL, pauseBefore: [step] }, 'root');
    for (let n = 0; n < 300 && !cluster.changes.record('golden')?.paused; n++)
      await cluster.tick(cluster.machines);
    expect(cluster.changes.record('golden')).toMatchObject({ step, paused: { by: '--pause-before' } });
    await cluster.rotations.rollBack('golden', 'root');
    await cluster.finish();
    expect(cluster.changes.record('golden')?.ended?.as).toBe('rolled-back');
    const after = await cluster.world.pki.keysets('golden');
    for (const [name, keyset] of after) {
      expect(keyset.primary).toBe(before.get(name)?.primary);
      expect(allGenerations(keyset)).toHaveLength(1);
    }
    await cluster.changes.close();
  },
);

test('whatever fails and whatever is ordered, nobody loses anybody, and the rotation ends', {
  timeout: 600_000,
}, async () => {
  const event = fc.record({
    asks: fc.subarray([0, 1, 2, 3, 4]),
    what: fc.constantFrom('none', 'none', 'none', 'none', 'kill', 'off', 'pause', 'resume'),
    which: fc.integer({ min: 0, max: 4 }),
    takes: fc.integer({ min: 1, max: 8 }),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(event, { minLength: 20, maxLength: 60 }),
      fc.option(fc.nat(59)),
      async (events, back) => {
        const cluster = await Cluster.open();
        await cluster.settle();
        await cluster.rotations.rotate('golden', ALL, 'root');
        for (const [n, { asks, what, which, takes }] of events.entries()) {
          if (what === 'kill') await cluster.startServer();
          // Only one machine is without power at a time: etcd has to keep its quorum.
          const quiet = cluster.machines.every(({ off, etcdStarts }) => off === 0 && etcdStarts === 0);
          if (what === 'off' && quiet) cluster.machines[which]!.off = takes * 3;
          const order = async (make: () => Promise<unknown>): Promise<void> => {
            await make().catch((error: { code?: string }) => expect(error.code).toBe('E_CHANGE'));
          };
          if (what === 'pause') await order(() => cluster.rotations.pause('golden', 'root'));
          if (what === 'resume') await order(() => cluster.rotations.resume('golden', 'root'));
          if (n === back) await order(() => cluster.rotations.rollBack('golden', 'root'));
          await cluster.tick(
            asks.map((n) => cluster.machines[n]!),
            takes,
          );
        }
        await cluster.finish();
        for (const keyset of (await cluster.world.pki.keysets('golden')).values())
          expect(allGenerations(keyset)).toHaveLength(1);
        await cluster.changes.close();
      },
    ),
    { numRuns: 2 },
  );
});

test('in an emergency the old CAs end in one step, and members of etcd still restart one after the other', async () => {
  const cluster = await Cluster.open();
  await cluster.settle();
  const before = await cluster.world.pki.keysets('golden');
  await cluster.rotations.rotate('golden', { ...ALL, keysets: ['etcd-ca'], emergency: true }, 'root');
  await cluster.finish();
  const { ended, steps } = cluster.rotations.show('golden');
  expect([ended?.as, ...steps.map(({ name }) => name)]).toEqual(['done', 'generate', 'replace', 'forget']);
  const after = await cluster.world.pki.keysets('golden');
  expect(allGenerations(after.get('etcd-ca')!)).toHaveLength(1);
  expect(after.get('etcd-ca')!.primary).not.toBe(before.get('etcd-ca')!.primary);
  // The thief of the CA's key may have those of machines.
  expect(await cluster.world.pki.renewals('golden')).toMatchObject([{ newKeys: true }]);
  await expect(
    cluster.rotations.rotate('golden', { ...ALL, keysets: ['encryption'], emergency: true }, 'root'),
  ).rejects.toThrow('cannot end at once');
  const all = await cluster.rotations.rotate('golden', { ...ALL, emergency: true }, 'root');
  expect((all.order as RotationOrder).keysets.map(({ name }) => name)).toEqual([
    ...['ca', 'etcd-ca', 'front-proxy-ca', 'sa'],
  ]);
  await cluster.changes.close();
});
