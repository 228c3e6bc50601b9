/**
 * Upgrades of a modelled cluster, with machines that fail, lag and return, and operators who pause
 * and take back at any moment: no instant has versions that must not run together.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { AgentFacts, RunningVersions, Versioned } from '../../../../src/agent/wire/facts.ts';
import { duration, type Millis } from '../../../../src/base/duration.ts';
import { advance } from '../../../../src/cluster/change/engine.ts';
import type { WorkerGroup } from '../../../../src/cluster/change/groups.ts';
import { anyKind } from '../../../../src/cluster/change/kind.ts';
import {
  begin,
  leaveOut,
  pauseChange,
  resumeChange,
  rollBack,
  whyNotBack,
} from '../../../../src/cluster/change/orders.ts';
import type { ChangeRecord } from '../../../../src/cluster/change/record.ts';
import type { MachineSeen } from '../../../../src/cluster/change/step.ts';
import { underWayOf } from '../../../../src/cluster/change/under-way.ts';
import { allowed, allowedWhenSettled, emulating } from '../../../../src/cluster/change/upgrade/allowed.ts';
import {
  NOTHING_SEEN,
  type UpgradeOrder,
  type UpgradeSeen,
  upgradeOrder,
} from '../../../../src/cluster/change/upgrade/order.ts';
import {
  drainsIn,
  isMinorChange,
  plainVersion,
  releaseBack,
  UPGRADE,
  waitsForWindow,
} from '../../../../src/cluster/change/upgrade/table.ts';
import { judgeKubernetes } from '../../../../src/cluster/health/judge.ts';
import type { ClusterRole } from '../../../../src/cluster/model/resolved-cluster.ts';
import { minorOf } from '../../../../src/cluster/model/versions.ts';
import { mixed, PARTS, type Part } from '../../../../src/cluster/resolve/mixed.ts';
import { type Release, releaseOf } from '../../../../src/cluster/resolve/release.ts';
import { forbiddenPairs, type Instance, pairText, stepFault } from '../../../../src/cluster/resolve/skew.ts';
import type { Upgraded } from '../../../../src/cluster/resolve/windows.ts';
import { resolved } from '../kit.ts';
import { casesOf } from './cases.ts';
import { NOT_ORDERED } from './not-ordered.ts';

const SPEC = resolved();

const RELEASES: readonly Release[] = [
  ['1.34.8', '3.5.24-0'],
  ['1.34.9', '3.6.5-0'],
  ['1.35.6', '3.6.6-0'],
  ['1.36.3', '3.6.8-0'],
].map(([version, etcd]) => releaseOf(resolved({ version: version!, overrides: { versions: { etcd } } })));

const PROGRAMS: Readonly<Record<Exclude<Part, 'addons'>, readonly Versioned[]>> = {
  etcd: ['etcd'],
  apiserver: ['kube-apiserver'],
  managers: ['kube-controller-manager', 'kube-scheduler'],
  node: ['kubelet'],
};

interface Model {
  readonly name: string;
  readonly roles: readonly ClusterRole[];
  versions: Record<string, string>;
  /** The parts that emulate the minor version from which the upgrade came. */
  emulates: ReadonlySet<Part>;
  up: boolean;
}

/** What a model machine runs when it has a release. */
const versionsOf = (release: Release, roles: readonly ClusterRole[]): Record<string, string> =>
  Object.fromEntries(
    (roles.includes('control-plane')
      ? (['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubelet'] as const)
      : (['kubelet'] as const)
    ).map((program) => [program, plainVersion(release.versions[program])]),
  );

class Cluster {
  readonly machines: Model[];
  release: Release;
  former: Release;
  proxy: string;
  record: ChangeRecord<UpgradeOrder> | undefined;
  readonly drained = new Set<string>();
  /** The boot host's clock, which may jump. */
  now = 0;
  /** The machines for which no maintenance window is open. */
  readonly closed = new Set<Upgraded>();
  groups: WorkerGroup[] = [];

