/** The plan that follows from what was gathered, and what a machine waits for. */
import fc from 'fast-check';
import { load } from 'js-yaml';
import { expect, test } from 'vitest';
import type { PlanLine } from '../../../../src/agent/wire/plan.ts';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration } from '../../../../src/base/duration.ts';
import { partOf } from '../../../../src/cluster/etcd/etcd-plan.ts';
import type { ResolvedCluster } from '../../../../src/cluster/model/resolved-cluster.ts';
import { dataPart } from '../../../../src/cluster/plan/data.ts';
import { markerOf } from '../../../../src/cluster/plan/etcd-part.ts';
import { type PlanParts, programsOf } from '../../../../src/cluster/plan/machine-plan.ts';
import { type PlanInput, type Planned, planOf } from '../../../../src/cluster/plan/plan-of.ts';
import { openPreflight } from '../../../../src/cluster/plan/preflight.ts';
import { pinImages } from '../../../../src/cluster/plan/supplies.ts';
import type { KubernetesSpec } from '../../../../src/resources/kinds.ts';
import { FOUNDING, resolved } from '../kit.ts';
import { TestMachine } from '../planner-kit.ts';

const machineOf = (cluster: ResolvedCluster, name: string) =>
  cluster.machines.find((machine) => machine.name === name)!;

const SETTLED = { facts: { applied: 'f'.repeat(64) }, upgrading: false } as const;
type Whole = Extract<PlanInput, { lacks: 'nothing' }>;

/** A machine of this cluster that lacks nothing and waits for nothing. */
function whole(cluster: ResolvedCluster, name: string, changes: Partial<PlanParts> = {}): Whole {
  const machine = machineOf(cluster, name);
  const etcd = machine.roles.includes('etcd') ? { lines: [], founding: FOUNDING } : undefined;
  const parts: PlanParts = { resolved: cluster, machine, data: [], pki: [], etcd, ...changes };
  return { ...SETTLED, lacks: 'nothing', changing: false, parts, programs: programsOf(parts) };
}

const linesOf = (spec: Partial<KubernetesSpec>, name: string, changes?: Partial<PlanParts>) =>
  planOf(whole(resolved(spec), name, changes)).lines;

const textAt = (lines: readonly PlanLine[], path: string): string | undefined =>
  lines.flatMap((line) =>
    line.do === 'put' && line.path === path && 'text' in line.content ? [line.content.text] : [],
  )[0];

const digests = (lines: readonly PlanLine[]) =>
  new Map(lines.flatMap((line) => (line.do === 'run' ? [[line.unit, line.digest] as const] : [])));

/** The units whose digests differ. */
const restarted = (before: readonly PlanLine[], after: readonly PlanLine[]): readonly string[] =>
  [...digests(after)].filter(([unit, digest]) => digests(before).get(unit) !== digest).map(([unit]) => unit);

const waiting = ({ waits, pollSeconds }: Planned) => [pollSeconds, ...waits];

const CLUSTER = resolved();
const of = (name: string) => ({ resolved: CLUSTER, machine: machineOf(CLUSTER, name) });

