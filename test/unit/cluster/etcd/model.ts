/**
 * Machines, disks, etcd and a boot host as a small model, for random histories: polls, delayed
 * plans, wiped and swapped disks, a killed server, a store that is rolled back or lost. The
 * decisions are the real ones; the model carries them out and records what must never happen.
 */

import { type Millis, millis } from '../../../../src/base/duration.ts';
import { decide } from '../../../../src/cluster/etcd/decide.ts';
import {
  beginReplacing,
  bindLate,
  openByAsking,
  openByOperator,
  witness,
  witnessView,
} from '../../../../src/cluster/etcd/evidence.ts';
import type {
  EtcdDecision,
  EtcdMember,
  EtcdView,
  FoundingRecord,
  Known,
  MemberFacts,
} from '../../../../src/cluster/etcd/founding.ts';
import {
  gone,
  nextRemoval,
  nextStage,
  orderAdopt,
  orderCallOff,
  orderLeaving,
  orderReset,
  withStage,
} from '../../../../src/cluster/etcd/leaving.ts';
import type { Ordered } from '../../../../src/cluster/etcd/order.ts';
import { majority } from '../../../../src/cluster/etcd/quorum.ts';
import { nextStep } from '../../../../src/cluster/etcd/replacing.ts';
import { orderRestore, orderSnapshot, witnessRestored } from '../../../../src/cluster/etcd/restoring.ts';
import { etcdPeerUrl } from '../../../../src/cluster/model/ports.ts';

interface Disk {
  readonly filesystem: string;
  marker?: { cluster: string; founding: string; member: string; machine: string };
  /** The raft member whose log is on this disk. */
  wal?: { readonly founding: string; readonly identity: string };
  /** A file next to the data, written once data were seen: the unit refuses `new` from then on. */
  started: boolean;
  /** Foundings of which it was cleared: it may join them, but not begin them. */
  readonly left: Set<string>;
  /** The highest revision of the store that the machine was sent. */
  seen: number;
}

interface Machine {
  readonly name: string;
  disk: Disk;
  powered: boolean;
  running: boolean;
  /** The plan that it was given and has not carried out yet. */
  plan?: EtcdDecision | GiveUp;
  fenced: boolean;
  /** The last order to give everything up that it has carried out in this boot. */
  left?: string;
}

interface Snapshot {
  readonly revision: number;
  readonly record: FoundingRecord | undefined;
}

/** The plan of a machine that has to give something up. */
interface GiveUp {
  readonly do: 'give-up';
  readonly founding: string;
  readonly clear: boolean;
  /** Identifies the order. */
  readonly order: string;
}

/** The members of one founding as raft knows them. */
interface Cluster {
  readonly members: Map<string, { name: string; machine: string; learner: boolean }>;
  formed: boolean;
}

/** The first three are members of the cluster at the beginning. */
export const NAMES = ['m1', 'm2', 'm3', 'm4', 'm5'] as const;
const MEMBERS = NAMES.map((name, n) => ({ name, address: `10.0.0.${n + 1}` }));
const addressOf = (name: string): string => MEMBERS.find((one) => one.name === name)!.address;

export class Model {
  readonly machines: Machine[];
  /** The members in the Cluster's document. */
  members: readonly string[] = NAMES.slice(0, 3);
  readonly violations: string[] = [];
  readonly trace: string[] = [];
  #record: FoundingRecord | undefined;
  #revision = 1;
  readonly #backups: Snapshot[] = [];
  #asked = new Map<string, MemberFacts>();
  #heard = new Map<string, Millis>();
  #now = millis(0);
  #opened = false;
  #rolledBack: string | undefined;
  /** Disks that were moved since the server started, so that it does not know their content. */
  #moved = new Set<Disk>();
  readonly #pulled: Disk[] = [];
  readonly #clusters = new Map<string, Cluster>();
  readonly #born = new Set<string>();
  readonly #granted = new Map<string, string>();
  #ids = 0;

  constructor() {
    this.machines = NAMES.map((name) => ({
      name,
      disk: this.#newDisk(),
      powered: true,
      running: false,
      fenced: false,
    }));
  }

  get record(): FoundingRecord | undefined {
    return this.#record;
  }

  get clusters(): ReadonlyMap<string, Cluster> {
    return this.#clusters;
  }