  constructor(release: Release, workers: number) {
    this.release = release;
    this.former = release;
    this.proxy = release.versions['kube-proxy'];
    const machine = (name: string, roles: readonly ClusterRole[]): Model => ({
      ...{ name, roles, versions: versionsOf(release, roles), emulates: new Set(), up: true },
    });
    this.machines = [
      ...['cp1', 'cp2', 'cp3'].map((name) => machine(name, ['control-plane', 'etcd'])),
      ...Array.from({ length: workers }, (_, n) => machine(`w${n}`, ['worker'])),
    ];
  }

  get underWay(): ChangeRecord<UpgradeOrder> | undefined {
    return this.record?.ended ? undefined : this.record;
  }

  order(to: Release, maxUnavailable: number, soak?: number): void {
    if (this.underWay) return;
    // As check-running.ts, on what runs everywhere.
    for (const program of ['kube-apiserver', 'etcd'] as const)
      for (const { versions } of this.machines) {
        const from = versions[program];
        const fault =
          from === undefined ? undefined : stepFault(program, from, plainVersion(to.versions[program]));
        if (fault !== undefined && fault.code !== 'older-patch') return;
      }
    const order = {
      from: this.release,
      to,
      ...(soak !== undefined && isMinorChange({ from: this.release, to }) && { soak }),
      maxUnavailable,
      groups: this.groups,
      ...(this.machines[3] && { canary: 'w0' }),
    };
    const change = { cluster: 'blue', id: 'x', kind: 'upgrade', order, pauseBefore: [], without: [] };
    this.record = begin(change, UPGRADE, this.record, { by: 'test', now: this.now }).record;
    this.drained.clear();
  }

  mayBegin(machine: string): boolean {
    return !drainsIn(this.record?.step ?? '') || this.drained.has(machine);
  }

  /** The machine polls, and does one part of its plan. */
  poll(n: number, part: Part): void {
    const machine = this.machines[n % this.machines.length]!;
    if (!machine.up) return;
    const asking = {
      ...machine,
      versions: machine.versions as RunningVersions,
      mayBegin: this.mayBegin(machine.name),
    };
    const progress = this.underWay;
    const [from, to] = progress ? [progress.order.from, progress.order.to] : [this.former, this.release];
    const has = progress ? allowed(progress, asking) : allowedWhenSettled(this.release, asking);
    const release = has[part] ? to : from;
    const emulate = (progress ? emulating(progress, asking, has) : []).some((one) => one === part);
    machine.emulates = new Set(
      [...PARTS].filter((one) => (one === part ? emulate : machine.emulates.has(one))),
    );
    if (part === 'addons') {
      if (machine.roles.includes('control-plane')) this.proxy = release.versions['kube-proxy'];
      return;
    }
    for (const program of PROGRAMS[part])
      if (machine.versions[program] !== undefined)
        machine.versions[program] = plainVersion(release.versions[program as 'etcd']);
  }

  seen(): { machines: MachineSeen[]; cluster: UpgradeSeen } {
    const nodes = Object.fromEntries(
      this.machines.map(({ name }) => [name, { drained: this.drained.has(name), back: true }]),
    );
    return {
      cluster: {
        nodes,
        snapshot: { state: 'taken', text: 'read back' },
        lists: Object.fromEntries(this.machines.map(({ name }) => [name, 'list'])),
        soak: { leftMs: 0 },
        storage: {},
        emulated: Object.fromEntries(
          this.serving().map(({ machine, version }) => [machine, minorOf(version)]),
        ),
      },
      machines: this.machines.map(({ name, roles, up, versions }): MachineSeen => {
        if (!up) return { name, roles, applied: false, silentFor: duration('10m') };
        const facts = {
          runs: versions,
          etcd: { health: 'serving' },
          apiserver: { health: 'ready', revision: '-' },
          prefetched: { list: 'list' },
        } as unknown as AgentFacts;
        return { name, roles, applied: true, settled: true, facts, silentFor: 0 as Millis };
      }),
    };
  }

  /** The workers that count as down besides those that have their turn. */
  down(): ReadonlyMap<string, string> {
    const left = (name: string): boolean =>
      this.underWay?.without.includes(name) === true && this.drained.has(name);
    return new Map(
      this.machines
        .filter(({ name, roles, up }) => roles.includes('worker') && (!up || left(name)))
        .map(({ name }) => [name, 'it is down']),
    );
  }

