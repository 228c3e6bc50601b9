/** Checks of a resolved Cluster, so that errors appear at apply and not on a machine that hangs. */

import { parseReference } from '../../artifacts/reference.ts';
import { duration, spanText } from '../../base/duration.ts';
import { ipNetwork, networkHolds, overlap, parseIp, parseIpNetwork, sizeOf } from '../../base/ip.ts';
import { flagFaults } from '../components/check-flags.ts';
import { kubeletFaults } from '../components/check-kubelet.ts';
import { proxyFaults } from '../components/check-proxy.ts';
import { effectiveKubelet, KUBELET_PARTS } from '../components/kubelet-flags.ts';
import { documentFaults } from '../components/policies.ts';
import { type ClusterFault, clusterError, clusterFault } from '../model/fault.ts';
import { API_PORT, CONTROL_PLANE_PORTS } from '../model/ports.ts';
import { addressOfFamily, type ResolvedCluster, withRole } from '../model/resolved-cluster.ts';
import { compareVersions, ETCD_MINORS, kubeletGates, minorOf, RELEASES } from '../model/versions.ts';
import { policyFaults } from './check-policy.ts';
import { registryFaults } from './check-registries.ts';
import { nodePrefix } from './derive.ts';
import { SKEW_RULES } from './skew.ts';
import { auditLogFaults, staticPodFaults } from './static-pods.ts';

type Found = ClusterFault[];

/** The checks of a resolved Cluster, each of its own subject. */
const CHECKS: readonly ((resolved: ResolvedCluster, found: Found, forced: boolean) => void)[] = [
  checkVersions,
  checkEtcd,
  (resolved, found, forced) => {
    if (checkNetworks(resolved, found) || forced) checkAddresses(resolved, found);
  },
  (resolved, found, forced) => found.push(...flagFaults(resolved, forced)),
  (resolved, found) => found.push(...documentFaults(resolved)),
  checkBackOff,
  checkPkiTimes,
  checkJoining,
  (resolved, found) => {
    // A flag of kubelet whose value is wrong by itself is reported once.
    const told = new Set(found.map(({ fault }) => fault.path));
    found.push(...kubeletFaults(resolved).filter(({ fault }) => !told.has(fault.path)));
  },
  (resolved, found) => found.push(...proxyFaults(resolved)),
  (resolved, found) => found.push(...policyFaults(resolved)),
  checkAddons,
  (resolved, found) => found.push(...registryFaults(resolved)),
  (resolved, found) => found.push(...staticPodFaults(resolved), ...auditLogFaults(resolved)),
];

/**
 * All faults of a resolved Cluster. A cluster can be built when none of them is an error.
 *
 * @param forced Whether to compare values of which some are known to be wrong. A check that
 *   cannot is left out.
 */
export function checkResolved(resolved: ResolvedCluster, forced = false): readonly ClusterFault[] {
  const found: Found = [];
  for (const check of CHECKS) {
    if (!forced) check(resolved, found, forced);
    else
      try {
        check(resolved, found, forced);
      } catch {
        // What it would find is found when the wrong values are corrected.
      }
  }
  return found;
}

/**
 * Checks the entries of add-ons. Their files may be added later; the add-on library checks the
 * files then.
 */
function checkAddons({ addons }: ResolvedCluster, found: Found): void {
  const names = new Set<string>();
  for (const [n, { name, images }] of addons.entries()) {
    if (names.has(name)) found.push(clusterError(`addons[${n}].name`, `${name} is listed twice`));
    names.add(name);
    for (const [at, image] of images.entries())
      if (parseReference(image) === undefined)
        found.push(clusterError(`addons[${n}].images[${at}]`, `"${image}" is not an image reference`));
  }
}

