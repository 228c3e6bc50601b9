/**
 * The whole plan of a machine that has its certificates: an ordered list of lines, the same for the same facts. The order is what
 * each needs of the one before: nothing starts before what it reads is there.
 */
import type { PlanLine } from '../../agent/plan.ts';
import type { MachineFile } from '../../pki/handout.ts';
import { APISERVER_DIRECTORY, KUBERNETES_DIRECTORY, PKI_DIRECTORY } from '../../pki/hierarchy.ts';
import type { EtcdPart } from '../etcd-part.ts';
import type { ClusterMachine, FullCluster } from '../full.ts';
import { type Founding, MANIFEST_DIRECTORY, manifestFiles } from '../manifests.ts';
import { balancerLines } from './balancer.ts';
import { checkLines, runsKubelet } from './checks.ts';
import { containerdLines } from './containerd.ts';
import { ETCD_SERVICE, etcdReads, etcdServiceLine } from './etcd-service.ts';
import { kubeletLines, readByKubelet } from './kubelet-unit.ts';
import { digestOf, directory, hold, lineOf, put, step } from './lines.ts';
import type { ObjectsPart } from './objects-unit.ts';
import { systemLines } from './system.ts';
import { virtualAddressLines } from './virtual-address.ts';

export interface PlanOf {
  readonly full: FullCluster;
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
}

export function planLines(of: PlanOf): readonly PlanLine[] {
  const { full, machine, data, etcd, binaries = [], objects } = of;
  const kubernetes = runsKubelet(machine);
  const pki = of.pki.map(lineOf);
  const containerd = kubernetes ? containerdLines(full, binaries) : undefined;
  const balancer = machine.roles.includes('worker') ? balancerLines(full, pki) : undefined;
  const address = virtualAddressLines(full, machine);
  const kubelet = kubernetes ? kubeletLines(full, machine) : [];
  return [
    ...data,
    ...(etcd?.lines ?? []),
    ...checkLines(full, machine, data.length > 0),
    ...systemLines(machine, kubernetes),
    step('system'),
    ...directories(machine),
    ...pki,
    step('certificates'),
    ...binaries,
    ...(containerd?.files ?? []),
    ...(balancer?.files ?? []),
    ...(address?.files ?? []),
    ...kubelet,
    ...manifestLines(full, machine, etcd?.founding, pki),
    ...(objects?.files ?? []),
    step('files'),
    ...etcdService(full, machine, etcd?.founding, pki),
    ...(containerd ? [containerd.run] : []),
    ...(balancer ? [balancer.run] : []),
    ...(address ? [address.run] : []),
    ...(kubernetes
      ? [
          {
            do: 'run',
            unit: 'kubelet.service',
            digest: digestOf([...kubelet, ...pki, ...binaries], readByKubelet),
          } as const,
        ]
      : []),
    step('units'),
    ...(objects ? [objects.run, step('objects')] : []),
    ...(etcd?.hold ? [hold(etcd.hold.code, etcd.hold.text)] : []),
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

function manifestLines(
  full: FullCluster,
  machine: ClusterMachine,
  founding: Founding | undefined,
  pki: readonly PlanLine[],
): readonly PlanLine[] {
  const reads = (pod: string) => digestOf(pki, (path) => POD_READS[pod]?.test(path) === true);
  const granted = full.etcd.runs === 'pod' ? founding : undefined;
  return manifestFiles(full, machine, granted, reads).map(({ path, mode, text }) => put(path, text, mode));
}

function etcdService(
  full: FullCluster,
  machine: ClusterMachine,
  founding: Founding | undefined,
  pki: readonly PlanLine[],
): readonly PlanLine[] {
  if (full.etcd.runs !== 'service' || founding === undefined) return [];
  const reads = put('/flags', etcdReads(full, machine));
  const trust = POD_READS.etcd!;
  return [
    etcdServiceLine(full, machine),
    {
      do: 'run',
      unit: ETCD_SERVICE,
      digest: digestOf([...pki, reads], (path) => path === '/flags' || trust.test(path)),
    },
  ];
}