  /** Whether the step has to wait for a window. */
  get waits(): boolean {
    const who = this.underWay && waitsForWindow(this.underWay.step);
    return who !== undefined && this.closed.has(who);
  }

  /** The boot host looks at the change once. */
  step(): void {
    const record = this.underWay;
    if (!record) return;
    for (const name of record.turns) if (drainsIn(record.step)) this.drained.add(name);
    if (record.step.startsWith('canary')) this.drained.add('w0');
    const closed = this.waits ? 'the window is closed' : undefined;
    const down = this.down();
    const observed = { ...this.seen(), age: duration('1m'), closed, down };
    const move = advance(record, UPGRADE, observed, this.now);
    if (move.do === 'act') {
      if (record.step === 'settle') [this.former, this.release] = [this.release, record.order.to];
      if (record.step === 'settle-back')
        [this.former, this.release] = [record.order.to, releaseBack(record.order)];
      this.record = { ...record, acted: true };
    } else if (move.do === 'write') {
      if (move.record.step !== record.step) this.drained.clear();
      this.record = move.record;
    }
  }

  operate(what: 'pause' | 'resume' | 'back' | 'without', n: number): void {
    const record = this.underWay;
    const occasion = { by: 'test', now: this.now };
    if (!record) return;
    if (what === 'pause') this.record = pauseChange(record, occasion).record;
    else if (what === 'resume') this.record = resumeChange(record, occasion).record;
    else if (what === 'without') {
      // A control plane cannot be left out: its API server would stay behind.
      const { name, roles } = this.machines[n % this.machines.length]!;
      if (roles.includes('worker')) this.record = leaveOut(record, [name], occasion).record;
    } else if (whyNotBack(record, UPGRADE) === undefined) {
      this.record = rollBack(record, UPGRADE, occasion).record;
      this.drained.clear();
    }
  }

  /** What `muster cluster status` calls wrong in the versions and nodes of machines that are up. */
  faults(): string[] {
    const record = this.underWay;
    const machines = this.machines.filter(({ up }) => up);
    const spec = SPEC;
    const versions = (release: Release) => ({ ...spec, versions: release.versions });
    const of = {
      ...spec,
      machines: machines.map(({ name, roles }) => ({ ...spec.machines[0]!, name, roles })),
    };
    const kind = anyKind({
      ...{ ...UPGRADE, ...NOT_ORDERED },
      name: 'upgrade',
      schema: upgradeOrder as never,
      act: async (at: { order: UpgradeOrder }) => at.order,
      look: async () => NOTHING_SEEN,
    });
    const changes = { record: () => record, kindOf: () => kind, waiting: () => ({}) };
    const circumstances = {
      change: underWayOf(changes, of, 0),
      allowed: (name: string) => {
        const machine = machines.find((one) => one.name === name)!;
        const asking = { ...machine, mayBegin: this.mayBegin(name) } as Parameters<typeof allowed>[1];
        const [from, to] = record ? [record.order.from, record.order.to] : [this.former, this.release];
        const has = record ? allowed(record, asking) : allowedWhenSettled(this.release, asking);
        return mixed(versions(from), versions(to), has);
      },
    };
    const api = {
      ...{ by: 'cp1', pending: [], leaders: [] },
      nodes: machines.map(({ name, versions: has }) => ({
        ...{ name, ready: true, says: '', version: `v${has.kubelet}`, leaseAge: 0 },
        cordoned: this.drained.has(name),
        ...(record && this.drained.has(name) && { cordonedBy: record.id }),
      })),
    };
    const apiservers = machines
      .filter(({ roles }) => roles.includes('control-plane'))
      .map(({ name, versions: has }) => ({
        machine: name,
        ready: true,
        version: `v${has['kube-apiserver']}`,
      }));
    return judgeKubernetes(of, { apiservers, api }, circumstances)
      .filter(({ ok, check }) => !ok && check !== 'lease')
      .map(({ subject, says }) => `${subject}: ${says}`);
  }