function checkVersions(resolved: ResolvedCluster, found: Found): void {
  const { versions } = resolved;
  const api = versions['kube-apiserver'];
  if (minorOf(api) !== resolved.kubernetes.minor)
    found.push(
      clusterError(
        'overrides.versions.kube-apiserver',
        `${api} has another minor version than ${resolved.kubernetes.version}; set version instead`,
      ),
    );
  for (const { program: what, than, older: most } of SKEW_RULES) {
    if (than !== 'kube-apiserver' || what === than || what === 'kubectl') continue;
    const older = Number(minorOf(api).split('.')[1]) - Number(minorOf(versions[what]).split('.')[1]);
    if (older < 0 || compareVersions(versions[what].replace(/-.*/, ''), api) > 0)
      found.push(
        clusterError(`overrides.versions.${what}`, `${versions[what]} is newer than kube-apiserver ${api}`),
      );
    else if (older > most)
      found.push(
        clusterError(
          `overrides.versions.${what}`,
          `${versions[what]} is ${older} minor versions older than kube-apiserver ${api}; at most ${most} work`,
        ),
      );
  }
  if (resolved.runtime === 'containerd') checkContainerd(resolved, found);
  else checkCrio(resolved, found);
  const { oldestEtcd } = RELEASES[resolved.kubernetes.minor];
  if (!ETCD_MINORS.some((minor) => minor === minorOf(versions.etcd)))
    found.push(
      clusterError(
        'overrides.versions.etcd',
        `Muster does not know etcd ${versions.etcd}; use ${ETCD_MINORS.join(', ')}`,
      ),
    );
  else if (compareVersions(versions.etcd, oldestEtcd) < 0)
    found.push(
      clusterFault(
        resolved.etcd.topology === 'stacked' ? 'error' : 'warning',
        'overrides.versions.etcd',
        `etcd ${versions.etcd} is older than ${oldestEtcd}, the oldest that kubeadm accepts for Kubernetes ${resolved.kubernetes.minor}`,
      ),
    );
}

function checkContainerd({ versions: { containerd } }: ResolvedCluster, found: Found): void {
  if (compareVersions(containerd, '1.6.0') < 0 || compareVersions(containerd, '3.0.0') >= 0)
    found.push(
      clusterError(
        'overrides.versions.containerd',
        `Muster does not know containerd ${containerd}; use a version from 1.6 to 2`,
      ),
    );
}

/**
 * CRI-O is built and tested for the Kubernetes of its own minor version (CRI-O's README,
 * "Compatibility matrix").
 */
function checkCrio({ versions, mirrors }: ResolvedCluster, found: Found): void {
  const text = versions['cri-o'];
  if (minorOf(text) !== minorOf(versions.kubelet))
    found.push(
      clusterError(
        'overrides.versions.cri-o',
        `CRI-O ${text} is not for kubelet ${minorOf(versions.kubelet)}`,
      ),
    );
  for (const mirror of mirrors)
    if (mirror.startsWith('https://['))
      found.push(
        clusterError(
          'mirrors',
          `CRI-O reads the CA of a mirror from a directory with the mirror's name, and Muster cannot write the brackets of ${mirror} into a path; give the mirror a DNS name`,
        ),
      );
}

function checkEtcd(resolved: ResolvedCluster, found: Found): void {
  if (resolved.etcd.topology === 'external' && resolved.etcd.runs !== 'service')
    found.push(
      clusterError(
        'etcd.runs',
        'external members run as service; a static pod needs a kubelet on the machine',
      ),
    );
  const members = withRole(resolved, 'etcd').length;
  const field = resolved.etcd.topology === 'external' ? 'etcd.machines' : 'controlPlanes';
  if (members % 2 === 0)
    found.push(
      clusterError(
        field,
        `${members} members of etcd tolerate no more failures than ${Math.max(1, members - 1)}; use an odd number`,
      ),
    );
  if (members > 7)
    found.push(clusterError(field, `${members} members of etcd; more than 7 slow every write`));
}

const FAMILIES = [4, 6] as const;

/** Networks whose addresses no pod and no Service can have, each with its purpose. */
const SPECIAL = [
  ['0.0.0.0/8', 'hosts without an address'],
  ['127.0.0.0/8', 'the machine itself'],
  ['169.254.0.0/16', 'addresses of one link'],
  ['224.0.0.0/4', 'multicast'],
  ['::/127', 'the machine itself'],
  ['fe80::/10', 'addresses of one link'],
  ['ff00::/8', 'multicast'],
] as const;

