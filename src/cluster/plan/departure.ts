/**
 * The plan of a machine that leaves its cluster, or whose cluster was reset: it stops everything,
 * and clears its data if the order says so.
 */
import type { AgentFacts } from '../../agent/wire/facts.ts';
import type { Plan, PlanLine } from '../../agent/wire/plan.ts';
import { ETCD_GRANT, ETCD_SERVICE } from './etcd-service.ts';
import { hold, step } from './lines.ts';
import { MANIFEST_DIRECTORY } from './manifests.ts';

/**
 * Why a machine has to give up what it runs and stores for a cluster. A founding's record has these
 * fields.
 */
export interface Departure {
  readonly cluster: string;
  /** The id of the founding. */
  readonly id: string;
  /** Set after a reset: all machines are cleared. `at` identifies the order. */
  readonly reset?: { readonly at: number };
  /**
   * Leaving machines by name. In the stage `down` everything is stopped; before that stage the
   * machine keeps running.
   */
  readonly leaving?: Readonly<Record<string, DepartureStage>>;
}

interface DepartureStage {
  readonly stage: string;
  /** When the machine was ordered out, ms since 1970; identifies the order. */
  readonly since: number;
  /** Whether the data on its data filesystem is cleared too. */
  readonly clear: boolean;
}

/** Departures that operators ordered. */
export interface Departures {
  /**
   * The departure of this machine, if it has to leave. `cluster`: the cluster that names it now.
   */
  departing(machine: string, cluster: string | undefined): Departure | undefined;
  /** Records that the machine has given up everything. */
  gone(cluster: string, machine: string): Promise<void>;
}

/**
 * Units in the order in which they stop, so that no unit restarts one that was stopped before it.
 * kubelet's pods are in the slice: they would outlive the container runtime.
 */
const UNITS = [
  'muster-objects.service',
  'kubelet.service',
  'kubepods.slice',
  ETCD_SERVICE,
  'muster-address.service',
  'muster-balancer.service',
  'containerd.service',
  'crio.service',
] as const;

const MANIFESTS = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler'] as const;

export interface DeparturePlan extends Plan {
  /** The machine reports that it has done everything. */
  readonly gone: boolean;
}

/**
 * The plan of a machine that was ordered out, or of any machine of a cluster that was reset. Only
 * data of this founding are cleared.
 */
export function departurePlan(record: Departure, machine: string, facts: AgentFacts): DeparturePlan {
  const { reset } = record;
  const leaving = record.leaving?.[machine];
  if (!reset && leaving && leaving.stage !== 'down')
    return held(
      'leaving',
      'The machine is being taken out of its cluster; what runs keeps running until then.',
      2,
    );
  const { marker, disk, etcd, etcdDisk } = facts;
  const clear = reset !== undefined || leaving?.clear === true;
  for (const owner of [marker, etcdDisk?.marker])
    if (clear && owner && !isOf(record, machine, owner))
      return held('foreign-marker', `The disk belongs to ${owner.machine} in cluster ${owner.cluster}.`, 10);
  // Identifies this order, because the same machine may have left before.
  const name = `left-${reset?.at ?? leaving?.since ?? 0}`;
  const emptied =
    marker === undefined &&
    etcdDisk?.marker === undefined &&
    (disk.state !== 'ours' || etcd.wal === 'absent');
  const [code, text] = reset
    ? ['reset', `The cluster was reset; \`muster cluster found ${record.cluster}\` founds it again.`]
    : ['left', 'The machine has left its cluster.'];
  if (facts.step === name && (!clear || emptied)) return { ...held(code!, text!, 5), gone: true };
  return {
    gone: false,
    pollSeconds: facts.hold === undefined || facts.hold.code === code ? 1 : 5,
    lines: [
      ...UNITS.map((unit): PlanLine => ({ do: 'stop', unit })),
      ...MANIFESTS.map((pod): PlanLine => ({ do: 'remove', path: `${MANIFEST_DIRECTORY}/${pod}.yaml` })),
      { do: 'remove', path: ETCD_GRANT },
      ...(clear ? clearLines(facts) : []),
      step(name),
      hold(code!, text!),
    ],
  };
}

/** Lines that clear the machine's disks. One that is not mounted yet is mounted first. */
function clearLines({ marker, etcdDisk }: AgentFacts): readonly PlanLine[] {
  const { disk, marker: etcd } = etcdDisk ?? {};
  return [
    ...(disk?.state === 'ours' && !disk.mounted
      ? [{ do: 'mount-etcd', filesystem: disk.filesystem } as const]
      : []),
    ...(etcd ? [{ do: 'clear-etcd', ...etcd } as const] : []),
    ...(marker ? [{ do: 'clear', ...marker } as const] : []),
  ];
}

const isOf = (record: Departure, machine: string, marker: NonNullable<AgentFacts['marker']>): boolean =>
  marker.cluster === record.cluster &&
  marker.machine === machine &&
  (marker.founding === record.id || marker.founding === 'none');

const held = (code: string, text: string, pollSeconds: number): DeparturePlan => ({
  gone: false,
  lines: [hold(code, text)],
  pollSeconds,
});