  /** The versions as which API servers serve. */
  serving(): Instance[] {
    return this.effective().filter(({ program }) => program === 'kube-apiserver');
  }

  /** What runs, with the version that a program emulates in the place of its own. */
  effective(): Instance[] {
    const old = this.record?.order.from.versions['kube-apiserver'];
    const of: Partial<Record<string, Part>> = {
      'kube-apiserver': 'apiserver',
      'kube-controller-manager': 'managers',
      'kube-scheduler': 'managers',
    };
    return this.instances().map((one) => {
      const part = of[one.program];
      const { emulates } = this.machines.find(({ name }) => name === one.machine)!;
      return part !== undefined && emulates.has(part) ? { ...one, version: plainVersion(old!) } : one;
    });
  }

  instances(): Instance[] {
    return this.machines
      .filter(({ up }) => up)
      .flatMap(({ name, versions }) => [
        ...Object.entries(versions).map(
          ([program, version]) => ({ program, version, machine: name }) as Instance,
        ),
        { program: 'kube-proxy', version: this.proxy, machine: name } as const,
      ]);
  }
}

const action = fc.oneof(
  {
    weight: 60,
    arbitrary: fc.record({
      do: fc.constant('poll' as const),
      n: fc.nat(6),
      part: fc.constantFrom<Part>('etcd', 'apiserver', 'managers', 'addons', 'node'),
    }),
  },
  {
    weight: 40,
    arbitrary: fc.record({ do: fc.constant('step' as const), n: fc.nat(6), part: fc.constant<Part>('etcd') }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom('down' as const, 'up' as const),
      n: fc.nat(6),
      part: fc.constant<Part>('etcd'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'pause' as const,
        'resume' as const,
        'resume' as const,
        'back' as const,
        'without' as const,
      ),
      n: fc.nat(6),
      part: fc.constant<Part>('etcd'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('kill' as const, 'jump' as const, 'open' as const, 'close' as const),
      n: fc.nat(6),
      part: fc.constant<Part>('etcd'),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom('order' as const, 'soak' as const),
      n: fc.nat(3),
      part: fc.constant<Part>('etcd'),
    }),
  },
);

function act(cluster: Cluster, one: { do: string; n: number; part: Part }): void {
  if (one.do === 'poll') cluster.poll(one.n, one.part);
  else if (one.do === 'step') cluster.step();
  else if (one.do === 'down' || one.do === 'up')
    cluster.machines[one.n % cluster.machines.length]!.up = one.do === 'up';
  else if (one.do === 'kill') cluster.drained.clear();
  else if (one.do === 'open') cluster.closed.clear();
  else if (one.do === 'close') cluster.closed.add(one.n % 2 === 0 ? 'workers' : 'servers');
  else if (one.do === 'jump') cluster.now += (one.n - 3) * 86_400_000;
  else if (one.do === 'order') cluster.order(RELEASES[one.n]!, 2);
  else if (one.do === 'soak') cluster.order(RELEASES[one.n]!, 2, 60_000);
  else cluster.operate(one.do as 'pause', one.n);
}

test('over random changes and failures, no instant has a forbidden pair of versions', () => {
  let upgrades = 0;
  fc.assert(
    fc.property(
      fc.nat(2),
      fc.nat(4),
      fc.array(action, { minLength: 100, maxLength: 600 }),
      fc.array(
        fc.record({
          machines: fc.subarray(['w0', 'w1', 'w2', 'w3'], { minLength: 1 }),
          atOnce: fc.constantFrom(1, 2),
        }),
        { maxLength: 2 },
      ),
      (release, workers, actions, groups) => {
        const cluster = new Cluster(RELEASES[release]!, workers);
        cluster.groups = groups.map((one, n) => ({ ...one, name: `nodes[${n}]` }));
        for (const one of actions) {
          const before = cluster.record;
          const waits = cluster.waits;
          const down = cluster.down();
          act(cluster, one);
          if (one.do === 'step' && cluster.record?.step === before?.step)
            checkGroups(cluster, before?.turns ?? [], down);
          if (waits && one.do === 'step' && cluster.record?.step === before?.step)
            expect(before?.turns).toEqual(expect.arrayContaining(cluster.record?.turns ?? []));
          if (!before?.ended && cluster.record?.ended?.as === 'done') upgrades++;
          expect(forbiddenPairs(cluster.instances()).map(pairText)).toEqual([]);
          // No component works as a version newer than the one as which an API server serves.
          expect(forbiddenPairs(cluster.effective()).map(pairText)).toEqual([]);
          checkWayBack(cluster);
          expect(cluster.faults()).toEqual([]);
          const servers = cluster.instances().filter(({ program }) => program === 'kube-apiserver');
          if (servers.length === 0) continue;
        }
      },
    ),
    { numRuns: casesOf(150) },
  );
  expect(upgrades).toBeGreaterThan(20);
});