test('a machine that lacks something is told what it waits for, and when to ask again', () => {
  const leaves = new Map([
    ['apiserver', undefined],
    ['kubelet', 'a'.repeat(64)],
  ] as const);
  const missing = { leaves, algorithm: 'ECDSA-P256', refused: false } as const;
  const held = { ...SETTLED, facts: { hold: { code: 'failed', text: 'x' } } };
  const cases: readonly (readonly [PlanInput, ...(string | number)[]])[] = [
    [{ lacks: 'document', machine: 'x' }, 10, 'x is not accepted: nothing is written to its disks.'],
    [{ lacks: 'cluster' }, 60, 'No Cluster names it.'],
    [{ lacks: 'sound cluster', why: 'An odd number.' }, 10, 'An odd number.'],
    [
      { ...SETTLED, lacks: 'keys', data: [] },
      ...[2, expect.stringContaining('No member of etcd has polled yet')],
    ],
    [
      { ...SETTLED, lacks: 'keys', data: [], clockDoubt: 'it went back' },
      ...[10, expect.stringContaining('while its clock is in doubt: it went back.')],
    ],
    [
      { ...SETTLED, lacks: 'certificates', before: [], missing },
      ...[0, 'It has to request certificates: apiserver, kubelet.'],
    ],
    [
      { ...held, lacks: 'certificates', before: [], missing },
      ...[10, 'It has to request certificates: apiserver, kubelet.'],
    ],
    [
      { ...SETTLED, lacks: 'certificates', before: [], missing: { ...missing, refused: true } },
      ...[10, 'It has to request certificates: apiserver, kubelet.'],
    ],
    [
      {
        ...SETTLED,
        lacks: 'certificates',
        before: [],
        missing: { limited: { code: 'x', text: 'Too many.' } },
      },
      ...[10, 'Too many.'],
    ],
  ];
  for (const [input, ...want] of cases) expect(waiting(planOf(input))).toEqual(want);
  expect(planOf({ ...SETTLED, lacks: 'certificates', before: [], missing }).lines).toEqual([
    { do: 'request', leaf: 'apiserver', algorithm: 'ECDSA-P256' },
    { do: 'request', leaf: 'kubelet', algorithm: 'ECDSA-P256', replaces: 'a'.repeat(64) },
  ]);
});

test('a machine that lacks nothing asks seldom, and soon while it waits for others or for itself', () => {
  const input = whole(CLUSTER, 'cp1');
  expect(waiting(planOf(input))).toEqual([30]);
  expect(waiting(planOf({ ...input, changing: true }))).toEqual([2]);
  expect(waiting(planOf({ ...input, upgrading: true }))).toEqual([2]);
  expect(waiting(planOf({ ...input, facts: {} }))).toEqual([2, expect.stringContaining('no whole plan')]);
  const text = 'cp2 is changed first.';
  const restart = { turn: { do: 'wait', changes: ['kube-apiserver'], text }, soon: true } as const;
  const waits = planOf({ ...input, restart });
  expect(waiting(waits)).toEqual([2, text]);
  expect(waits.lines.at(-1)).toEqual({ do: 'hold', code: 'waiting-for-turn', text });
  expect(textAt(waits.lines, '/etc/kubernetes/manifests/kube-apiserver.yaml')).toBeUndefined();
  expect(textAt(waits.lines, '/etc/kubernetes/manifests/kube-scheduler.yaml')).toBeDefined();
  const addons = { code: 'addon-missing', text: 'No file.' };
  expect(waiting(planOf({ ...input, addons }))).toEqual([30, 'No file.']);
});

test('whatever comes together, the same input gives the same plan, and all of its holds are told', () => {
  const maybe = <T>(value: T) => fc.option(fc.constant(value), { nil: undefined });
  const text = 'cp2 is changed first.';
  const turns = [{ do: 'go', changes: ['etcd'] } as const, { do: 'wait', changes: ['etcd'], text } as const];
  const anything = fc.record({
    preflight: maybe({ code: 'clock', text: 'Its clock.' }),
    restart: fc.option(fc.record({ turn: fc.constantFrom(...turns), soon: fc.constant(true) }), {
      nil: undefined,
    }),
    addons: maybe({ code: 'addon-missing', text: 'No file.' }),
    changing: fc.boolean(),
    upgrading: fc.boolean(),
    failed: maybe({ code: 'failed', text: 'x' }),
    etcd: maybe({ lines: [], hold: { code: 'no-quorum', text: 'Two.', stop: false } }),
  });
  const ready = whole(CLUSTER, 'cp1');
  fc.assert(
    fc.property(anything, ({ failed, etcd, ...some }) => {
      const facts = { ...SETTLED.facts, ...(failed && { hold: failed }) };
      const input = { ...(etcd ? whole(CLUSTER, 'cp1', { etcd }) : ready), ...some, facts };
      const plan = planOf(input);
      expect(planOf(input)).toEqual(plan);
      for (const line of plan.lines) if (line.do === 'hold') expect(plan.waits).toContain(line.text);
      if (plan.waits.length === 0) expect(plan.lines.at(-1)).toEqual({ do: 'step', step: 'units' });
    }),
    { numRuns: 30 },
  );
});

