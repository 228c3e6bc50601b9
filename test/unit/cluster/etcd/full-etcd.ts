/** A simulated etcd that compacts, defragments and becomes full, with the gateway's functions. */
import type { Alarm, EtcdCondition, MemberCondition } from '../../../../src/cluster/etcd/condition.ts';
import type { EtcdMaintenance } from '../../../../src/cluster/etcd/views.ts';

export const MIB = 2 ** 20;
export const MEMBERS = [1, 2, 3].map((n) => ({ name: `m${n}`, address: `10.0.0.${n}` }));

export class FullEtcd implements EtcdMaintenance {
  readonly calls: string[] = [];
  quota = 2048 * MIB;
  /** What is in use after a compaction. */
  live = 100 * MIB;
  alarms: Alarm[] = [];
  leader = 'm1';
  readonly silent = new Set<string>();
  readonly mute = new Set<string>();
  readonly octets = new Map(MEMBERS.map(({ name }) => [name, 0]));
  readonly inUse = new Map(MEMBERS.map(({ name }) => [name, 0]));
  readonly applied = new Map(MEMBERS.map(({ name }) => [name, 1000]));

  constructor(octets: number, inUse = octets) {
    for (const { name } of MEMBERS) {
      this.octets.set(name, octets);
      this.inUse.set(name, inUse);
    }
  }

  /** Every member has reached its quota. */
  static full(): FullEtcd {
    const etcd = new FullEtcd(2048 * MIB);
    etcd.alarms = [{ member: 'id-m2', name: 'NOSPACE' }];
    return etcd;
  }

  async condition(): Promise<EtcdCondition> {
    const members = MEMBERS.filter(({ name }) => !this.silent.has(name)).map(
      (one): MemberCondition => ({
        ...one,
        id: `id-${one.name}`,
        leader: `id-${this.leader}`,
        learner: false,
        octets: this.octets.get(one.name)!,
        inUse: this.inUse.get(one.name)!,
        applied: this.applied.get(one.name)!,
        revision: '700',
        alarms: this.alarms,
        reads: !this.mute.has(one.name),
      }),
    );
    return { members, silent: [...this.silent], quota: this.quota };
  }

  async compact(_members: unknown, revision: string): Promise<void> {
    this.calls.push(`compact ${revision}`);
    for (const { name } of MEMBERS) this.inUse.set(name, Math.min(this.inUse.get(name)!, this.live));
  }

  async defragment({ name }: { readonly name: string }): Promise<void> {
    this.calls.push(`defragment ${name}`);
    this.octets.set(name, this.inUse.get(name)!);
  }

  async disarm(_members: unknown, { member, name }: Alarm): Promise<void> {
    this.calls.push(`disarm ${member} ${name}`);
    this.alarms = this.alarms.filter((one) => one.member !== member || one.name !== name);
  }

  async write(): Promise<void> {
    this.calls.push('write');
    if (this.alarms.length > 0) throw new Error('etcdserver: mvcc: database space exceeded');
  }
}