/** While a soak can be taken back, no API server has served as the new minor version. */
function checkWayBack(cluster: Cluster): void {
  const { underWay } = cluster;
  if (underWay?.order.soak === undefined) return;
  const isOpen = underWay.route === 'back' || whyNotBack(underWay, UPGRADE) === undefined;
  const old = minorOf(plainVersion(underWay.order.from.versions['kube-apiserver']));
  if (isOpen) for (const { version } of cluster.serving()) expect(minorOf(version)).toBe(old);
}

/** Who has got a turn now took none of its groups below what it allows. */
function checkGroups(cluster: Cluster, before: readonly string[], down: ReadonlyMap<string, string>): void {
  const { record, groups } = cluster;
  if (record === undefined || !drainsIn(record.step)) return;
  for (const name of record.turns.filter((one) => !before.includes(one)))
    for (const { machines = [], atOnce } of groups.filter((one) => one.machines?.includes(name))) {
      const own = record.route === 'back' && down.has(name) ? [] : [...down.keys()];
      const others = new Set([...record.turns, ...own].filter((one) => one !== name));
      expect(machines.filter((one) => others.has(one)).length).toBeLessThan(atOnce);
    }
}

/** Runs the cluster until its change has ended, with every machine polling. */
function finish(cluster: Cluster): string[] {
  const steps: string[] = [];
  for (let round = 0; round < 500 && cluster.underWay; round++) {
    if (steps.at(-1) !== cluster.record!.step) steps.push(cluster.record!.step);
    cluster.step();
    for (let n = 0; n < cluster.machines.length; n++)
      for (const part of ['etcd', 'apiserver', 'managers', 'addons', 'node'] as const) cluster.poll(n, part);
  }
  return steps;
}

test('in every step of an upgrade, health takes what is right for the step and nothing else', () => {
  const cluster = new Cluster(RELEASES[2]!, 3);
  cluster.order(RELEASES[3]!, 2);
  const seen = new Set<string>();
  for (let round = 0; round < 500 && cluster.underWay; round++) {
    cluster.step();
    const { step, turns } = cluster.record!;
    expect(cluster.faults(), step).toEqual([]);
    for (const [n, { name }] of cluster.machines.entries())
      for (const part of ['etcd', 'apiserver', 'managers', 'addons', 'node'] as const) {
        cluster.poll(n, part);
        expect(cluster.faults(), `${step} ${name} ${part}`).toEqual([]);
      }
    if (turns.length > 0) seen.add(step);
    // A machine whose turn has not come must not have the new release.
    const early = cluster.machines.find(({ name, versions }) => {
      const old = versions.kubelet === '1.35.6' && !turns.includes(name);
      return old && cluster.underWay !== undefined && cluster.record!.evidence[name] === undefined;
    });
    if (early && step === 'control-planes') {
      early.versions.kubelet = '1.36.3';
      expect(cluster.faults()).toEqual([`${early.name}: kubelet v1.36.3 instead of v1.35.6`]);
      early.versions.kubelet = '1.35.6';
    }
  }
  expect(cluster.record?.ended?.as).toBe('done');
  expect([...seen]).toEqual(['etcd', 'apiservers', 'managers', 'control-planes', 'canary', 'workers']);
});

const everywhere = (cluster: Cluster, program: string) =>
  new Set(cluster.machines.flatMap(({ versions }) => versions[program] ?? []));

