/**
 * The whole plan of a machine that has its certificates: an ordered list of lines. The same facts
 * give the same plan. Nothing starts before the files that it reads are in place.
 */

import type { PlanLine } from '../../agent/wire/plan.ts';
import type { MachineFile } from '../../pki/handout.ts';
import { APISERVER_DIRECTORY, KUBERNETES_DIRECTORY, PKI_DIRECTORY } from '../../pki/hierarchy.ts';
import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';
import { apiserverLines } from './apiserver.ts';
import { balancerPart } from './balancer.ts';
import { checkLines, runsKubelet, skewLines } from './checks.ts';
import { nameInContainerd } from './containerd.ts';
import type { EtcdPart } from './etcd-part.ts';
import { ETCD_SERVICE, etcdReads, etcdServiceLine, maskDistributionsEtcd } from './etcd-service.ts';
import { imagesLines } from './images-unit.ts';
import { kubeletPart } from './kubelet-unit.ts';
import { digestOf, directory, hold, lineOf, put, step } from './lines.ts';
import type { Logins } from './logins.ts';
import { MANIFEST_DIRECTORY, manifestFiles } from './manifests.ts';
import type { ObjectsPart } from './objects-unit.ts';
import { prefetchLines } from './prefetch-unit.ts';
import { readAtStart } from './reads.ts';
import type { RestartDecision, Revisions, Rolled } from './restarts.ts';
import { runtimeLines } from './runtime.ts';
import { ETCD_PROGRAM } from './supplies.ts';
import { systemLines } from './system.ts';
import { virtualAddressLines } from './virtual-address.ts';

export interface PlanOf {
  readonly resolved: ResolvedCluster;
  readonly machine: ClusterMachine;
  /** Lines that mount the data filesystem; empty when there is none. */
  readonly data: readonly PlanLine[];
  /** What the founding decided for a member of etcd. */
  readonly etcd?: EtcdPart | undefined;
  /** Files of the PKI, see src/pki/handout.ts. */
  readonly pki: readonly MachineFile[];
  /** Lines that install binaries, before the units that run them. */
  readonly binaries?: readonly PlanLine[] | undefined;
  /** How the machine logs in to registries; absent: it has no logins. */
  readonly logins?: Logins | undefined;
  /** In-cluster objects that this machine has not applied yet. */
  readonly objects?: ObjectsPart | undefined;
  /** What the machine has to do at this moment, besides running as planned. */
  readonly orders?: readonly PlanLine[] | undefined;
  /**
   * Why nothing may be started on this machine now; the machine configures its system nevertheless.
   */
  readonly preflight?: { readonly code: string; readonly text: string } | undefined;
  /** What the machine asks its own listeners, see probes.ts. */
  readonly probes?: readonly PlanLine[] | undefined;
  /** Images that the machine fetches ahead of their use; absent while no upgrade is under way. */
  readonly ahead?: readonly string[] | undefined;
  /** Called once to decide what may be restarted now; absent when everything may. */
  readonly restart?: ((wanted: Revisions) => RestartDecision) | undefined;
}

export interface MachinePlan {
  readonly lines: readonly PlanLine[];
  /**
   * Whether the machine should poll again soon: it waits for its turn to restart, or has its turn
   * now.
   */
  readonly soon: boolean;
}

/**
 * Puts the plan of a machine in order.
 *
 * @example
 * const { lines } = planLines({ resolved, machine, data: [], pki: [] });
 * lines.at(-1); // { do: 'step', step: 'units' }
 */
export function planLines(input: PlanOf): MachinePlan {
  const { resolved, machine, data, etcd, binaries = [], objects, preflight } = input;
  const { logins, reports = [], holds = [] } = input.logins ?? {};
  const kubernetes = runsKubelet(machine);
  const system = [
    ...data,
    ...(etcd?.lines ?? []),
    ...checkLines(resolved, machine, data),
    ...(machine.roles.includes('etcd') ? maskDistributionsEtcd : []),
    ...systemLines(resolved, machine, kubernetes),
    step('system'),
  ];
  if (preflight) return { lines: [...system, hold(preflight.code, preflight.text)], soon: false };
  const pki = input.pki.map(lineOf);
  const runtime = kubernetes ? runtimeLines(resolved, binaries, logins) : undefined;
  const address = virtualAddressLines(resolved, machine, pki);
  const apiserver = apiserverLines(resolved, machine);
  const started = startedLines(input, [...pki, ...apiserver]);
  const { kubelet, balancer } = started;
  const lines = [
    ...system,
    ...directories(machine),
    ...pki,
    ...(input.probes ?? []),
    step('certificates'),
    ...skewLines(resolved, machine),
    ...binaries,
    ...(runtime ? [...runtime.files, ...reports] : []),
    ...(balancer?.files ?? []),
    ...(address?.files ?? []),
    ...(kubernetes ? imagesLines(resolved, machine) : []),
    ...(kubelet?.files ?? []),
    ...apiserver,
    ...started.manifests,
    ...(objects?.files ?? []),
    step('files'),
    ...started.service,
    ...(runtime ? [runtime.run] : []),
    ...(balancer ? [balancer.run] : []),
    ...(address ? [address.run] : []),
    ...(kubelet ? [kubelet.run] : []),
    step('units'),
    ...(input.ahead && kubernetes ? prefetchLines(resolved, input.ahead) : []),
    ...(objects ? [objects.run, step('objects')] : []),
    ...(input.orders ?? []),
    ...(etcd?.hold ? [hold(etcd.hold.code, etcd.hold.text)] : []),
    ...(started.waits === undefined ? [] : [hold('waiting-for-turn', started.waits)]),
    ...(runtime ? holds : []),
  ];
  return { lines, soon: started.soon };
}

