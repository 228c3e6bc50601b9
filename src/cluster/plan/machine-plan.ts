/**
 * The whole plan of a machine that has its certificates: an ordered list of lines, the same for the
 * same facts. The order is what each needs of the one before: nothing starts before what it reads
 * is there.
 */

import type { PlanLine } from '../../agent/plan.ts';
import type { MachineFile } from '../../pki/handout.ts';
import { APISERVER_DIRECTORY, KUBERNETES_DIRECTORY, PKI_DIRECTORY } from '../../pki/hierarchy.ts';
import type { ClusterMachine, ResolvedCluster } from '../spec/resolved-cluster.ts';
import { apiserverLines } from './apiserver.ts';
import { balancerLines } from './balancer.ts';
import { checkLines, runsKubelet } from './checks.ts';
import { nameInContainerd } from './containerd.ts';
import type { EtcdPart } from './etcd-part.ts';
import { ETCD_SERVICE, etcdReads, etcdServiceLine, maskDistributionsEtcd } from './etcd-service.ts';
import { imagesLines } from './images-unit.ts';
import { KUBELET_SERVICE, kubeletLines, readByKubelet } from './kubelet-unit.ts';
import { digestOf, directory, hold, lineOf, put, step } from './lines.ts';
import { MANIFEST_DIRECTORY, type ManifestFile, manifestFiles } from './manifests.ts';
import type { ObjectsPart } from './objects-unit.ts';
import type { RestartDecision, Revisions } from './restarts.ts';
import { runtimeLines } from './runtime.ts';
import { ETCD_PROGRAM } from './supplies.ts';
import { systemLines } from './system.ts';
import { virtualAddressLines } from './virtual-address.ts';

export interface PlanOf {
  readonly resolved: ResolvedCluster;
  readonly machine: ClusterMachine;
  /** The data filesystem's lines, and whether there is one. */
  readonly data: readonly PlanLine[];
  /** Of members of etcd. */
  readonly etcd?: EtcdPart | undefined;
  /** The PKI's files, see src/pki/handout.ts. */
  readonly pki: readonly MachineFile[];
  /** Binaries, put down before what runs them. */
  readonly binaries?: readonly PlanLine[] | undefined;
  /** In-cluster objects that this machine still has to apply. */
  readonly objects?: ObjectsPart | undefined;
  /** Why nothing is started on this machine now; its system is put in order all the same. */
  readonly preflight?: { readonly code: string; readonly text: string } | undefined;
  /** Asked once for what may be restarted now; absent: everything. */
  readonly restart?: ((wanted: Revisions) => RestartDecision) | undefined;
}

export interface MachinePlan {
  readonly lines: readonly PlanLine[];
  /** The machine waits for its turn to restart, or has it now: it is to poll again soon. */
  readonly soon: boolean;
}

export function planLines(of: PlanOf): MachinePlan {
  const { resolved, machine, data, etcd, binaries = [], objects, preflight } = of;
  const kubernetes = runsKubelet(machine);
  const system = [
    ...data,
    ...(etcd?.lines ?? []),
    ...checkLines(resolved, machine, data.length > 0),
    ...(machine.roles.includes('etcd') ? maskDistributionsEtcd : []),
    ...systemLines(resolved, machine, kubernetes),
    step('system'),
  ];
  if (preflight) return { lines: [...system, hold(preflight.code, preflight.text)], soon: false };
  const pki = of.pki.map(lineOf);
  const runtime = kubernetes ? runtimeLines(resolved, binaries) : undefined;
  const balancer = balancerLines(resolved, machine, pki);
  const address = virtualAddressLines(resolved, machine, pki);
  const apiserver = apiserverLines(resolved, machine);
  const started = startedLines(of, [...pki, ...apiserver]);
  const kubelet = kubernetes ? [...imagesLines(resolved, machine), ...kubeletLines(resolved, machine)] : [];
  const lines = [
    ...system,
    ...directories(machine),
    ...pki,
    step('certificates'),
    ...binaries,
    ...(runtime?.files ?? []),
    ...(balancer?.files ?? []),
    ...(address?.files ?? []),
    ...kubelet,
    ...apiserver,
    ...started.manifests,
    ...(objects?.files ?? []),
    step('files'),
    ...started.service,
    ...(runtime ? [runtime.run] : []),
    ...(balancer ? [balancer.run] : []),
    ...(address ? [address.run] : []),
    ...(kubernetes
      ? [
          {
            do: 'run',
            unit: KUBELET_SERVICE,
            digest: digestOf([...kubelet, ...pki, ...binaries], readByKubelet),
          } as const,
        ]
      : []),
    step('units'),
    ...(objects ? [objects.run, step('objects')] : []),
    ...(etcd?.hold ? [hold(etcd.hold.code, etcd.hold.text)] : []),
    ...(started.waits === undefined ? [] : [hold('waiting-for-turn', started.waits)]),
  ];
  return { lines, soon: started.soon };
}