test('an upgrade to the next minor goes through its steps in order, and everything has the new release', () => {
  const cluster = new Cluster(RELEASES[2]!, 3);
  cluster.order(RELEASES[3]!, 2);
  expect(finish(cluster)).toEqual([
    ...[
      'snapshot',
      'prefetch',
      'etcd',
      'apiservers',
      'managers',
      'control-planes',
      'addons',
      'canary',
      'workers',
      'settle',
    ],
  ]);
  expect(everywhere(cluster, 'kubelet')).toEqual(new Set(['1.36.3']));
  expect(everywhere(cluster, 'kube-scheduler')).toEqual(new Set(['1.36.3']));
  expect(cluster.proxy).toBe('1.36.3');
});

test('with a soak the new control plane serves as the old version first, and then the emulation is lifted', () => {
  const cluster = new Cluster(RELEASES[2]!, 3);
  cluster.order(RELEASES[3]!, 2, 60_000);
  expect(finish(cluster)).toEqual([
    ...['snapshot', 'prefetch', 'etcd', 'apiservers', 'managers', 'soak', 'lift', 'lift-managers'],
    ...['control-planes', 'addons', 'canary', 'workers', 'settle'],
  ]);
  expect(everywhere(cluster, 'kubelet')).toEqual(new Set(['1.36.3']));
  expect(cluster.machines.flatMap(({ emulates }) => [...emulates])).toEqual([]);
});

test.for(['apiservers', 'managers', 'soak', 'lift', 'lift-managers'])(
  'a minor version with a soak is taken back at %s, as long as nothing was lifted',
  (at) => {
    const cluster = new Cluster(RELEASES[2]!, 3);
    cluster.order(RELEASES[3]!, 2, 60_000);
    for (let round = 0; round < 500 && cluster.record!.step !== at; round++) {
      cluster.step();
      for (let n = 0; n < cluster.machines.length; n++) for (const part of PARTS) cluster.poll(n, part);
    }
    const isLifted = at === 'lift-managers';
    expect(whyNotBack(cluster.record!, UPGRADE) === undefined).toBe(!isLifted);
    cluster.operate('back', 0);
    expect(finish(cluster).at(-1)).toBe(isLifted ? 'settle' : 'settle-back');
    const version = isLifted ? '1.36.3' : '1.35.6';
    for (const program of ['kube-apiserver', 'kube-scheduler', 'kubelet'])
      expect(everywhere(cluster, program)).toEqual(new Set([version]));
    expect(cluster.machines.flatMap(({ emulates }) => [...emulates])).toEqual([]);
  },
);

test.for([...Array(10).keys()])(
  'a patch is taken back from step %i, and everything has the old release',
  (at) => {
    const cluster = new Cluster(RELEASES[1]!, 3);
    const older: Release = {
      ...RELEASES[1]!,
      version: '1.34.10',
      versions: {
        ...RELEASES[1]!.versions,
        ...Object.fromEntries(
          ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubelet', 'kube-proxy'].map(
            (one) => [one, '1.34.10'],
          ),
        ),
      },
    };
    cluster.order(older, 1);
    const names = UPGRADE.forward(cluster.record!.order).map(({ name }) => name);
    const target = names[Math.min(at, names.length - 1)];
    for (let round = 0; round < 500 && cluster.record!.step !== target; round++) {
      cluster.step();
      cluster.poll(
        round,
        (['etcd', 'apiserver', 'managers', 'addons', 'node'] as const)[Math.floor(round / 6) % 5]!,
      );
    }
    cluster.operate('back', 0);
    finish(cluster);
    expect(cluster.record!.ended).toMatchObject({ as: 'rolled-back' });
    for (const program of ['kube-apiserver', 'kube-scheduler', 'kubelet'])
      expect(everywhere(cluster, program)).toEqual(new Set(['1.34.9']));
  },
);

