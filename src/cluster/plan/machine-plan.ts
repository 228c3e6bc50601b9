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
import type { Revisions, Rolled, Turn } from './restarts.ts';
import { runtimeLines } from './runtime.ts';
import { ETCD_PROGRAM } from './supplies.ts';
import { systemLines } from './system.ts';
import { virtualAddressLines } from './virtual-address.ts';

/** What the plan of a machine is put together from. */
export interface PlanParts {
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
  /** What the machine asks its own listeners, see probes.ts. */
  readonly probes?: readonly PlanLine[] | undefined;
  /** Images that the machine fetches ahead of their use; absent while no upgrade is under way. */
  readonly ahead?: readonly string[] | undefined;
}

/**
 * Puts the plan of a machine in order.
 *
 * @param turn Which programs may be restarted now; without it all of them may.
 * @example
 * const lines = planLines({ resolved, machine, data: [], pki: [] });
 * lines.at(-1); // { do: 'step', step: 'units' }
 */
export function planLines(
  parts: PlanParts,
  programs: Programs = programsOf(parts),
  turn?: Turn,
): readonly PlanLine[] {
  const { resolved, machine, etcd, binaries = [], objects } = parts;
  const { logins, reports = [], holds = [] } = parts.logins ?? {};
  const kubernetes = runsKubelet(machine);
  const runtime = kubernetes ? runtimeLines(resolved, binaries, logins) : undefined;
  const address = virtualAddressLines(resolved, machine, programs.pki);
  const mayRestart = (program: Rolled): boolean => turn?.do !== 'wait' || !turn.changes.includes(program);
  const kubelet = mayRestart('kubelet') ? programs.kubelet : undefined;
  const balancer = mayRestart('haproxy') ? programs.balancer : undefined;
  const manifests = programs.manifests.filter(({ pod }) => mayRestart(pod));
  return [
    ...systemPart(parts),
    ...directories(machine),
    ...programs.pki,
    ...(parts.probes ?? []),
    step('certificates'),
    ...skewLines(resolved, machine),
    ...binaries,
    ...(runtime ? [...runtime.files, ...reports] : []),
    ...(balancer?.files ?? []),
    ...(address?.files ?? []),
    ...(kubernetes ? imagesLines(resolved, machine) : []),
    ...(kubelet?.files ?? []),
    ...programs.apiserver,
    ...manifests.map(({ path, mode, text }) => put(path, text, mode)),
    ...(objects?.files ?? []),
    step('files'),
    ...(programs.service && mayRestart('etcd') ? programs.service.lines : []),
    ...(runtime ? [runtime.run] : []),
    ...(balancer ? [balancer.run] : []),
    ...(address ? [address.run] : []),
    ...(kubelet ? [kubelet.run] : []),
    step('units'),
    ...(parts.ahead && kubernetes ? prefetchLines(resolved, parts.ahead) : []),
    ...(objects ? [objects.run, step('objects')] : []),
    ...(parts.orders ?? []),
    ...(etcd?.hold ? [hold(etcd.hold.code, etcd.hold.text)] : []),
    ...(turn?.do === 'wait' ? [hold('waiting-for-turn', turn.text)] : []),
    ...(runtime ? holds : []),
  ];
}

/** The lines before those of programs: disks, checks, and the system's settings. */
export function systemPart({ resolved, machine, data, etcd }: PlanParts): readonly PlanLine[] {
  return [
    ...data,
    ...(etcd?.lines ?? []),
    ...checkLines(resolved, machine, data),
    ...(machine.roles.includes('etcd') ? maskDistributionsEtcd : []),
    ...systemLines(resolved, machine, runsKubelet(machine)),
    step('system'),
  ];
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
}: Pick<PlanParts, 'resolved' | 'data' | 'etcd' | 'binaries' | 'logins'>): readonly PlanLine[] {
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

/**
 * The programs of a machine that restart in turns (static pods, kubelet, the balancer, and etcd
 * where it is a service), and the files that they read. A program that waits for its turn gets no
 * lines, so that it keeps running unchanged.
 */
export interface Programs {
  readonly pki: readonly PlanLine[];
  readonly apiserver: readonly PlanLine[];
  readonly manifests: ReturnType<typeof manifestFiles>;
  readonly service: ReturnType<typeof etcdService>;
  readonly kubelet: ReturnType<typeof kubeletPart> | undefined;
  readonly balancer: ReturnType<typeof balancerPart>;
  /** What each of them starts with. */
  readonly wanted: Revisions;
}

/** The programs of a machine as its plan would start them if all of them might restart now. */
export function programsOf(parts: PlanParts): Programs {
  const { resolved, machine, etcd, binaries = [] } = parts;
  const pki = parts.pki.map(lineOf);
  const apiserver = apiserverLines(resolved, machine);
  const files = [...pki, ...apiserver];
  const reads = (pod: string) => digestOf(files, (path) => readAtStart(resolved, pod, path));
  const founding = resolved.etcd.runs === 'pod' ? etcd?.founding : undefined;
  const manifests = manifestFiles(resolved, machine, founding, reads);
  const service = etcdService(parts, files);
  const kubelet = runsKubelet(machine) ? kubeletPart(resolved, machine, [...files, ...binaries]) : undefined;
  const balancer = balancerPart(resolved, machine, files);
  const wanted: Revisions = {
    ...Object.fromEntries(manifests.map(({ pod, revision }) => [pod, revision])),
    ...(service && { etcd: service.revision }),
    ...(kubelet && { kubelet: kubelet.revision }),
    ...(balancer?.revision !== undefined && { haproxy: balancer.revision }),
  };
  return { pki, apiserver, manifests, service, kubelet, balancer, wanted };
}

function etcdService(
  { resolved, machine, etcd, binaries = [] }: PlanParts,
  files: readonly PlanLine[],
): { readonly lines: readonly PlanLine[]; readonly revision: string } | undefined {
  if (resolved.etcd.runs !== 'service' || etcd?.founding === undefined) return undefined;
  const reads = put('/flags', etcdReads(resolved, machine));
  const digest = digestOf(
    [...files, ...binaries, reads],
    (path) => path === '/flags' || readAtStart(resolved, 'etcd', path) || ETCD_PROGRAM.includes(path),
  );
  const revision = digest.slice(0, 16);
  return {
    lines: [etcdServiceLine(resolved, machine, revision), { do: 'run', unit: ETCD_SERVICE, digest }],
    revision,
  };
}