test.for([
  ['no-data-disk', { state: 'unused' }],
  ['no-data-disk', { state: 'none', detail: 'serial=A' }],
  ['no-data-disk', { state: 'several', detail: '/dev/vdb /dev/vdc' }],
  ['foreign-disk', { state: 'foreign', device: '/dev/vdb', detail: 'ext4' }],
] as const)('a member of etcd is held with %s when its disk is %o', ([code, disk]) => {
  const data = dataPart(CLUSTER, machineOf(CLUSTER, 'cp1'), new TestMachine('cp1', disk).facts(), () => 'x');
  expect(planOf({ ...SETTLED, lacks: 'disk', data }).lines).toMatchObject([{ do: 'hold', code }]);
});

test('the etcd of a distribution is stopped and masked on members, and nowhere else', () => {
  const path = '/etc/systemd/system/etcd.service';
  const masked = { do: 'link', to: '/dev/null', path, onlyIfAbsent: false };
  const lines = linesOf({}, 'cp1');
  const at = lines.findIndex((line) => line.do === 'link' && line.path === path);
  expect(lines.slice(at - 1, at + 1)).toEqual([{ do: 'stop', unit: 'etcd.service' }, masked]);
  expect(linesOf({}, 'w1')).not.toContainEqual(masked);
});

test.for([
  [2 * 3_600_000, 'Its clock is 120m ahead: set it in the firmware, or name timeServers.'],
  [-10 * 365 * 86_400_000, 'Its clock is 3650d behind: set it in the firmware, or name timeServers.'],
  [-6 * 60_000, 'Its clock is 6m behind: set it in the firmware, or name timeServers.'],
] as const)(
  'a machine whose clock is off by %i ms is held with the reason before anything is started',
  ([off, text]) => {
    const clock = new ManualClock();
    const facts = { clock: clock.now() + off, machineId: '' };
    const preflight = openPreflight(clock).of('cp1', facts);
    const input = whole(resolved({ timeServers: ['time.example'] }), 'cp1');
    const planned = planOf({ ...input, facts: {}, preflight, programs: undefined });
    expect(planned.lines.at(-1)).toEqual({ do: 'hold', code: 'clock', text });
    expect(planned.waits).toContain(text);
    expect([...digests(planned.lines).keys()]).toEqual(['systemd-timesyncd.service']);
    expect(textAt(planned.lines, '/etc/systemd/timesyncd.conf.d/90-muster.conf')).toContain(
      'NTP=time.example\n',
    );
  },
);

test('a clock that is off by minutes, or on a machine that runs, holds nobody', () => {
  const clock = new ManualClock();
  const preflight = openPreflight(clock);
  expect(preflight.of('cp1', { clock: clock.now() - 240_000, machineId: '' })).toBeUndefined();
  expect(preflight.of('cp1', { clock: 0, machineId: '', applied: 'f' })).toBeUndefined();
});

test('of two machines with one machine-id the second is held, until the first is not heard any more', () => {
  const clock = new ManualClock();
  const preflight = openPreflight(clock);
  const ask = (machine: string) => preflight.of(machine, { machineId: 'a'.repeat(32), clock: clock.now() });
  expect(ask('cp1')).toBeUndefined();
  expect(ask('cp2')).toMatchObject({
    code: 'machine-id',
    text: expect.stringContaining('cp1 has the same machine-id'),
  });
  expect(ask('cp1')).toBeUndefined();
  clock.advance(duration('46s'));
  expect(ask('cp2')).toBeUndefined();
});

test('another etcd binary restarts only the service; a static pod does not care', () => {
  const program = (sha256: string): PlanLine[] => [
    { do: 'unpack', directory: '/usr/local/lib/muster/etcd', url: 'http://10.0.0.1/assets/x', sha256 },
  ];
  for (const [runs, units] of [
    ['service', ['muster-etcd.service']],
    ['pod', []],
  ] as const) {
    const lines = (letter: string) =>
      linesOf({ etcd: { runs } }, 'cp1', { binaries: program(letter.repeat(64)) });
    expect(restarted(lines('a'), lines('b'))).toEqual(units);
  }
});

