/** Translates an inventory of Kubespray into Machine and Cluster documents. Pure. */

import { MusterError } from '../../base/errors.ts';
import type { TrustTier } from '../../resources/trust.ts';
import type { Draft } from './csv.ts';
import type { Inventory } from './inventory.ts';

/** What came of an inventory. */
export interface Translated {
  readonly documents: readonly Draft[];
  /** What could not be translated, each with what to do. */
  readonly notes: readonly string[];
}

/** The groups, by their present and former names. */
const CONTROL_PLANES = ['kube_control_plane', 'kube-master', 'kube_master'];
const WORKERS = ['kube_node', 'kube-node'];

/** Variables whose meaning is translated, or that say nothing about the cluster. */
const KNOWN = new Set(
  `kube_version kube_network_plugin kube_service_addresses kube_pods_subnet cluster_name container_manager
  ansible_host ansible_user ansible_port ansible_become ansible_become_user ansible_connection ansible_python_interpreter
  ansible_ssh_private_key_file ansible_ssh_host access_ip ip etcd_member_name
  loadbalancer_apiserver.address loadbalancer_apiserver.port apiserver_loadbalancer_domain_name kube_apiserver_port bin_dir kube_encrypt_secret_data`.split(
    /\s+/,
  ),
);

const nameOf = (host: string): string =>
  host
    .toLowerCase()
    .split('.')[0]!
    .replace(/[^a-z0-9-]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 63);

/** Why a host has no address that could be taken. */
function withoutAddress(variables: Readonly<Record<string, string>>): string {
  const given = ['ip', 'access_ip', 'ansible_host', 'ansible_ssh_host'].find(
    (name) => variables[name] !== undefined,
  );
  return given === undefined
    ? 'it has no address (ip, access_ip or ansible_host)'
    : `its ${given} "${variables[given]}" is a name or a template and no address`;
}

/** Kubespray's network plugins that Muster has itself. */
const NETWORKS = ['flannel', 'kube-router'];

/**
 * Makes the documents. `variables`: those of group_vars, which count over those of the inventory.
 * `macs`: name of a machine → its MACs, which no inventory has.
 *
 * @throws {MusterError} E_USAGE when the inventory has no control planes, or two hosts get one name
 */
