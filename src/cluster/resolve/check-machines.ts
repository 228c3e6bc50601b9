/**
 * Finds machines of a Cluster that cannot do their part yet. They cause warnings and not errors
 * when documents are applied, because an address, a profile or another image may follow.
 */
import { firstFew } from '../../base/first-few.ts';
import { type Case, type CasesOf, casesIn } from '../../ignition/cases.ts';
import { narrowestDisk } from '../../resources/boot-disk.ts';
import { type CandidateSet, lacksAny } from '../../resources/candidate.ts';
import type { Document, KubernetesSpec } from '../../resources/kinds.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import { lackingPrograms } from './artifacts.ts';

interface MachineWarning {
  /** The path below `spec.kubernetes` at which the Cluster names the first of the machines. */
  readonly path: string;
  readonly message: string;
  readonly machines: readonly string[];
}

/** A machine where a Cluster names it. */
interface Named {
  readonly name: string;
  readonly path: string;
  readonly isWorker: boolean;
  readonly isMember: boolean;
}

/**
 * Warnings about machines whose documents exist. Several machines with the same warning get one
 * warning together.
 *
 * @param names The machines to check.
 * @param resolved The resolved Cluster; absent when it has errors, so that it is not known what its
 *   machines need.
 */
export function machineWarnings(
  spec: KubernetesSpec,
  resolved: ResolvedCluster | undefined,
  names: ReadonlySet<string>,
  candidates: CandidateSet,
  casesOf: CasesOf,
): readonly MachineWarning[] {
  const found = new Map<string, Named[]>();
  for (const named of namedMachines(spec)) {
    const machine = candidates.Machine.get(named.name)?.document;
    if (machine === undefined || !names.has(named.name)) continue;
    // What a Profile with faults gives its machines is not known.
    const isKnown =
      machine.spec.profile === undefined
        ? !lacksAny(candidates, 'Profile')
        : candidates.Profile.has(machine.spec.profile);
    for (const text of textsOf(named, machine, casesOf(machine), resolved, isKnown)) {
      const before = found.get(text) ?? [];
      before.push(named);
      found.set(text, before);
    }
  }
  return [...found].map(([text, machines]) => ({
    path: machines[0]!.path,
    message: `${firstFew(machines.map(({ name }) => name))}: ${text}`,
    machines: machines.map(({ name }) => name),
  }));
}

function namedMachines({ controlPlanes, workers = [], etcd }: KubernetesSpec): readonly Named[] {
  const isExternal = etcd?.topology === 'external';
  const list = (field: string, machines: readonly string[], isWorker: boolean, isMember: boolean) =>
    machines.map((name, n): Named => ({ name, path: `${field}[${n}]`, isWorker, isMember }));
  return [
    ...list('controlPlanes', controlPlanes, false, !isExternal),
    ...list('etcd.machines', etcd?.machines ?? [], false, true),
    ...list('workers', workers, true, false).filter(({ name }) => !controlPlanes.includes(name)),
  ];
}

function textsOf(
  { name, isWorker, isMember }: Named,
  { spec }: Document<'Machine'>,
  cases: readonly Case[],
  resolved: ResolvedCluster | undefined,
  isKnown: boolean,
): readonly string[] {
  const waits = isWorker ? 'the cluster runs without it' : 'the whole cluster waits';
  const hasDisk = ({ machine, profile, cluster }: Case): boolean =>
    narrowestDisk('dataDisk', [machine.spec, profile?.spec, cluster?.spec]) !== undefined;
  return [
    ...hostnameTexts(name, cases),
    ...(spec.addresses?.length ? [] : [`no spec.addresses in its Machine; until there is one, ${waits}`]),
    ...addressTexts(spec.addresses?.[0], cases),
    ...(!isKnown || cases.some(({ profile }) => profile !== undefined)
      ? []
      : ['no profile in its Machine, and no Profile selects it; it is held when it boots']),
    ...(isKnown && isMember && !cases.some(hasDisk)
      ? [
          'a member of etcd without dataDisk in its Machine, Profile or Cluster; it is held until there is one',
        ]
      : []),
    ...(resolved === undefined ? [] : imageTexts(resolved, name, cases)),
    ...formatTexts(cases, waits),
    ...argumentTexts(cases, resolved),
  ];
}

/** An image without configuration brings no agent, so the machine never asks for its plan. */
function formatTexts(cases: readonly Case[], waits: string): readonly string[] {
  const image = imageOf(cases);
  return image?.spec.configFormat === 'none'
    ? [
        `image ${image.metadata.name} has configFormat none, so it gets no agent and never joins; boot an image that cloud-init or Ignition configures; until then, ${waits}`,
      ]
    : [];
}