const RESTORING = { member: 'cp1', address: '10.0.0.11', filesystem: 'F', id: 'f2', from: 'f1', at: 0 };

const restoring = (cluster: ResolvedCluster): readonly PlanLine[] => {
  const etcd = partOf(cluster, machineOf(cluster, 'cp1'), { do: 'restore', restoring: RESTORING });
  return planOf({ ...SETTLED, lacks: 'etcd', parts: { resolved: cluster, data: [], etcd } }).lines;
};

test.for([
  ['pod', 'containerd', ['remove', 'stop kubelet.service', 'run containerd.service', 'restore-etcd', 'hold']],
  ['pod', 'cri-o', ['remove', 'stop kubelet.service', 'run crio.service', 'restore-etcd', 'hold']],
  ['service', 'containerd', ['remove', 'stop muster-etcd.service', 'restore-etcd', 'hold']],
] as const)(
  'to restore etcd that is a %s under %s, nothing is started but what its programs need',
  ([runs, runtime, want]) => {
    const lines = restoring(resolved({ runtime, etcd: { runs } }));
    const said = lines.flatMap((line) => {
      if (line.do === 'run' || line.do === 'stop') return [`${line.do} ${line.unit}`];
      return ['remove', 'restore-etcd', 'hold'].includes(line.do) ? [line.do] : [];
    });
    expect(said).toEqual(want);
    expect(lines.at(-1)).toMatchObject({ do: 'hold', code: 'restoring' });
    const restore = lines.find((line) => line.do === 'restore-etcd');
    const { member, address } = RESTORING;
    expect(restore).toMatchObject({ from: 'f1', to: 'f2', member, address, program: 'etcdutl' });
    expect(restore?.image).toBe(runs === 'pod' ? 'registry.k8s.io/etcd:3.6.8-0' : undefined);
  },
);

test('a restore names the image as containerd has it from kubelet, and the same containerd keeps running', () => {
  const digest = `sha256:${'5'.repeat(64)}`;
  const pinned = pinImages(CLUSTER, () => digest);
  const before = planOf(whole(pinned, 'cp1')).lines;
  expect(textAt(before, '/etc/kubernetes/manifests/etcd.yaml')).toContain(`etcd:3.6.8-0@${digest}`);
  const lines = restoring(pinned);
  expect(lines.find((line) => line.do === 'restore-etcd')?.image).toBe(`registry.k8s.io/etcd@${digest}`);
  expect([...digests(lines)]).toEqual([['containerd.service', digests(before).get('containerd.service')]]);
});

test('a member that waits for others is prepared but for etcd, and then held', () => {
  const hold = { code: 'waiting-for-members', text: 'Two.', stop: false };
  const planned = planOf(whole(CLUSTER, 'cp1', { etcd: { lines: [], hold } }));
  const paths = planned.lines.flatMap((line) => (line.do === 'put' ? [line.path] : []));
  expect(paths).toContain('/etc/kubernetes/manifests/kube-apiserver.yaml');
  expect(paths).not.toContain('/etc/kubernetes/manifests/etcd.yaml');
  expect(planned.lines.at(-1)).toMatchObject({ do: 'hold', code: 'waiting-for-members' });
  expect(waiting(planned)).toEqual([2, 'Two.']);
});

test('a worker whose data disk is marked by another machine is held before anything is put there', () => {
  const disk = { state: 'ours', device: '/dev/vdb', filesystem: 'F', mounted: true } as const;
  const facts = new TestMachine('w2', disk).facts({
    marker: { cluster: 'golden', founding: 'none', member: 'none', machine: 'w1' },
  });
  const etcd = markerOf({ ...of('w2'), facts });
  expect(etcd?.hold?.stop).toBe(true);
  const { lines } = planOf({ ...SETTLED, lacks: 'etcd', parts: { resolved: CLUSTER, data: [], etcd } });
  expect(lines).toMatchObject([{ do: 'hold', code: 'foreign-marker' }]);
});

