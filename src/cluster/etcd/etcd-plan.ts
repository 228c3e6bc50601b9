/** etcd's part of a member's plan: turns the founding's decision into plan lines or a hold. */
import { type AgentFacts, etcdHome } from '../../agent/wire/facts.ts';
import type { PlanLine } from '../../agent/wire/plan.ts';
import { addressOf, type ClusterMachine, type ResolvedCluster, withRole } from '../model/resolved-cluster.ts';
import { ETCD_RELEASES } from '../model/versions.ts';
import type { EtcdPart, EtcdPlanner } from '../plan/etcd-part.ts';
import { ETCD_GRANT, ETCD_SERVICE, ETCD_STARTED, etcdGrant } from '../plan/etcd-service.ts';
import { KUBELET_SERVICE } from '../plan/kubelet-unit.ts';
import { put } from '../plan/lines.ts';
import { type Founding, MANIFEST_DIRECTORY } from '../plan/manifests.ts';
import type { Founder } from './founder.ts';
import type { EtcdDecision, MemberAddress, MemberFacts } from './founding.ts';
import type { HoldCode } from './holds.ts';

/**
 * The code of the hold of a machine whose etcd is stopped and cannot start by itself. The
 * replacement of the member begins when its machine reports this hold.
 */
const FENCED = 'etcd-fenced';

/**
 * The members of etcd that the resolved Cluster names, each with the address at which other members
 * reach it.
 */
export const membersOf = (resolved: Pick<ResolvedCluster, 'machines'>): readonly MemberAddress[] =>
  withRole(resolved, 'etcd').map((machine) => ({ name: machine.name, address: addressOf(machine) }));

/** The facts that the founding needs; undefined while the filesystem of etcd is not mounted. */
function memberFacts(machine: string, facts: AgentFacts): MemberFacts | undefined {
  const { etcd, hold, seenRevision } = facts;
  const { disk, marker } = etcdHome(facts);
  if (disk.state !== 'ours' || !disk.mounted) return undefined;
  return {
    member: machine,
    machine,
    filesystem: disk.filesystem,
    ...(marker && { marker }),
    etcd,
    ...(seenRevision === undefined ? {} : { seenRevision }),
    fenced: hold?.code === FENCED,
  };
}

/**
 * Makes the planner's question to the founder: it asks what a member may do, and returns its part
 * of the plan.
 */
export function createEtcdPlanner(founder: Founder): EtcdPlanner {
  return async (resolved, machine, facts) => {
    const known = memberFacts(machine.name, facts);
    if (!known) return held('no-data-disk', 'The data filesystem is not mounted.', 5);
    const decision = await founder.ask(resolved.name, membersOf(resolved), known);
    return partOf(resolved, machine, decision, etcdHome(facts) === facts.etcdDisk);
  };
}

const held = (code: string, text: string, pollSeconds: number): EtcdPart => ({
  lines: [],
  hold: { code, text, stop: true },
  pollSeconds,
});

const WAITING: ReadonlySet<HoldCode> = new Set(['no-quorum', 'replacing-other', 'called-off', 'restoring']);

/** Seconds until the machine asks again: short when it waits for others, long for an operator. */
const pollOf = (code: HoldCode): number => (code === 'waiting-for-members' ? 1 : WAITING.has(code) ? 2 : 10);

/** Turns a decision into the member's part of the plan. `onEtcdDisk`: where the marker belongs. */
export function partOf(
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  decision: EtcdDecision,
  onEtcdDisk = false,
): EtcdPart {
  const markerLine = (founding: Founding) =>
    markerOf(onEtcdDisk ? 'marker-etcd' : 'marker', resolved, machine, founding);
  const service = resolved.etcd.runs === 'service';
  switch (decision.do) {
    case 'found':
    case 'join':
      return {
        lines: [
          markerLine(decision.founding),
          { do: 'guard-new', filesystem: decision.filesystem },
          // A member that joins again may have had data on this filesystem. A member that founds
          // may not.
          ...(decision.do === 'found'
            ? [{ do: 'guard-left', founding: idOf(decision.founding) } as const]
            : []),
          ...(service ? grantLines(resolved, machine, decision.founding) : []),
        ],
        founding: decision.founding,
        pollSeconds: 1,
      };
    case 'start':
      return {
        lines: [
          markerLine(decision.founding),
          ...(service ? [put(ETCD_STARTED, ''), remove(ETCD_GRANT)] : []),
        ],
        founding: decision.founding,
      };
    case 'replace':
      return {
        lines: fenceLines(service, machine),
        hold: { code: FENCED, text: 'It is removed from etcd and added again.', stop: true },
        pollSeconds: 1,
      };
    case 'restore':
      return {
        ...restoreLines(resolved, machine, decision.restoring),
        // The machine asks again soon: its marker shows that the restore is done.
        hold: { code: 'restoring', text: 'Its data are restored for a new founding.', stop: true },
        pollSeconds: 1,
      };
    case 'hold':
      return held(decision.code, decision.text, pollOf(decision.code));
  }
}

const remove = (path: string): PlanLine => ({ do: 'remove', path });

const stopLines = (service: boolean): readonly PlanLine[] =>
  service
    ? [remove(ETCD_GRANT), { do: 'stop', unit: ETCD_SERVICE }]
    : [remove(`${MANIFEST_DIRECTORY}/etcd.yaml`)];

/**
 * Lines that stop etcd for good: data that it wrote a moment later would be taken for data of the
 * next membership. Removing the manifest is not enough, because kubelet may be about to start the
 * pod.
 */
const fenceLines = (service: boolean, { name }: ClusterMachine): readonly PlanLine[] => [
  ...stopLines(service),
  ...(service ? [] : [{ do: 'end-etcd', machine: name } as const]),
];

/** The founding's id, which is the token without `muster-`. */
const idOf = ({ token }: Pick<Founding, 'token'>): string => token.slice('muster-'.length);

const markerOf = (
  line: 'marker' | 'marker-etcd',
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  { token }: Founding,
): PlanLine => ({
  do: line,
  cluster: resolved.name,
  founding: idOf({ token }),
  member: machine.name,
  machine: machine.name,
});

/**
 * With a static pod, kubelet is stopped too. kubelet would start the pod again, and it does not end
 * static pods before it has reached the API once, which needs a quorum (kubelet.go, deletePod).
 */
function restoreLines(
  resolved: ResolvedCluster,
  { name }: ClusterMachine,
  { from, id, address, snapshot }: Extract<EtcdDecision, { do: 'restore' }>['restoring'],
): Pick<EtcdPart, 'lines' | 'restore'> {
  const { restore, bump } = ETCD_RELEASES[resolved.etcd.minor];
  const words = { cluster: resolved.name, from, to: id, member: name, machine: name, address } as const;
  const more = { ...words, program: restore[0], bump };
  const line =
    snapshot === undefined
      ? ({ do: 'restore-etcd', ...more } as const)
      : ({ do: 'restore-snapshot', ...more, snapshot } as const);
  return resolved.etcd.runs === 'service'
    ? { lines: [...stopLines(true), line] }
    : {
        lines: [...stopLines(false), { do: 'stop', unit: KUBELET_SERVICE }],
        restore: line,
      };
}

/** Writes the file that lets etcd start without data when it runs as a service. */
const grantLines = (
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  founding: Founding,
): readonly PlanLine[] => [put(ETCD_GRANT, etcdGrant(resolved, machine, founding), 0o600)];