/** Returns false when networks have faults, so that addresses cannot be checked against them. */
function checkNetworks(resolved: ResolvedCluster, found: Found): boolean {
  const before = found.length;
  const named: { readonly field: string; readonly text: string }[] = [];
  for (const field of ['pods', 'services', 'machines'] as const)
    for (const text of resolved.networks[field])
      if (parseIpNetwork(text) === undefined)
        found.push(clusterError(`networks.${field}`, `"${text}" is not a network with its host bits zero`));
      else named.push({ field: `networks.${field}`, text });
  if (found.length > before) return false;
  for (const field of ['pods', 'services'] as const)
    for (const text of resolved.networks[field])
      for (const [special, what] of SPECIAL)
        if (overlap(ipNetwork(special), ipNetwork(text)))
          found.push(clusterError(`networks.${field}`, `${text} overlaps ${special}, which is for ${what}`));
  for (const [n, a] of named.entries())
    for (const b of named.slice(n + 1))
      if (overlap(ipNetwork(a.text), ipNetwork(b.text)))
        found.push(clusterError(b.field, `${b.text} overlaps ${a.text} of ${a.field}`));
  for (const field of ['pods', 'services'] as const) {
    const families = resolved.networks[field].map((text) => ipNetwork(text).base.family);
    if (families.length === 0)
      found.push(clusterError(`networks.${field}`, 'at least one network is needed'));
    for (const family of FAMILIES)
      if (families.filter((one) => one === family).length > 1)
        found.push(
          clusterError(`networks.${field}`, `two networks of IPv${family}; use one for each address family`),
        );
  }
  const order = (field: 'pods' | 'services') =>
    resolved.networks[field].map((text) => ipNetwork(text).base.family).join();
  if (order('pods') !== order('services'))
    found.push(
      clusterError(
        'networks.services',
        'networks.pods lists other address families, or lists them in another order; list the same families in the same order',
      ),
    );
  for (const text of resolved.networks.services) {
    const size = sizeOf(ipNetwork(text));
    if (size < 16n)
      found.push(clusterError('networks.services', `${text} is too small: the tenth address is DNS`));
    if (size > 1n << 20n)
      found.push(
        clusterError(
          'networks.services',
          `${text} is larger than kube-apiserver takes: /12, or /108 for IPv6`,
        ),
      );
  }
  for (const text of resolved.networks.pods) checkNodeNetwork(resolved, text, found);
  return found.length === before;
}

/** How many pods a kubelet runs where nothing else is set. */
const MAX_PODS = 110;

/** The length of a node's part of a pod network: that of a flag, or the one that Muster derives. */
function maskOf({ flags }: ResolvedCluster, text: string): number {
  const { family } = ipNetwork(text).base;
  const mask = [`node-cidr-mask-size-ipv${family}`, 'node-cidr-mask-size']
    .map((flag) => Number(flags['kube-controller-manager'][flag]))
    .find((one) => Number.isInteger(one) && one > 0 && one <= (family === 4 ? 32 : 128));
  return mask ?? nodePrefix(text);
}

/**
 * Checks how many nodes get a part of a pod network, and how many pods get an address on each. The
 * plugin host-local takes one address of a node's network for the node itself, none for the first
 * and the last, and no network with fewer than four.
 */
function checkNodeNetwork(resolved: ResolvedCluster, text: string, found: Found): void {
  const { base, prefix: whole } = ipNetwork(text);
  const prefix = maskOf(resolved, text);
  const nodes = 2 ** (prefix - whole);
  const say = (message: string, severity: ClusterFault['severity'] = 'error'): void => {
    found.push(clusterFault(severity, 'networks.pods', message));
  };
  const most = Math.max(...KUBELET_PARTS.map((part) => podsOf(resolved, part)));
  const fix = roomFix(resolved, text, most);
  if (nodes < resolved.machines.length)
    say(
      `${text} has room for ${Math.floor(nodes)} nodes with a /${prefix} each; there are ${resolved.machines.length}; ${fix}`,
    );
  if (base.family !== 4) return;
  const pods = 2 ** (32 - prefix) - 3;
  if (prefix > 30) say(`${text} gives each node a /${prefix}, in which no pod gets an address; ${fix}`);
  else if (pods < most)
    say(
      `${text} gives each node a /${prefix}, with addresses for ${pods} pods, and kubelet takes ${most}; ${fix}, or lower overrides.kubelet.config.maxPods`,
      'warning',
    );
}

function podsOf(resolved: ResolvedCluster, part: (typeof KUBELET_PARTS)[number]): number {
  const { maxPods } = effectiveKubelet(resolved, part).config;
  return typeof maxPods === 'number' && maxPods > 0 ? maxPods : MAX_PODS;
}

