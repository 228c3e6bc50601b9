/**
 * A simulated cluster for tests of rotations. Keysets, engine, table, evidence and turns are the
 * real ones; the machines are simulated: what a program reads at its start stays in it until it
 * starts again.
 */
import { createHash } from 'node:crypto';
import { expect } from 'vitest';
import type {
  Evidence,
  ListenerEvidence,
  ListenerName,
  ProbeName,
} from '../../../../src/agent/wire/evidence.ts';
import { LISTENERS, probeName } from '../../../../src/agent/wire/evidence.ts';
import type { AgentFacts } from '../../../../src/agent/wire/facts.ts';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration, type Millis } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { type ChangeOrders, createChangeOrders } from '../../../../src/cluster/change/change-orders.ts';
import { type Changes, openChanges } from '../../../../src/cluster/change/changes.ts';
import { anyKind } from '../../../../src/cluster/change/kind.ts';
import { openRollouts, type Rollouts } from '../../../../src/cluster/change/rollouts.ts';
import { listenersOf } from '../../../../src/cluster/change/rotation/evidence.ts';
import { rotationOrders } from '../../../../src/cluster/change/rotation/prepare.ts';
import { type Rotation, rotation } from '../../../../src/cluster/change/rotation/rotation.ts';
import { keyIdOfTokens } from '../../../../src/cluster/change/rotation/token-key.ts';
import type { FoundingStatus } from '../../../../src/cluster/etcd/status.ts';
import type { KubeAnswer, KubeCall } from '../../../../src/cluster/kube.ts';
import type { ClusterMachine, ResolvedCluster } from '../../../../src/cluster/model/resolved-cluster.ts';
import { rehearsed } from '../../../../src/cluster/plan/rehearsed.ts';
import {
  type EncryptionKeyset,
  encryptionConfig,
  encryptionConfigHash,
} from '../../../../src/pki/encryption.ts';
import {
  allGenerations,
  bridgesBehind,
  type Generation,
  type Keyset,
  trustBundle,
} from '../../../../src/pki/keyset.ts';
import { type Keysets, openPki } from '../../../../src/pki/pki.ts';
import { newVaultKey, vaultFrom } from '../../../../src/pki/vault.ts';
import { readAuthority } from '../../../../src/pki/x509.ts';
import type { KubernetesSpec } from '../../../../src/resources/kinds.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import type { World } from '../../pki/kit.ts';
import { resolved } from '../kit.ts';
import { QUIET_CHANGES, QUIET_ROLLOUTS } from '../quiet.ts';
import { decided, PlayedTurns } from '../turns-kit.ts';

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