test('where windows hold control planes, the point of no return is passed only in one, and a cluster between two is whole', () => {
  const cluster = new Cluster(RELEASES[2]!, 3);
  cluster.order(RELEASES[3]!, 1);
  const machines = cluster.machines.length;
  const round = (): void => {
    cluster.step();
    for (let n = 0; n < machines; n++)
      for (const part of ['etcd', 'apiserver', 'managers', 'addons', 'node'] as const) cluster.poll(n, part);
  };
  const newest = (): number =>
    cluster.machines.filter(({ versions }) => versions['kube-apiserver'] === '1.36.3').length;
  for (let n = 0; n < 500 && cluster.record!.step !== 'apiservers'; n++) round();
  cluster.closed.add('servers');
  for (let n = 0; n < 50; n++) round();
  expect([cluster.record!.step, newest()]).toEqual(['apiservers', 0]);
  expect(whyNotBack(cluster.record!, UPGRADE)).toBeUndefined();
  cluster.closed.clear();
  while (cluster.record!.turns.length === 0) cluster.step();
  cluster.closed.add('servers');
  for (let n = 0; n < 50; n++) round();
  // The one that had its turn has finished, and nobody else begins.
  expect([newest(), cluster.record!.turns, cluster.faults()]).toEqual([1, [], []]);
  cluster.closed.clear();
  finish(cluster);
  expect(cluster.record!.ended).toMatchObject({ as: 'done' });
});

test('between minor versions it can be taken back until the first API server begins, with etcd, which lowers its data', () => {
  const cluster = new Cluster(RELEASES[0]!, 1);
  const to = { ...RELEASES[2]! };
  cluster.order({ ...to, versions: { ...to.versions, etcd: '3.6.6-0' } }, 1);
  for (let round = 0; round < 500 && cluster.record!.step !== 'apiservers'; round++) {
    cluster.step();
    for (let n = 0; n < 4; n++)
      for (const part of ['etcd', 'apiserver', 'node'] as const) cluster.poll(n, part);
  }
  expect(whyNotBack(cluster.record!, UPGRADE)).toBeUndefined();
  const { record } = cluster;
  cluster.step();
  expect(whyNotBack(cluster.record!, UPGRADE)).toMatch(/apiservers has begun/);
  cluster.record = record;
  cluster.operate('back', 0);
  expect(finish(cluster)).toContain('etcd-lower');
  expect(cluster.release.version).toBe('1.34.8');
  expect(everywhere(cluster, 'etcd')).toEqual(new Set(['3.5.24']));
  expect(everywhere(cluster, 'kube-apiserver')).toEqual(new Set(['1.34.8']));
});

test('an etcd of before 3.6 cannot lower its data, and stays', () => {
  const at = (etcd: string) => releaseOf(resolved({ overrides: { versions: { etcd } } }));
  const order = { from: at('3.5.24-0'), to: at('3.6.8-0'), maxUnavailable: 1 };
  const old = { ...order, from: { ...order.from, versions: { ...order.from.versions, etcd: '3.4.23-0' } } };
  const to = { ...order.to, versions: { ...order.to.versions, etcd: '3.5.24-0' } };
  const names = (of: UpgradeOrder) => UPGRADE.back(of).map(({ name }) => name);
  expect(names(order)).toEqual(['etcd-lower', 'etcd-back', 'settle-back']);
  expect(names({ ...old, to })).toEqual(['settle-back']);
  expect(releaseBack({ ...old, to }).versions.etcd).toBe('3.5.24-0');
});

test('etcd is lowered when every member says so of its data', () => {
  const back = UPGRADE.back({
    from: releaseOf(resolved({ overrides: { versions: { etcd: '3.5.24-0' } } })),
    to: releaseOf(resolved({ overrides: { versions: { etcd: '3.6.8-0' } } })),
    maxUnavailable: 1,
  });
  const step = back.find(({ name }) => name === 'etcd-lower')!;
  const verdict = (storage?: Record<string, string>) =>
    step.whole!({
      ...{ order: {} as UpgradeOrder, machines: [], age: duration('1m') },
      cluster: { ...NOTHING_SEEN, ...(storage && { storage }) },
    }).is;
  expect(verdict()).toBe('waiting');
  expect(verdict({ cp1: '3.6', cp2: '3.5' })).toBe('waiting');
  expect(verdict({ cp1: '3.5', cp2: '3.5' })).toBe('done');
});