  #newDisk(): Disk {
    return { filesystem: `F${this.#ids++}`, started: false, left: new Set(), seen: 0 };
  }

  #violation(text: string): void {
    this.violations.push(`${text}\n${this.trace.join('\n')}`);
  }

  #commit(record: FoundingRecord): void {
    this.#backups.push({ revision: this.#revision, record: this.#record });
    this.#record = record;
    this.#revision++;
  }

  #standing(founding: string): boolean {
    const cluster = this.#clusters.get(founding);
    if (!cluster) return false;
    let voters = 0;
    let running = 0;
    for (const [id, { learner }] of cluster.members) {
      if (learner) continue;
      voters++;
      if (this.#runs(founding, id)) running++;
    }
    return running >= majority(voters);
  }

  #runs(founding: string, identity: string): boolean {
    for (const { running, disk } of this.machines)
      if (running && disk.wal?.identity === identity && disk.wal.founding === founding) return true;
    return false;
  }

  #view(): EtcdView | undefined {
    const id = this.#record?.id;
    if (id === undefined || !this.#standing(id)) return undefined;
    const members = [...this.#clusters.get(id)!.members].map(
      ([identity, { name, machine, learner }]): EtcdMember => ({
        id: identity,
        name,
        peerUrls: [etcdPeerUrl(addressOf(machine))],
        learner,
        healthy: this.#runs(id, identity),
      }),
    );
    return { clusterId: id, members };
  }

  #known(): Known {
    const view = this.#view();
    return {
      cluster: 'c',
      members: MEMBERS.filter(({ name }) => this.members.includes(name)),
      ...(this.#record && { record: this.#record }),
      life: {
        asked: this.#asked,
        heard: this.#heard,
        now: this.#now,
        opened: this.#opened,
        ...(this.#rolledBack === undefined ? {} : { rolledBack: this.#rolledBack }),
      },
      ...(view && { view }),
    };
  }

  /** A machine reports its facts and gets a plan, which it carries out later. */
  poll(n: number): void {
    const machine = this.machines[n]!;
    if (!machine.powered || machine.plan) return;
    const { disk, running, name } = machine;
    const leaving = this.#record?.leaving?.[name];
    if (!leaving && !this.members.includes(name)) return;
    const serving = running && disk.wal !== undefined && this.#serves(disk.wal);
    const facts: MemberFacts = {
      member: name,
      machine: name,
      filesystem: disk.filesystem,
      ...(disk.marker && { marker: disk.marker }),
      etcd: {
        wal: disk.wal ? 'present' : 'absent',
        health: serving ? 'serving' : running ? 'alive' : 'down',
      },
      seenRevision: disk.seen,
      fenced: machine.fenced,
    };
    if (!leaving) {
      this.#asked.set(name, facts);
      this.#heard.set(name, this.#now);
    }
    if (disk.seen > this.#revision) this.#rolledBack = name;
    if (leaving || this.#record?.reset) {
      this.#giveUp(machine, facts);
      return;
    }
    this.#settle(facts);
    const decision = decide(this.#known(), facts);
    this.trace.push(`${name} asks (${disk.filesystem}, wal ${facts.etcd.wal}) → ${word(decision)}`);
    if (decision.do === 'found') this.#grant(name, disk.filesystem);
    if (decision.do === 'replace') {
      const begun = beginReplacing(this.#known(), facts, addressOf(name));
      if (begun) this.#commit(begun);
    }
    disk.seen = Math.max(disk.seen, this.#revision);
    machine.plan = decision;
  }

  /** The poll of a machine that leaves, or whose cluster was reset. */
  #giveUp(machine: Machine, { marker }: MemberFacts): void {
    const { disk, name } = machine;
    const record = this.#record!;
    const leaving = record.leaving?.[name];
    if (leaving && leaving.stage !== 'down' && !record.reset) return;
    const order = `${record.reset ? 'reset' : 'leave'} ${record.reset?.at ?? leaving?.since}`;
    const clear = record.reset !== undefined || leaving!.clear;
    if (clear && marker && (marker.machine !== name || marker.founding !== record.id)) return;
    if (machine.left === order && (!clear || (!disk.marker && !disk.wal))) {
      const after = gone(record, name);
      if (after) this.#commit(after);
      return;
    }
    this.trace.push(`${name} asks and is told to give up${clear ? ' and clear' : ''}: ${order}`);
    machine.plan = { do: 'give-up', founding: record.id, clear, order };
  }

  #serves({ founding, identity }: NonNullable<Disk['wal']>): boolean {
    return this.#standing(founding) && this.#clusters.get(founding)!.members.has(identity);
  }

  #settle(facts: MemberFacts): void {
    for (;;) {
      const known = this.#known();
      const opening = openByAsking(known, { now: 0, id: `X${this.#ids}` });
      if (opening) {
        this.#ids++;
        for (const { disk, name } of this.machines)
          if (disk.wal && this.members.includes(name) && !this.#moved.has(disk))
            this.#violation(`opened beside the data of ${name}`);
        this.#opened = true;
      }
      const next =
        opening ??
        witnessRestored(known, facts, 0) ??
        bindLate(known, facts) ??
        witness(known, facts, 0) ??
        witnessView(known, 0);
      if (!next) return;
      this.#commit(next);
    }
  }

  #grant(member: string, filesystem: string): void {
    const { id, founded } = this.#record!;
    if (founded) this.#violation(`${member} may found after the founding ended`);
    const key = `${id} ${member}`;
    const before = this.#granted.get(key);
    if (before !== undefined && before !== filesystem)
      this.#violation(`${member} may found on ${filesystem} after ${before}`);
    this.#granted.set(key, filesystem);
  }

  /** The machine carries out its plan, with its own guards. */
  apply(n: number): void {
    const machine = this.machines[n]!;
    const { plan, disk, name } = machine;
    if (!machine.powered || !plan) return;
    delete machine.plan;
    machine.fenced = false;
    this.trace.push(`${name} does ${word(plan)}`);
    if (plan.do === 'hold') return;
    if (plan.do === 'replace') {
      machine.running = false;
      machine.fenced = true;
      return;
    }
    if (plan.do === 'give-up') {
      this.#clear(machine, plan);
      return;
    }
    if (plan.do === 'restore') {
      this.#restore(machine, plan.restoring);
      return;
    }
    const founding = plan.founding.token.replace('muster-', '');
    if (disk.marker && disk.marker.founding !== founding) return;
    disk.marker ??= { cluster: 'c', founding, member: name, machine: name };
    if (plan.do === 'start') {
      if (disk.wal && disk.wal.founding !== founding)
        this.#violation(`${name} starts in ${founding} with data of ${disk.wal.founding}`);
      disk.started = true;
      machine.running = disk.wal !== undefined;
      return;
    }
    if (disk.wal || (plan.do === 'found' && (disk.started || disk.left.has(founding)))) return;
    const first = plan.founding.members.map((one) => one.name);
    if (plan.do === 'found') this.#begin(machine, founding, first);
    else this.#join(machine, founding);
  }

  #clear(machine: Machine, { founding, clear, order }: GiveUp): void {
    const { disk, name } = machine;
    machine.running = false;
    if (clear && disk.marker) {
      if (disk.marker.founding !== founding || disk.marker.machine !== name) return;
      const { wal } = disk;
      disk.left.add(disk.marker.founding);
      const voter = wal && this.#clusters.get(wal.founding)?.members.get(wal.identity)?.learner === false;
      if (voter && order.startsWith('leave')) this.#violation(`${name} is cleared as a voter`);
      delete disk.wal;
      delete disk.marker;
      disk.started = false;
    }
    machine.left = order;
  }

  #restore(
    machine: Machine,
    { id, from, snapshot }: { readonly id: string; readonly from: string; readonly snapshot?: string },
  ): void {
    const { disk, name } = machine;
    machine.running = false;
    // A marker of the new founding says that this was done before.
    if (disk.marker?.founding === id) return;
    if (snapshot === undefined && (disk.marker?.founding !== from || !disk.wal)) return;
    if (disk.marker ? disk.marker.founding !== from : disk.wal) return;
    const identity = `${id}/${name}`;
    if (this.#born.has(identity)) this.#violation(`${identity} is restored a second time`);
    this.#born.add(identity);
    disk.marker = { cluster: 'c', founding: id, member: name, machine: name };
    disk.wal = { founding: id, identity };
    this.#clusters.set(id, {
      members: new Map([[identity, { name, machine: name, learner: false }]]),
      formed: true,
    });
  }

  #begin(machine: Machine, founding: string, first: readonly string[]): void {
    const identity = `${founding}/${machine.name}`;
    if (this.#born.has(identity)) this.#violation(`${identity} begins from nothing a second time`);
    this.#born.add(identity);
    machine.disk.wal = { founding, identity };
    // The unit writes it as soon as there are data (src/cluster/plan/etcd-service.ts).
    machine.disk.started = true;
    machine.running = true;
    if (this.#clusters.has(founding)) return;
    const members = first.map(
      (name) => [`${founding}/${name}`, { name, machine: name, learner: false }] as const,
    );
    this.#clusters.set(founding, { members: new Map(members), formed: false });
  }

  #join(machine: Machine, founding: string): void {
    const members = this.#clusters.get(founding)?.members;
    const own = [...(members ?? [])].find(([, one]) => one.machine === machine.name);
    if (!own) return;
    const [identity, member] = own;
    if (!member.learner) this.#violation(`${identity} joins as a voter without its log`);
    if (this.#born.has(identity)) this.#violation(`${identity} joins from nothing a second time`);
    this.#born.add(identity);
    machine.disk.wal = { founding, identity };
    machine.running = true;
    member.name = machine.name;
  }

  /** The executor does one step; its result may be lost before it is stored. */
  work(): void {
    const record = this.#record;
    if (!record || record.reset || record.restoring) return;
    const members = this.#clusters.get(record.id)?.members;
    const removal = nextRemoval(record, this.#view(), []);
    const step = removal && removal.do !== 'wait' ? removal : nextStep(record, this.#view());
    if (step.do === 'wait') return;
    this.trace.push(`executor (replacing ${record.replacing?.member ?? 'none'}): ${step.do}`);
    if (step.do === 'note') this.#commit(step.record);
    if (!members || !this.#standing(record.id)) return;
    if (step.do === 'remove') {
      members.delete(step.id);
      if (!this.#standing(record.id)) this.#violation('a removal took the quorum away');
    }
    if (step.do === 'add')
      members.set(`L${this.#ids++}`, { name: '', machine: record.replacing!.member, learner: true });
    if (step.do === 'promote') members.get(step.id)!.learner = false;
  }

  #order(what: string, ordered: Ordered): boolean {
    this.trace.push(`an operator orders ${what}: ${ordered.ok ? 'yes' : ordered.text}`);
    if (ordered.ok && ordered.record !== this.#record) this.#commit(ordered.record);
    return ordered.ok;
  }

  /** The document gets two more machines, or machines that it had lost. */
  grow(a: number, b: number): void {
    const more = [a, b].map((n) => this.machines[n]!.name).filter((name) => !this.#record?.leaving?.[name]);
    this.members = [...new Set([...this.members, ...more])];
    this.trace.push(`the document has ${this.members.join(' ')}`);
  }

  remove(ns: readonly number[], clear: boolean): void {
    const names = ns.map((n) => this.machines[n]!.name);
    if (this.members.every((name) => names.includes(name))) return;
    const departing = names.map((machine) => ({ machine, node: true, clear, drainUntil: 0 }));
    if (!this.#order(`${names} out`, orderLeaving(this.#known(), departing, this.#ids++))) return;
    this.members = this.members.filter((name) => !names.includes(name));
  }

  /** The machine was drained, or its Node was deleted. */
  pass(n: number): void {
    const { name } = this.machines[n]!;
    const leaving = this.#record?.leaving?.[name];
    if (leaving?.stage === 'drain' || leaving?.stage === 'node')
      this.#commit(withStage(this.#record!, name, nextStage(leaving)));
  }

  reset(): void {
    this.#order('a reset', orderReset(this.#known(), this.#ids++));
  }

  /** A minute passes: members that do not ask again are silent. */
  wait(): void {
    this.#now = millis(this.#now + 61_000);
    this.trace.push('a minute passes');
  }

  /** `without`: members that the operator abandons. */
  restore(n: number, without: readonly number[] = []): void {
    const standing = this.#record && this.#standing(this.#record.id);
    const moment = { now: 0, id: `R${this.#ids++}` };
    const names = without.map((one) => this.machines[one]!.name);
    const order = { member: this.machines[n]!.name, without: names };
    const ok = this.#order(`a restore without ${names}`, orderRestore(this.#known(), order, moment));
    if (ok && standing && !this.#record?.restoring) this.#violation('restored beside a quorum');
  }

  /** `without`: members that the operator abandons. */
  restoreSnapshot(without: readonly number[] = []): void {
    const standing = this.#record && this.#standing(this.#record.id);
    const before = this.#record?.restoring;
    const moment = { now: 0, id: `S${this.#ids++}` };
    const names = without.map((one) => this.machines[one]!.name);
    const snapshot = { id: 'snapshot', etcd: '3.5.1', takenAt: 0, encryption: [] };
    const order = { snapshot, member: undefined, without: names, etcd: '3.6.8-0', keys: [] };
    const ok = this.#order(`a snapshot without ${names}`, orderSnapshot(this.#known(), order, moment));
    if (ok && standing && !before) this.#violation('a snapshot was restored beside a quorum');
  }

  callOff(n: number): void {
    this.#order('a replacement off', orderCallOff(this.#known(), this.machines[n]!.name));
  }

  adopt(n: number): void {
    const { name } = this.machines[n]!;
    if (!this.#order(`the disk of ${name}`, orderAdopt(this.#known(), name))) return;
    const { wal } = this.machines[n]!.disk;
    if (!wal || !this.#serves(wal)) this.#violation(`${name} has a disk adopted that is no member's`);
  }

  powerOff(n: number): void {
    const machine = this.machines[n]!;
    delete machine.left;
    machine.powered = false;
    machine.running = false;
    machine.fenced = false;
    delete machine.plan;
  }

  powerOn(n: number): void {
    this.machines[n]!.powered = true;
  }

  wipe(n: number): void {
    this.powerOff(n);
    const machine = this.machines[n]!;
    this.trace.push(`${machine.name} is wiped`);
    machine.disk = this.#newDisk();
    this.powerOn(n);
  }

  /**
   * Another disk is put in and the present one is kept aside; `old` puts in the last one that was
   * kept.
   */
  changeDisk(n: number, old: boolean): void {
    this.powerOff(n);
    const machine = this.machines[n]!;
    const next = (old ? this.#pulled.shift() : undefined) ?? this.#newDisk();
    this.#pulled.push(machine.disk);
    machine.disk = next;
    this.#moved.add(next);
    this.trace.push(`${machine.name} gets the disk ${next.filesystem}`);
    this.powerOn(n);
  }

  swap(a: number, b: number): void {
    const [left, right] = [this.machines[a]!, this.machines[b]!];
    this.powerOff(a);
    this.powerOff(b);
    [left.disk, right.disk] = [right.disk, left.disk];
    this.#moved.add(left.disk).add(right.disk);
    this.trace.push(`${left.name} and ${right.name} swap disks`);
    this.powerOn(a);
    this.powerOn(b);
  }

  /** Somebody deletes etcd's directory; the filesystem stays. */
  removeData(n: number): void {
    const machine = this.machines[n]!;
    machine.running = false;
    delete machine.disk.wal;
    this.trace.push(`${machine.name}: etcd's data are deleted`);
  }

  restartServer(): void {
    this.trace.push('server restarts');
    this.#asked = new Map();
    this.#heard = new Map();
    this.#opened = false;
    this.#rolledBack = undefined;
    this.#moved = new Set();
  }

  rollBack(back: number): void {
    this.restartServer();
    if (this.#backups.length === 0) return;
    const { record, revision } = this.#backups[Math.max(0, this.#backups.length - 1 - back)]!;
    this.trace.push(`store of revision ${revision} restored`);
    this.#record = record;
    this.#revision = revision;
  }

  loseStore(): void {
    this.restartServer();
    this.trace.push('store lost');
    this.#record = undefined;
    this.#revision = 1;
  }

  /** Other records are written, so that the revision alone does not show a rollback. */
  otherWrites(): void {
    this.#revision += 50;
  }

  order(): void {
    const moment = { now: 0, id: `X${this.#ids++}` };
    if (!this.#order('the opening', openByOperator(this.#known(), moment))) return;
    this.#opened = true;
    this.#rolledBack = undefined;
  }
}

const word = (decision: EtcdDecision | GiveUp): string =>
  decision.do === 'hold' ? `hold ${decision.code}` : decision.do;