/** How to give each node `most` pods: another mask where the network has room, or a larger one. */
function roomFix({ networks, machines }: ResolvedCluster, text: string, most: number): string {
  const { base, prefix: whole } = ipNetwork(text);
  const forNodes = Math.ceil(Math.log2(machines.length));
  if (base.family === 6) return `use a /${64 - Math.max(forNodes, 8)} or larger`;
  const each = 32 - Math.ceil(Math.log2(most + 3));
  const flag = `node-cidr-mask-size${networks.pods.length > 1 ? '-ipv4' : ''}`;
  return whole <= each - forNodes
    ? `set overrides.flags.kube-controller-manager.${flag}: "${each}"`
    : `use a /${each - forNodes} or larger, like 10.244.0.0/16`;
}

/** Networks in which no machine reaches another one. */
const UNREACHABLE = ['0.0.0.0/8', '127.0.0.0/8', '::/127'] as const;

function checkAddresses(resolved: ResolvedCluster, found: Found): void {
  const owners = new Map<string, string>();
  const { pods, services, machines } = resolved.networks;
  const primary = ipNetwork(services[0]!).base.family;
  for (const machine of resolved.machines) {
    const where = `machines (${machine.name})`;
    const addresses = machine.addresses.map((text) => ({ text, address: parseIp(text) }));
    if (addresses[0]?.address?.family !== primary)
      found.push(
        clusterError(
          where,
          `its first address is not IPv${primary}, the family of the first service network`,
          machine.name,
        ),
      );
    const missing = services
      .map((text) => ipNetwork(text).base.family)
      .find((family) => !addresses.some(({ address }) => address?.family === family));
    if (missing !== undefined && missing !== primary && machine.roles.some((role) => role !== 'etcd'))
      found.push(
        clusterError(
          where,
          `it has no IPv${missing} address, which networks.services has; dual stack needs both`,
          machine.name,
        ),
      );
    for (const { text, address } of addresses) {
      if (address === undefined) {
        found.push(clusterError(where, `"${text}" is not an address`, machine.name));
        continue;
      }
      const owner = owners.get(text);
      if (owner !== undefined)
        found.push(clusterError(where, `${text} is the address of ${owner} as well`, machine.name));
      owners.set(text, machine.name);
      for (const network of [...pods, ...services])
        if (networkHolds(ipNetwork(network), address))
          found.push(
            clusterError(where, `${text} is inside ${network}, which is for pods or services`, machine.name),
          );
      if (machines.length > 0 && !machines.some((network) => networkHolds(ipNetwork(network), address)))
        found.push(
          clusterError(
            where,
            `${text} is outside of networks.machines (${machines.join(', ')})`,
            machine.name,
          ),
        );
    }
  }
  checkVirtualAddress(resolved, owners, found);
  const endpoint = parseIp(resolved.endpoint.host);
  if (/^(.+\.)?localhost$/.test(resolved.endpoint.host))
    found.push(
      clusterError('endpoint', 'localhost is each machine itself; name one at which others reach the API'),
    );
  if (endpoint === undefined) return;
  if ([...pods, ...services].some((network) => networkHolds(ipNetwork(network), endpoint)))
    found.push(
      clusterError('endpoint', `${resolved.endpoint.host} is inside a network for pods or services`),
    );
  if (UNREACHABLE.some((network) => networkHolds(ipNetwork(network), endpoint)))
    found.push(
      clusterError(
        'endpoint',
        `${resolved.endpoint.host} is an address of each machine itself; name one at which others reach the API`,
      ),
    );
  const owner = owners.get(resolved.endpoint.host);
  const controlPlanes = withRole(resolved, 'control-plane');
  if (owner !== undefined && !controlPlanes.some(({ name }) => name === owner))
    found.push(clusterError('endpoint', `it is the address of ${owner}, which is no control plane`));
  else if (owner !== undefined && controlPlanes.length > 1)
    found.push(
      clusterFault(
        'warning',
        'endpoint',
        `it is the address of ${owner}: the API cannot be reached while that machine is down; use virtualAddress, a balancer or a name`,
      ),
    );
}