/**
 * The lines of a machine whose etcd may not start. To restore the data of a static pod the machine
 * starts the container runtime, set up as in {@link planLines}, and nothing else.
 */
export function heldLines({
  resolved,
  data,
  etcd,
  binaries = [],
  logins,
}: Pick<PlanOf, 'resolved' | 'data' | 'etcd' | 'binaries' | 'logins'>): readonly PlanLine[] {
  const { lines = [], restore, hold: why } = etcd ?? {};
  const runtime = runtimeLines(resolved, binaries, logins?.logins);
  return [
    ...data,
    ...lines,
    ...(restore
      ? [
          ...binaries,
          ...runtime.files,
          runtime.run,
          { ...restore, image: nameInContainerd(resolved.images.etcd) },
        ]
      : []),
    ...(why ? [hold(why.code, why.text)] : []),
  ];
}

function directories(machine: ClusterMachine): readonly PlanLine[] {
  return [
    directory(KUBERNETES_DIRECTORY),
    directory(PKI_DIRECTORY),
    ...(machine.roles.includes('etcd') ? [directory(`${PKI_DIRECTORY}/etcd`)] : []),
    ...(machine.roles.includes('control-plane') ? [directory(APISERVER_DIRECTORY, 0o700)] : []),
    ...(runsKubelet(machine)
      ? [directory(MANIFEST_DIRECTORY), directory('/var/lib/kubelet/pki', 0o750)]
      : []),
  ];
}

/** Files that have to be in place, and the line that then runs or reloads the unit. */
interface Unit {
  readonly files: readonly PlanLine[];
  readonly run: PlanLine;
}

interface Started {
  readonly manifests: readonly PlanLine[];
  readonly service: readonly PlanLine[];
  readonly kubelet?: Unit;
  readonly balancer?: Unit;
  /** Why something is not restarted yet; absent when nothing waits. */
  readonly waits?: string;
  readonly soon: boolean;
}

/**
 * Lines for static pods, kubelet, the balancer, and etcd where it is a service. A program that has
 * to wait for its turn gets no lines, so that it keeps running unchanged.
 */
function startedLines(input: PlanOf, files: readonly PlanLine[]): Started {
  const { resolved, machine, etcd, binaries = [] } = input;
  const reads = (pod: string) => digestOf(files, (path) => readAtStart(resolved, pod, path));
  const founding = resolved.etcd.runs === 'pod' ? etcd?.founding : undefined;
  const manifests = manifestFiles(resolved, machine, founding, reads);
  const service = etcdService(input, files);
  const kubelet = runsKubelet(machine) ? kubeletPart(resolved, machine, [...files, ...binaries]) : undefined;
  const balancer = balancerPart(resolved, machine, files);
  const wanted: Revisions = {
    ...Object.fromEntries(manifests.map(({ pod, revision }) => [pod, revision])),
    ...service?.wanted,
    ...(kubelet && { kubelet: kubelet.revision }),
    ...(balancer?.revision !== undefined && { haproxy: balancer.revision }),
  };
  const { turn, soon = false } = (Object.keys(wanted).length > 0 ? input.restart?.(wanted) : undefined) ?? {};
  const goes = (pod: Rolled): boolean => turn?.do !== 'wait' || !turn.changes.includes(pod);
  return {
    manifests: manifests.filter(({ pod }) => goes(pod)).map(({ path, mode, text }) => put(path, text, mode)),
    service: service !== undefined && goes('etcd') ? service.lines : [],
    ...(kubelet && goes('kubelet') && { kubelet }),
    ...(balancer && goes('haproxy') && { balancer }),
    ...(turn?.do === 'wait' && { waits: turn.text }),
    soon,
  };
}

function etcdService(
  { resolved, machine, etcd, binaries = [] }: PlanOf,
  files: readonly PlanLine[],
): { readonly lines: readonly PlanLine[]; readonly wanted: Revisions } | undefined {
  if (resolved.etcd.runs !== 'service' || etcd?.founding === undefined) return undefined;
  const reads = put('/flags', etcdReads(resolved, machine));
  const digest = digestOf(
    [...files, ...binaries, reads],
    (path) => path === '/flags' || readAtStart(resolved, 'etcd', path) || ETCD_PROGRAM.includes(path),
  );
  const revision = digest.slice(0, 16);
  return {
    lines: [etcdServiceLine(resolved, machine, revision), { do: 'run', unit: ETCD_SERVICE, digest }],
    wanted: { etcd: revision },
  };
}