const LEGACY_CGROUPS =
  /^(systemd\.unified_cgroup_hierarchy=(0|n|no|f|false|off)|cgroup_disable=(\S+,)?(memory|pids|cpu|cpuset)(,\S+)?)$/;
const NO_IPV6 = /^ipv6\.disable=1$/;

/** Kernel arguments with which the checks of the machine itself, or its kubelet, fail. */
function argumentTexts(cases: readonly Case[], resolved: ResolvedCluster | undefined): readonly string[] {
  // The last of several wins.
  const given = new Set(
    cases.flatMap(({ image, profile }) => [
      ...new Map(
        [...(image?.spec.kernelArguments ?? []), ...(profile?.spec.kernelArguments ?? [])].map(
          (argument) => [argument.split('=')[0], argument] as const,
        ),
      ).values(),
    ]),
  );
  const hasIpv6 = resolved?.networks.services.some((network) => network.includes(':'));
  return [...given].flatMap((argument) =>
    LEGACY_CGROUPS.test(argument)
      ? [
          `the kernel argument ${argument} takes away control groups (version 2) that kubelet needs, so it is held; remove it`,
        ]
      : hasIpv6 && NO_IPV6.test(argument)
        ? [
            `the kernel argument ${argument} turns IPv6 off, which networks.services has, so it has no address of its node; remove it`,
          ]
        : [],
  );
}

/**
 * A kubelet ends on a machine that does not have the address of its node. Where Muster gives the
 * addresses it writes that address for the interface that booted (src/ignition/static-network.ts),
 * and only an entry for that interface can take it away.
 */
function addressTexts(address: string | undefined, cases: readonly Case[]): readonly string[] {
  if (address === undefined) return [];
  const isGiven = cases.every(({ network }) => /^(server|reservations)$/.test(network?.spec.dhcp.mode ?? ''));
  const layers = cases.flatMap(({ machine, profile, cluster }) => [machine, profile, cluster]);
  const macs = cases.flatMap(({ machine }) => machine.spec.macs);
  const interfaces = layers
    .flatMap((document) => document?.spec.config?.network?.interfaces ?? [])
    .filter(({ mac, addresses }) => !isGiven || (addresses !== undefined && macs.includes(mac ?? '')));
  const has = interfaces.some(
    ({ dhcp4, dhcp6, acceptRa, addresses = [] }) =>
      [dhcp4, dhcp6, acceptRa].some((learns) => learns === true) ||
      addresses.some((text) => text.includes('${') || text.split('/')[0] === address),
  );
  return interfaces.length === 0 || has
    ? []
    : [`config.network gives no interface the address ${address} of its Machine; correct one of the two`];
}

/** The name of a node is that of its Machine, and the agent gives the machine that host name. */
function hostnameTexts(name: string, cases: readonly Case[]): readonly string[] {
  const given = cases
    .flatMap(({ machine, profile, cluster }) => [machine, profile, cluster])
    .map((document) => document?.spec.config?.hostname)
    .find((hostname) => hostname !== undefined && !hostname.includes('${') && hostname !== name);
  return given === undefined
    ? []
    : [
        `config.hostname "${given}" has no effect on a machine of a cluster, whose host name is ${name}; remove it`,
      ];
}

/** The Image that a machine boots; undefined when it has none, or may boot one of several. */
export function imageOf(cases: readonly Case[]): Document<'Image'> | undefined {
  const images = new Set(cases.map((one) => one.image));
  return images.size === 1 ? cases[0]!.image : undefined;
}

/** Program → the images that machines of the cluster boot and that lack it. */
export function lackingImages(
  resolved: ResolvedCluster,
  candidates: CandidateSet,
): ReadonlyMap<string, ReadonlySet<string>> {
  const casesOf = casesIn(candidates);
  const result = new Map<string, Set<string>>();
  for (const { name } of resolved.machines) {
    const machine = candidates.Machine.get(name)?.document;
    const image = machine && imageOf(casesOf(machine));
    if (image === undefined) continue;
    for (const program of lackingPrograms(resolved, name, image.spec.programs))
      result.set(program, (result.get(program) ?? new Set()).add(image.metadata.name));
  }
  return result;
}

function imageTexts(resolved: ResolvedCluster, name: string, cases: readonly Case[]): readonly string[] {
  const image = imageOf(cases);
  const lacking = image === undefined ? [] : lackingPrograms(resolved, name, image.spec.programs);
  if (image === undefined || lacking.length === 0) return [];
  const build = image.spec.os === 'debian' ? '; `muster image build debian -- --kubernetes` makes one' : '';
  return [
    `image ${image.metadata.name} lacks ${lacking.join(', ')}; boot an image that has all of them${build}`,
  ];
}