test('units start after everything that they read, and their digests cover it', () => {
  const before = linesOf({}, 'cp1');
  const last = Math.max(...before.map((line, n) => (line.do.startsWith('put') ? n : 0)));
  expect(before.findIndex(({ do: what }) => what === 'run')).toBeGreaterThan(last);
  const after = linesOf({ overrides: { kubelet: { config: { maxPods: 50 } } } }, 'cp1');
  expect(restarted(before, after)).toEqual(['kubelet.service']);
});

const VIRTUAL = { endpoint: '10.0.0.10', sans: [] };

test('with kube-vip a static pod holds the address by a lock in etcd, and sees no key of a CA', () => {
  const virtualAddress = { by: 'kube-vip', interface: 'eth0' } as const;
  const lines = linesOf({ ...VIRTUAL, virtualAddress }, 'cp1');
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
  const overrides = { flags: { etcd: { 'election-timeout': '5000', 'heartbeat-interval': '500' } } };
  expect(textAt(linesOf({ ...VIRTUAL, virtualAddress, overrides }, 'cp1'), path)).toMatch(
    /vip_leaseduration\n +value: "25"/,
  );
  expect(linesOf({ ...VIRTUAL, virtualAddress: { interface: 'eth0' } }, 'cp1')).toContainEqual({
    do: 'remove',
    path,
  });
});

test('an endpoint with another port has a balancer on every control plane, which keepalived checks and which stops with that port', () => {
  const virtualAddress = { interface: 'eth0' };
  const spec = { ...VIRTUAL, endpoint: '10.0.0.10:443', virtualAddress };
  const lines = linesOf(spec, 'cp2');
  const config = textAt(lines, '/etc/muster/balancer.cfg');
  expect(config).toContain('  bind *:443\n');
  for (const n of [1, 2, 3]) expect(config).toContain(`  server cp${n} 10.0.0.1${n}:6443\n`);
  expect(textAt(lines, '/etc/systemd/system/muster-balancer.service')).toContain('CAP_NET_BIND_SERVICE');
  expect(textAt(lines, '/etc/muster/keepalived.conf')).toContain('https://127.0.0.1:443/readyz"');
  expect(lines).toContainEqual({ do: 'check', check: 'port', of: ['443', 'haproxy'] });
  const at = (unit: string) => lines.findIndex((line) => line.do === 'reload' && line.unit === unit);
  expect(at('muster-balancer.service')).toBeGreaterThan(0);
  expect(at('muster-address.service')).toBeGreaterThan(at('muster-balancer.service'));
  const worker = linesOf(spec, 'w1');
  expect(textAt(worker, '/etc/muster/balancer.cfg')).toContain('  bind 127.0.0.1:6443\n');
  expect(textAt(worker, '/etc/systemd/system/muster-balancer.service')).not.toContain('Ambient');

  const after = linesOf({ ...VIRTUAL, virtualAddress }, 'cp2');
  expect(after).toContainEqual({ do: 'stop', unit: 'muster-balancer.service' });
  expect(textAt(after, '/etc/muster/keepalived.conf')).toContain('https://127.0.0.1:6443/readyz"');
});

test('control planes hold the virtual address in turn, each asking its own apiserver and knowing the others', () => {
  const spec = { ...VIRTUAL, virtualAddress: { interface: 'eth0' } };
  const lines = linesOf(spec, 'cp2');
  const config = textAt(lines, '/etc/muster/keepalived.conf');
  expect(config).toContain('unicast_src_ip 10.0.0.12');
  expect(config).toContain('  unicast_peer {\n    10.0.0.11\n    10.0.0.13\n  }');
  expect(config).toContain('10.0.0.10/32 dev eth0');
  expect(lines).toContainEqual(expect.objectContaining({ do: 'reload', unit: 'muster-address.service' }));
  expect(linesOf(spec, 'w1').filter((line) => line.do === 'reload')).toMatchObject([
    { unit: 'muster-balancer.service' },
  ]);
});