/**
 * What a machine does while its etcd may not start. A restore of a static pod needs the runtime,
 * the same as with {@link planLines}; nothing else is started for it, also if the machine has just
 * booted.
 */
export function heldLines({
  resolved,
  data,
  etcd,
  binaries = [],
}: Pick<PlanOf, 'resolved' | 'data' | 'etcd' | 'binaries'>): readonly PlanLine[] {
  const { lines = [], restore, hold: why } = etcd ?? {};
  const runtime = runtimeLines(resolved, binaries);
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

/** Files that a static pod reads when it starts and not again (cluster-bootstrap, section 1.3). */
const POD_READS: Readonly<Record<string, RegExp>> = {
  etcd: /\/pki\/etcd\/ca-bundle\.crt$/,
  'kube-apiserver':
    /\/(apiserver\/[^/]+|pki\/(sa\.key|sa-verifiers\.pub|etcd\/ca-bundle\.crt|(apiserver-etcd-client|apiserver-kubelet-client)\.crt))$/,
  'kube-controller-manager':
    /\/(controller-manager\.conf|pki\/(ca-bundle\.crt|sa\.key|front-proxy-ca-bundle\.crt))$/,
  'kube-scheduler': /\/scheduler\.conf$/,
};

interface Started {
  readonly manifests: readonly PlanLine[];
  readonly service: readonly PlanLine[];
  /** Why something is not restarted yet; absent when nothing waits. */
  readonly waits?: string;
  readonly soon: boolean;
}

/** Static pods, and etcd where it is a service. What has to wait is left as the machine has it. */
function startedLines(of: PlanOf, files: readonly PlanLine[]): Started {
  const { resolved, machine, etcd } = of;
  const reads = (pod: string) => digestOf(files, (path) => POD_READS[pod]?.test(path) === true);
  const founding = resolved.etcd.runs === 'pod' ? etcd?.founding : undefined;
  const manifests = manifestFiles(resolved, machine, founding, reads);
  const service = etcdService(of, files);
  const wanted: Revisions = { ...Object.fromEntries(manifests.flatMap(wantedOf)), ...service?.wanted };
  const { turn, soon = false } = (Object.keys(wanted).length > 0 ? of.restart?.(wanted) : undefined) ?? {};
  const withheld = turn?.do === 'wait' ? turn.changes : [];
  return {
    manifests: manifests
      .filter(({ rolled }) => rolled === undefined || !withheld.includes(rolled.pod))
      .map(({ path, mode, text }) => put(path, text, mode)),
    service: service === undefined || withheld.includes('etcd') ? [] : service.lines,
    ...(turn?.do === 'wait' && { waits: turn.text }),
    soon,
  };
}

const wantedOf = ({ rolled }: ManifestFile) => (rolled ? [[rolled.pod, rolled.revision] as const] : []);

function etcdService(
  { resolved, machine, etcd, binaries = [] }: PlanOf,
  files: readonly PlanLine[],
): { readonly lines: readonly PlanLine[]; readonly wanted: Revisions } | undefined {
  if (resolved.etcd.runs !== 'service' || etcd?.founding === undefined) return undefined;
  const reads = put('/flags', etcdReads(resolved, machine));
  const trust = POD_READS.etcd!;
  const digest = digestOf(
    [...files, ...binaries, reads],
    (path) => path === '/flags' || trust.test(path) || ETCD_PROGRAM.includes(path),
  );
  const revision = digest.slice(0, 16);
  return {
    lines: [etcdServiceLine(resolved, machine, revision), { do: 'run', unit: ETCD_SERVICE, digest }],
    wanted: { etcd: revision },
  };
}