const memoHashes = new WeakMap<EncryptionKeyset, string>();
function encryptionHashOf(encryption: EncryptionKeyset): string {
  const hash = memoHashes.get(encryption) ?? encryptionConfigHash(encryptionConfig(encryption, true));
  memoHashes.set(encryption, hash);
  return hash;
}

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
    encryptionHash: encryptionHashOf(encryption),
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
  /** Its agent is killed when it has its next plan, and does nothing of that. */
  killed = false;
  /** Its agent was killed when it had just got its turn. */
  hasTurn = false;
  restarts = { etcd: 0, api: 0 };
  /** Whether the plan asks it to probe nothing. */
  quiet = false;
  /** Requests that the API server refused since it started. */
  refused = 0;
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

  evidence(keysets: Keysets, published: Ids, quiet: boolean): Evidence {
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
      for (const keyset of quiet ? [] : accepts)
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

/** `expect` costs a tenth of a case's time where it is called so often. */
function holds(so: boolean, what: string, ...about: readonly Machine[]): void {
  if (!so) expect.fail(`${what}: ${about.map(({ spec }) => spec.name).join(', ')}`);
}

/** A clock whose wall-clock time jumps. */
export class JumpingClock extends ManualClock {
  jumped = 0;

  override now(): Millis {
    return (super.now() + this.jumped) as Millis;
  }
}

type KeyWorld = Pick<World, 'pki' | 'store' | 'clock'>;

/** The keys that each simulated cluster begins with: making them takes longer than a rotation. */
const FOUNDED = { at: Date.now() as Millis, vault: vaultFrom(newVaultKey(), 'test') };
const founded = (async () => {
  const store = openMemoryStore();
  await openPki({ store, vault: FOUNDED.vault, clock: new ManualClock(FOUNDED.at) }).found('golden');
  return (await store.list('')).records.map(({ key, value }) => ({ key, put: value }));
})();

async function keyWorld(): Promise<KeyWorld> {
  const store = openMemoryStore();
  await store.commit(await founded);
  const clock = new JumpingClock(FOUNDED.at);
  return { store, clock, pki: openPki({ store, vault: FOUNDED.vault, clock }) };
}

export class Cluster {
  readonly world: KeyWorld;
  readonly spec: ResolvedCluster;
  readonly machines: Machine[];
  /** Whether every server so far was killed at its start. */
  changes!: Changes;
  rotation!: Rotation;
  orders!: ChangeOrders;
  rollouts!: Rollouts;
  /** What extension-apiserver-authentication holds of client CAs. */
  published: Ids;
  /** Secret → the key that encrypted it. */
  secrets: string[];

  constructor(made: KeyWorld, files: Files, spec: Partial<KubernetesSpec>) {
    this.world = made;
    this.spec = resolved(spec);
    this.machines = this.spec.machines.map((machine) => new Machine(machine, files));
    this.published = files.trust.ca;
    this.secrets = [files.encryption[0]!, files.encryption[0]!];
  }

  static async open(spec: Partial<KubernetesSpec> = {}, made?: KeyWorld): Promise<Cluster> {
    made ??= await keyWorld();
    const files = filesOf(await made.pki.keysets('golden'), (await made.pki.encryption('golden'))!);
    const cluster = new Cluster(made, files, { ...spec, pki: { rehearsal: '10s', ...spec.pki } });
    await cluster.startServer();
    return cluster;
  }

  readonly turns = new PlayedTurns();

  async startServer(): Promise<void> {
    const { pki, store, clock } = this.world;
    await this.changes?.close();
    this.rollouts = openRollouts({
      ...QUIET_ROLLOUTS,
      clock,
      events: { record: () => undefined },
      askNow: async () => ({
        at: clock.monotonic(),
        etcd: new Set(this.machines.filter((one) => this.serves(one)).map(({ spec }) => spec.name)),
        'kube-apiserver': new Set(this.machines.filter(({ apiUp }) => apiUp).map(({ spec }) => spec.name)),
      }),
      givenTurns: this.turns.opened(),
      waits: (name) =>
        this.changes.running(name)?.paused ? 'The change of the cluster is paused.' : undefined,
      leftOut: () => this.leftOut,
      trustEnded: (name) => this.rotation.trustEnded(name),
    });
    const clusters = { get: () => ({ resolved: this.spec, faults: [] }) as never };
    this.rotation = rotation({
      pki,
      clusters,
      clock,
      kubes: (_, address) => async (path, call) =>
        path === '/metrics' ? this.metrics(address) : this.kube(address, path, call),
      storedValues: async () => this.secrets.map((key) => Buffer.from(`k8s:enc:secretbox:v1:${key}:x`)),
    });
    const founding = async () => ({ record: { founded: { at: 0, by: 'cp1' } } }) as unknown as FoundingStatus;
    const kind = anyKind({ ...this.rotation, ...rotationOrders({ pki, clusters, founding, clock }) });
    this.changes = await openChanges({
      ...QUIET_CHANGES,
      store,
      clock,
      log: silentLog,
      events: { record: () => undefined },
      clusters,
      kinds: [kind],
      settled: this.rollouts.settled,
    });
    this.changes.start();
    this.orders = createChangeOrders(this.changes);
  }

  /** The machines that an operator has left out. */
  get leftOut(): readonly string[] {
    return this.changes?.record('golden')?.without ?? [];
  }

  /** Whether a member of etcd is one of a majority whose members accept each other. */
  serves(machine: Machine): boolean {
    if (!machine.etcdUp) return false;
    const accept = (a: Machine, b: Machine) => trusts(a.etcd.trust, b.files.leaf['etcd-ca']);
    const members = this.machines.filter((one) => one.has('etcd'));
    const others = members.filter((one) => one.etcdUp && accept(one, machine) && accept(machine, one));
    return others.length * 2 > members.length;
  }

  /** A client that has only a certificate of this generation, and asks every API server. */
  oldClient: string | undefined;

  metrics(address: string): KubeAnswer {
    const machine = this.machines.find(({ spec }) => spec.addresses[0] === address)!;
    if (!machine.apiUp) throw new Error(`${machine.spec.name} does not answer`);
    const counters = [
      `process_start_time_seconds ${1 + machine.restarts.api}`,
      `authentication_attempts{result="error"} ${machine.refused}`,
      'authentication_attempts{result="success"} 17',
    ];
    return { body: undefined, text: counters.map((line) => `${line}\n`).join(''), date: 0 };
  }

  async kube(address: string, path: string, call?: KubeCall): Promise<KubeAnswer> {
    const api = this.machines.find(({ spec }) => spec.addresses[0] === address)!;
    if (!api.apiUp) throw new Error(`${api.spec.name} does not answer`);
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
      const data = { 'ca.crt': bundle(api.controller.rootCa) };
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
      const [key] = api.encryption.ids;
      this.secrets[Number(path.split('/').at(-1))] = key!;
    }
    return answer({ items: [] });
  }

  /** Two seconds: programs start, machines poll, the engine looks. */
  async tick(asking: readonly Machine[], startTakes = 3): Promise<void> {
    const { pki, clock } = this.world;
    clock.leap(duration('2s'));
    const keysets = await pki.keysets('golden');
    const encryption = (await pki.encryption('golden'))!;
    for (const machine of this.machines) {
      if (this.oldClient && machine.apiUp && !machine.files.trust.ca.includes(this.oldClient))
        machine.refused++;
      if (machine.etcdStarts > 0) machine.etcdStarts--;
      if (machine.apiStarts > 0) machine.apiStarts--;
      if (machine.off > 0 && --machine.off === 0) machine.boot();
      // An API server looks at its encryption keys once in a minute.
      if (machine.apiUp && --machine.looks <= 0) machine.readEncryption();
    }
    for (const machine of asking)
      if (machine.off === 0) await this.poll(machine, keysets, encryption, startTakes);
    this.check();
    await this.changes.look('golden');
  }

  async poll(
    machine: Machine,
    shared: Keysets,
    encryption: EncryptionKeyset,
    startTakes: number,
  ): Promise<void> {
    const rehearsal = this.changes.running('golden')?.rehearsal(machine.spec.name);
    const quiet = rehearsal?.quiet === true;
    const keysets = rehearsed(shared, rehearsal);
    const files = filesOf(keysets, encryption);
    const facts = {
      etcd: machine.has('etcd')
        ? {
            wal: 'present',
            health: this.serves(machine) ? 'serving' : 'alive',
            revision: machine.etcd.revision,
          }
        : { wal: 'absent', health: 'down' },
      ...(machine.has('control-plane') && {
        apiserver: { health: machine.apiUp ? 'ready' : 'alive', revision: machine.api.revision },
      }),
      evidence: machine.evidence(keysets, this.published, machine.quiet),
    } as unknown as AgentFacts;
    const wanted = {
      ...(machine.has('etcd') && { etcd: etcdRevision(files) }),
      ...(machine.has('control-plane') && { 'kube-apiserver': apiOf(files).revision }),
    };
    const { turn } = machine.has('worker')
      ? { turn: { do: 'go', changes: [] } as const }
      : await decided(this.rollouts, this.spec, machine.spec, facts, wanted);
    const plan = digest([files, quiet, turn.do === 'wait' ? turn.changes : []]);
    this.changes.heard('golden', machine.spec.name, {
      facts,
      since: this.world.clock.monotonic(),
      applied: plan === machine.applied && turn.do === 'go',
    });
    if (plan === machine.applied) return;
    if (machine.killed) {
      machine.killed = false;
      machine.hasTurn = turn.do === 'go';
      return;
    }
    machine.applied = plan;
    // kubelet and controller manager restart at once.
    machine.files = files;
    machine.quiet = quiet;
    machine.kubelet = { trust: files.trust.ca, client: files.leaf.ca };
    machine.controller = { rootCa: files.trust.ca };
    machine.tokensOf = files.sa;
    machine.hasTurn = false;
    // What does not work starts again without a turn.
    const now = { etcd: machine.etcd.revision, 'kube-apiserver': machine.api.revision };
    for (const program of ['etcd', 'kube-apiserver'] as const) {
      if (wanted[program] === undefined || wanted[program] === now[program]) continue;
      if (turn.do === 'wait' && turn.changes.includes(program)) continue;
      if (program === 'etcd') {
        machine.etcd = { trust: files.trust['etcd-ca'], revision: etcdRevision(files) };
        machine.etcdStarts = startTakes;
        machine.restarts.etcd++;
      } else {
        machine.api = apiOf(files);
        machine.readEncryption();
        machine.apiStarts = startTakes;
        machine.refused = 0;
        machine.restarts.api++;
      }
    }
  }

  /** What has to hold at every moment. */
  check(): void {
    holds(this.machines.filter((one) => this.serves(one)).length >= 2, 'etcd has its quorum');
    holds(
      this.machines.some(({ apiUp }) => apiUp),
      'an API server answers',
    );
    // Nothing waits for a machine that was left out, so it may lose the others.
    const running = this.machines.filter(({ off, spec }) => off === 0 && !this.leftOut.includes(spec.name));
    const members = running.filter(({ etcdUp }) => etcdUp);
    const apis = running.filter(({ apiUp }) => apiUp);
    for (const a of members)
      for (const b of members)
        holds(trusts(a.etcd.trust, b.files.leaf['etcd-ca']), 'one member of etcd accepts another', a, b);
    for (const api of apis) {
      for (const member of members) {
        holds(trusts(api.api.etcdTrust, member.files.leaf['etcd-ca']), 'API server trusts etcd', api, member);
        holds(trusts(member.etcd.trust, api.files.leaf['etcd-ca']), 'etcd trusts API server', member, api);
      }
      for (const one of running) {
        holds(trusts(api.files.trust.ca, one.kubelet.client), 'API server trusts kubelet', api, one);
        holds(trusts(one.kubelet.trust, api.files.leaf.ca), 'kubelet trusts API server', one, api);
      }
      for (const other of apis) {
        holds(other.api.verifiers.includes(api.api.signs), 'tokens are accepted elsewhere', other, api);
        holds(other.encryption.ids.includes(api.encryption.ids[0]!), 'what was written is read', other, api);
      }
      for (const key of this.secrets) holds(api.encryption.ids.includes(key), 'every Secret is read', api);
    }
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
    for (let n = 0; n < 5; n++) await this.tick(this.machines);
  }
}