export function fromKubespray(
  inventory: Inventory,
  {
    cluster,
    trust,
    variables: given = {},
    macs = new Map(),
  }: {
    readonly cluster: string;
    readonly trust: TrustTier;
    readonly variables?: Readonly<Record<string, string>>;
    readonly macs?: ReadonlyMap<string, readonly string[]>;
  },
): Translated {
  const notes: string[] = [];
  const variables = { ...inventory.variables, ...given };
  const inGroups = (groups: readonly string[]): readonly string[] => [
    ...new Set(groups.flatMap((group) => [...(inventory.groups.get(group) ?? [])])),
  ];
  const controlPlanes = inGroups(CONTROL_PLANES);
  if (controlPlanes.length === 0)
    throw new MusterError(
      'E_USAGE',
      'the inventory has no host in kube_control_plane; is it one of Kubespray?',
    );
  const etcd = inGroups(['etcd']);
  const workers = inGroups(WORKERS);
  const hosts = [...new Set([...controlPlanes, ...etcd, ...workers])];
  const names = new Map(hosts.map((host) => [host, nameOf(host)]));
  const twice = hosts.find((host) =>
    hosts.some((other) => other !== host && names.get(other) === names.get(host)),
  );
  if (twice !== undefined)
    throw new MusterError(
      'E_USAGE',
      `two hosts get the name "${names.get(twice)}"; rename ${twice} in the inventory`,
    );

  for (const [host, name] of names)
    if (name !== host)
      notes.push(
        `${host} becomes ${name}: its Node is called ${host} now; a machine that Muster boots gets the new name`,
      );

  const addressOf = (host: string): string | undefined => {
    const { ip, access_ip, ansible_host, ansible_ssh_host } = inventory.hosts.get(host) ?? {};
    return [ip, access_ip, ansible_host, ansible_ssh_host].find(
      (one) => one !== undefined && /^[0-9.]+$|:/.test(one),
    );
  };
  const machines = hosts.map((host): Draft => {
    const name = names.get(host)!;
    const address = addressOf(host);
    const own = macs.get(host) ?? macs.get(name) ?? [];
    if (own.length === 0)
      notes.push(`${name}: its MACs are not in the inventory; add them, or name a table with --macs`);
    if (address === undefined)
      notes.push(`${name}: ${withoutAddress(inventory.hosts.get(host) ?? {})}; add it`);
    return {
      apiVersion: 'muster/v1',
      kind: 'Machine',
      metadata: { name },
      spec: { macs: own, ...(address !== undefined && { addresses: [address] }) },
    };
  });
  const of = (list: readonly string[]): readonly string[] => list.map((host) => names.get(host)!);
  const stacked =
    etcd.length === 0 ||
    (etcd.length === controlPlanes.length && etcd.every((one) => controlPlanes.includes(one)));
  const { kube_version: version, kube_network_plugin: plugin, container_manager: runtime } = variables;
  if (version === undefined) notes.push('kube_version is not set; the Cluster says 1.36: write what runs');
  if (plugin !== undefined && !NETWORKS.includes(plugin))
    notes.push(
      `kube_network_plugin ${plugin}: the Cluster says "cni: none"; add it as an add-on (\`muster addon ls\`)`,
    );
  if (runtime !== undefined && !['containerd', 'crio'].includes(runtime))
    notes.push(`container_manager ${runtime}: Muster runs containerd or CRI-O; the Cluster says neither`);
  const domain = variables['loadbalancer_apiserver.address'] ?? variables.apiserver_loadbalancer_domain_name;
  const port = variables['loadbalancer_apiserver.port'] ?? variables.kube_apiserver_port ?? '6443';
  const first = domain ?? addressOf(controlPlanes[0]!) ?? 'FILL-IN';
  if (first === 'FILL-IN')
    notes.push('endpoint FILL-IN: no control plane has an address; write the address of the API servers');
  else if (domain === undefined)
    notes.push(
      controlPlanes.length > 1
        ? `endpoint ${first}: it is the address of one control plane; use a virtual address or a load balancer`
        : `endpoint ${first}: it is the address of the only control plane`,
    );
  for (const name of Object.keys(variables).toSorted())
    if (!KNOWN.has(name)) notes.push(`${name} is not translated`);
  const perHost = new Set([...inventory.hosts.values()].flatMap((one) => Object.keys(one)));
  for (const name of [...perHost].toSorted())
    if (!KNOWN.has(name)) notes.push(`${name} of hosts is not translated`);
  const networks = {
    ...(variables.kube_pods_subnet !== undefined && { pods: [variables.kube_pods_subnet] }),
    ...(variables.kube_service_addresses !== undefined && { services: [variables.kube_service_addresses] }),
  };
  const kubernetes = {
    version: (version ?? '1.36').replace(/^v/, ''),
    endpoint: port === '6443' ? first : `${first}:${port}`,
    controlPlanes: of(controlPlanes),
    ...(workers.length > 0 && { workers: of(workers) }),
    ...(!stacked && { etcd: { topology: 'external', machines: of(etcd) } }),
    ...(Object.keys(networks).length > 0 && { networks }),
    ...(variables.cluster_name !== undefined && { dnsDomain: variables.cluster_name }),
    ...(plugin !== undefined && { cni: NETWORKS.includes(plugin) ? plugin : 'none' }),
    ...(runtime === 'crio' && { runtime: 'cri-o' }),
  };
  const document: Draft = {
    apiVersion: 'muster/v1',
    kind: 'Cluster',
    metadata: { name: cluster },
    spec: { trust, kubernetes },
  };
  return { documents: [...machines, document], notes };
}