function checkVirtualAddress(
  resolved: ResolvedCluster,
  owners: ReadonlyMap<string, string>,
  found: Found,
): void {
  const { virtualAddress, networks, endpoint } = resolved;
  if (virtualAddress === undefined) return;
  if (virtualAddress.by === 'kube-vip' && resolved.etcd.topology === 'external')
    found.push(
      clusterFault(
        'warning',
        'virtualAddress.by',
        'with external etcd, kube-vip does not notice that a member has lost power, so for minutes the address can be on no machine; use keepalived, which moves it within seconds',
      ),
    );
  const where = 'virtualAddress.addresses';
  const families = new Set<number>();
  for (const address of virtualAddress.addresses) {
    const parsed = parseIp(address);
    const owner = owners.get(address);
    const holds = (network: string) => parsed !== undefined && networkHolds(ipNetwork(network), parsed);
    if (parsed === undefined)
      found.push(
        clusterError(where, `"${address}" is not an address; name one, since the endpoint is a name`),
      );
    else if (owner !== undefined)
      found.push(clusterError(where, `${address} is the address of ${owner}; use one that no machine has`));
    else if (networks.machines.length > 0 && !networks.machines.some(holds))
      found.push(
        clusterError(where, `${address} is outside of networks.machines (${networks.machines.join(', ')})`),
      );
    else if (families.has(parsed.family))
      found.push(
        clusterError(where, `two IPv${parsed.family} addresses; at most one for each address family`),
      );
    else if (
      withRole(resolved, 'control-plane').some(
        (machine) => addressOfFamily(machine, parsed.family) === undefined,
      )
    )
      found.push(
        clusterError(
          where,
          `${address} is IPv${parsed.family}, and not every control plane has such an address`,
        ),
      );
    if (parsed) families.add(parsed.family);
  }
  if (endpoint.port === API_PORT) return;
  const { port } = endpoint;
  if (virtualAddress.by === 'kube-vip')
    found.push(
      clusterError(
        'endpoint',
        `port ${port}: where kube-vip holds the address the API server itself answers, at ${API_PORT}; with keepalived a balancer answers at any port`,
      ),
    );
  else if (CONTROL_PLANE_PORTS.has(port))
    found.push(clusterError('endpoint', `port ${port} is used by another program on control planes`));
}

const DAY = duration('1d');
/** The least and the most of each time of `pki`. */
export const PKI_TIMES = {
  leafLifetime: { least: duration('1h'), most: 3650 * DAY, text: 'from 1h to 3650d' },
  // A CA lives for ten years. A rotation takes its time, so it begins a year before the end.
  rotateAfter: { least: DAY, most: 3285 * DAY, text: 'from 1d to 3285d' },
  rehearsal: { least: duration('1s'), most: duration('1h'), text: 'from 1s to 1h' },
} as const;

function checkPkiTimes({ pki }: ResolvedCluster, found: Found): void {
  for (const [field, { least, most, text }] of Object.entries(PKI_TIMES)) {
    const time = pki[field as keyof typeof PKI_TIMES];
    if (time !== undefined && (time < least || time > most))
      found.push(clusterError(`pki.${field}`, `${spanText(time)} is out of range; write a time ${text}`));
  }
}

/** Joining by token needs API servers that accept bootstrap tokens. */
function checkJoining({ joining, flags }: ResolvedCluster, found: Found): void {
  const flag = 'enable-bootstrap-token-auth';
  if (joining === 'token' && flags['kube-apiserver'][flag] !== 'true')
    found.push(
      clusterError(
        `overrides.flags.kube-apiserver.${flag}`,
        'workers join by token, which API servers accept only with this flag; remove the override, or set joining: certificate',
      ),
    );
}

/** kubelet exits as soon as it reads the setting without the feature gate that it needs. */
function checkBackOff(
  { kubelet: { config, controlPlaneConfig }, versions }: ResolvedCluster,
  found: Found,
): void {
  const used = [config, controlPlaneConfig].some(({ crashLoopBackOff }) => crashLoopBackOff !== undefined);
  const missing = [config, { ...config, ...controlPlaneConfig }].flatMap(({ featureGates }) => {
    const gates = (featureGates ?? {}) as Readonly<Record<string, unknown>>;
    return Object.keys(kubeletGates(versions.kubelet)).filter((gate) => gates[gate] !== true);
  });
  if (!used || missing.length === 0) return;
  const why = `kubelet ${versions.kubelet} refuses crashLoopBackOff without the feature gate ${[...new Set(missing)].join(', ')}: true`;
  found.push(clusterError('overrides.kubelet.config.featureGates', why));
}
