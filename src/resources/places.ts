/**
 * Where each setting lands: what on a machine, in the cluster or on the boot host has its value. A
 * field without a row has the place of the field above it. `muster explain`, the JSON Schemas and
 * docs/reference/settings.md show it.
 */
import type { Kind } from './kinds.ts';

/** Where a setting lands, and how it is written. */
export interface Place {
  /** What has the value: a file, a flag, an object, an answer of the boot host. */
  readonly lands: string;
  /** The value in a document, as YAML in one line. */
  readonly example?: string;
  /** The version of Kubernetes from which on it has an effect; absent: all that Muster knows. */
  readonly since?: string;
}

const at = (lands: string, example?: string, since?: string): Place => ({
  lands,
  ...(example !== undefined && { example }),
  ...(since !== undefined && { since }),
});

const NAMES = 'the name server of the zone, which gets updates';
const HOST = 'boot host';
const AGENT = 'boot host: what the agent of the machine has to show';
const TRUST = at(AGENT, 'approved');
const DATA_DISK = at(
  'the disk that the agent formats; mounted for etcd, containers and kubelet',
  '{serial: DATA}',
);
const ETCD_DISK = at('the disk that the agent formats; mounted at /var/lib/etcd', '{serial: ETCD}');
const BOOT_DISK = at('the disk that keeps kernel, initrd and root image', '{serial: BOOT}');
const INSTALL_DISK = at('the disk on which the image of a whole disk is installed', '{choose: smallest}');
const BMC = 'boot host: how it reaches the BMC that powers the machine';
const TPM = at('boot host: how the TPM of a machine proves itself');
const META: Readonly<Record<string, Place>> = {
  apiVersion: at('the document alone', 'muster/v1'),
  kind: at('the document alone'),
  metadata: at('the document alone; the name is what other documents and commands use', '{name: blue}'),
};

/** The fields of `config`, from there on. */
export const CONFIG_PLACES: Readonly<Record<string, Place>> = {
  hostname: at('/etc/hostname', 'node-1'),
  files: at(
    'files on the machine, by the first configuration or the agent',
    '[{path: /etc/motd, content: Hello}]',
  ),
  units: at('/etc/systemd/system', '[{name: hello.service, enabled: true}]'),
  users: at('/etc/passwd, /etc/shadow, ~/.ssh/authorized_keys', '[{name: ops, sudo: true}]'),
  network: at('/etc/systemd/network, netplan or NetworkManager, as the image wants it', '{interfaces: []}'),
  disks: at('partitions, filesystems and mount units', '[{device: /dev/sdb, partitions: []}]'),
  filesystems: at(
    'filesystems on devices that exist, and mount units',
    '[{device: /dev/disk/by-label/data, mount: /srv/data}]',
  ),
  variables: at('templates of the same configuration', '{contact: ops@lab.example}'),
  timezone: at('/etc/localtime', 'Europe/Berlin'),
  sysctls: at('/etc/sysctl.d', '{vm.swappiness: 10}'),
  kernelModules: at('/etc/modules-load.d', '[br_netfilter]'),
  caCertificates: at('the trusted CAs of the operating system (/etc/ssl/certs or /etc/pki)'),
  packages: at('installed by cloud-init at the first boot', '[tcpdump]'),
  configTimeout: at('boot host: how long it waits for the report of the machine', '10m'),
  extra: at('the Ignition config or the user-data of cloud-init, merged over that of Muster'),
};

const KUBERNETES: Readonly<Record<string, Place>> = {
  acceptUntested: at('boot host: whether a version that is known by documents is refused', '"1.37"'),
  version: at('images of static pods, kubelet, kubectl; all tables of flags', '"1.36"'),
  endpoint: at('kubeconfigs, the certificate of API servers, keepalived or kube-vip', 'api.blue.example'),
  virtualAddress: at(
    '/etc/muster/keepalived.conf, or /etc/kubernetes/manifests/kube-vip.yaml',
    '{interface: eth0}',
  ),
  controlPlanes: at('/etc/kubernetes/manifests of these machines; members of etcd', '[cp1, cp2, cp3]'),
  workers: at('kubelet and haproxy of these machines; taints of control planes', '[w1, w2]'),
  nodes: at(
    'kubelet --node-labels, registerWithTaints; the Node; boot host: turns of workers',
    '[{machines: [w1], labels: {rack: r1}}]',
  ),
  etcd: at(
    '/etc/kubernetes/manifests/etcd.yaml or muster-etcd.service',
    '{topology: external, machines: [e1]}',
  ),
  networks: at(
    'flags of API server and controller manager, kube-proxy, the pod network, NO_PROXY',
    '{pods: [10.244.0.0/16]}',
  ),
  dnsDomain: at('CoreDNS, kubelet clusterDomain, the issuer of service accounts', 'cluster.local'),
  sans: at('/etc/kubernetes/pki/apiserver.crt', '[api.blue.example]'),
  keys: at('all keys and certificates of the cluster', 'ECDSA-P256'),
  pki: at('boot host: when certificates and CAs are replaced', '{leafLifetime: 90d}'),
  encryptSecrets: at('/etc/kubernetes/apiserver/encryption.yaml', 'true'),
  joining: at('/etc/kubernetes/bootstrap-kubelet.conf or kubelet.conf of workers', 'token'),
  serviceProxy: at('DaemonSet of kube-proxy', 'kube-proxy'),
  podSecurity: at('/etc/kubernetes/apiserver/admission.yaml', 'restricted'),
  registry: at('image references of static pods, CoreDNS, kube-proxy, pause', 'registry.k8s.io'),
  cni: at('DaemonSet of the pod network, /etc/cni/net.d', 'flannel'),
  networkPolicy: at('DaemonSet of kube-router, NetworkPolicy objects', '{isolate: [shop]}'),
  runtime: at('containerd.service or crio.service; kubelet containerRuntimeEndpoint', 'cri-o'),
  addons: at('objects that control planes apply', '[{name: dashboard, manifests: []}]'),
  timeServers: at('/etc/systemd/timesyncd.conf.d/90-muster.conf', '[time.lab.example]'),
  mirrors: at('/etc/containerd/certs.d, or /etc/containers/registries.conf.d', '["http://10.77.0.1:5000"]'),
  registries: at(
    '/etc/containerd/certs.d and config.toml, or /etc/containers/registries.conf.d and /etc/crio/auth.json',
    '[{registry: docker.io, mirrors: [{url: "https://harbor.example/v2/dockerhub"}]}]',
  ),
  proxy: at(
    'environment of containerd.service, crio.service and kubelet.service',
    '{http: "http://proxy.example:3128"}',
  ),
  coreDNS: at('Deployment kube-system/coredns', '{replicas: 3}'),
  apiServer: at('/etc/kubernetes/apiserver of control planes; flags of kube-apiserver', '{auditPolicy: {}}'),
  'apiServer.auditPolicy': at(
    '/etc/kubernetes/apiserver/audit-policy.yaml; kube-apiserver --audit-policy-file',
    '{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}',
  ),
  'apiServer.auditWebhook': at(
    '/etc/kubernetes/apiserver/webhooks/audit.conf; kube-apiserver --audit-webhook-config-file',
  ),
  'apiServer.authentication': at(
    '/etc/kubernetes/apiserver/authentication.yaml; kube-apiserver --authentication-config',
    '{apiVersion: apiserver.config.k8s.io/v1, kind: AuthenticationConfiguration, jwt: []}',
    '1.34 (apiserver.config.k8s.io/v1)',
  ),
  'apiServer.tokenWebhook': at(
    '/etc/kubernetes/apiserver/webhooks/token.conf; kube-apiserver --authentication-token-webhook-config-file',
  ),
  'apiServer.authorization': at(
    '/etc/kubernetes/apiserver/authorization.yaml; kube-apiserver --authorization-config',
    '{apiVersion: apiserver.config.k8s.io/v1, kind: AuthorizationConfiguration, authorizers: []}',
    '1.32',
  ),
  'apiServer.oidcCA': at('/etc/kubernetes/apiserver/oidc-ca.pem; kube-apiserver --oidc-ca-file'),
  staticPods: at('/etc/kubernetes/manifests', '{kube-apiserver: {env: {GOMEMLIMIT: 6GiB}}}'),
  overrides: at(
    'whatever has the derived value: `muster get cluster NAME --full`',
    '{checks: {fsyncMs: 20}}',
  ),
};

const below = (prefix: string, places: Readonly<Record<string, Place>>): Readonly<Record<string, Place>> =>
  Object.fromEntries(Object.entries(places).map(([path, place]) => [`${prefix}.${path}`, place]));

/** The places of each kind, by path. */
export const PLACES: Readonly<Record<Kind, Readonly<Record<string, Place>>>> = {
  Network: {
    ...META,
    spec: at(HOST),
    'spec.subnet': at('boot host: which segment it serves; DHCP option 1', '10.77.0.0/24'),
    'spec.interface': at('boot host: where it listens', 'eth1'),
    'spec.address': at('boot host: the address that machines get from it', '10.77.0.1'),
    'spec.dhcp': at('boot host: what its DHCP server answers', '{mode: server}'),
    'spec.gateway': at('DHCP option 3; static addresses of machines', '10.77.0.254'),
    'spec.dns': at('DHCP option 6; static addresses of machines', '[10.77.0.1]'),
    'spec.ntp': at('DHCP option 42', '[10.77.0.1]'),
    'spec.names': at(NAMES, '{zone: lab.example, server: 10.77.0.53}'),
    'spec.domain': at('DHCP option 15; fqdn of machines', 'lab.example'),
    'spec.mtu': at('DHCP option 26; interfaces of machines', '9000'),
    'spec.pxe': at('boot host: how it answers PXE firmware'),
    'spec.discovery': at('boot script of unknown machines', '{image: discovery}'),
    'spec.vendorClasses': at('DHCP options of machines with this vendor class'),
    'spec.trust': TRUST,
    'spec.tpm': TPM,
    'spec.bmc': at(BMC, '{credentials: {user: root, password: {valueFrom: {secret: bmc, key: password}}}}'),
  },
  Image: {
    ...META,
    spec: at('boot host: what machines of this image boot'),
    'spec.os': at('boot host: how the first configuration is written', 'debian'),
    'spec.version': at('pages and `muster get images`', '"13"'),
    'spec.arch': at('boot host: which machines may boot it', 'x86_64'),
    'spec.kernel': at('boot script', '{sha256: …}'),
    'spec.initrds': at('boot script', '[{sha256: …}]'),
    'spec.root': at('initrd, which mounts it', '{sha256: …}'),
    'spec.disk': at('the installDisk of machines with home: disk', '{sha256: …}'),
    'spec.pieces': at('the installing system, which checks what it fetches', '{sha256: …}'),
    'spec.configFormat': at('boot host: Ignition or cloud-init', 'cloud-init'),
    'spec.cloudInitVersion': at('boot host: how user-data and network-config are written', '"25.1.4"'),
    'spec.ignitionVersion': at('boot host: version of the Ignition config', '"3.4.0"'),
    'spec.kernelArguments': at('/proc/cmdline', '[console=ttyS0]'),
    'spec.programs': at('checks of Clusters', '[containerd]'),
    'spec.reports': at('boot host: which reports it waits for'),
  },
  Cluster: {
    ...META,
    spec: at('the machines of the cluster'),
    'spec.kubernetes': at('the machines of the cluster'),
    ...below('spec.kubernetes', KUBERNETES),
    'spec.trust': TRUST,
    'spec.tpm': TPM,
    'spec.dataDisk': DATA_DISK,
    'spec.etcdDisk': ETCD_DISK,
    'spec.bootDisk': BOOT_DISK,
    'spec.names': at(NAMES, '{zone: blue.example, server: 10.77.0.53}'),
    'spec.backup': at('boot host: snapshots of etcd', '{every: 6h, keep: 28}'),
    'spec.maintenance': at(
      'boot host: when machines reboot in a roll or change in an upgrade, and keys rotate by themselves',
      '{windows: [{days: [sat], time: "22:00", duration: 4h}]}',
    ),
    'spec.spares': at(
      'boot host: which machines take the place of a lost one, and when',
      '{selector: {labels: {role: spare}}, after: 15m}',
    ),
    'spec.hooks': at(
      'boot host: whom it asks before or after the turn of a machine',
      '[{name: ceph, when: before, url: "https://checks.lab.example/ceph", secret: {valueFrom: {secret: checks, key: signature}}}]',
    ),
  },
  Profile: {
    ...META,
    spec: at('the machines of the profile'),
    'spec.image': at('boot script', 'debian-13'),
    'spec.boot': at('boot host: what it answers a machine that boots', 'image'),
    'spec.home': at('boot host: what its machines boot, and from where', 'disk'),
    'spec.run': at('nowhere: it has no effect any more', 'ram'),
    'spec.kernelArguments': at('/proc/cmdline', '[console=ttyS0]'),
    'spec.selector': at('boot host: which machines have the profile', '{arch: x86_64}'),
    'spec.trust': TRUST,
    'spec.dataDisk': DATA_DISK,
    'spec.etcdDisk': ETCD_DISK,
    'spec.bootDisk': BOOT_DISK,
    'spec.installDisk': INSTALL_DISK,
    'spec.power': at(BMC, '{recover: {}}'),
    'spec.bmc': at(BMC, '{credentials: {user: muster, password: {valueFrom: {secret: bmc, key: password}}}}'),
  },
  Machine: {
    ...META,
    'metadata.name': at('/etc/hostname, the Node, the member of etcd, certificates', 'node-1.lab.example'),
    spec: at(HOST),
    'spec.macs': at('boot host: how it recognises the machine', '["52:54:00:aa:00:01"]'),
    'spec.uuid': at('boot host: how it recognises the machine'),
    'spec.serial': at('boot host: how it recognises the machine'),
    'spec.profile': at('boot script and first configuration', 'worker'),
    'spec.cluster': at('boot host: whose configuration the machine takes', 'blue'),
    'spec.pool': at('boot host: which operators may take the machine', 'spare'),
    'spec.addresses': at('DHCP; etcd, API server and kubelet of a cluster; certificates', '[10.77.0.10]'),
    'spec.pxe': at('boot host: how it answers PXE firmware'),
    'spec.dhcpOptions': at('DHCP options of the machine'),
    'spec.delivery': at('first configuration: the agent or all secrets', 'agent'),
    'spec.trust': TRUST,
    'spec.tpm': TPM,
    'spec.dataDisk': DATA_DISK,
    'spec.etcdDisk': ETCD_DISK,
    'spec.bootDisk': BOOT_DISK,
    'spec.installDisk': INSTALL_DISK,
    'spec.bmc': at(BMC, '{address: 10.78.0.10}'),
  },
  Webhook: {
    ...META,
    spec: at(HOST),
    'spec.url': at('boot host: where it sends events', 'https://alerts.lab.example/muster'),
    'spec.secret': at('boot host: how it signs events', '{valueFrom: {secret: alerts, key: signature}}'),
    'spec.events': at('boot host: which events it sends', '[machine.held, cluster.*]'),
  },
};

const WHOLE_CONFIG = at('the first configuration of machines', '{timezone: Europe/Berlin}');

interface Found {
  readonly place: Place;
  /** How many steps of the path the row has that was found. */
  readonly depth: number;
}

function find(kind: Kind, path: readonly string[]): Found | undefined {
  const steps = path.map((step) => step.replace(/\[[0-9]*\]$/, ''));
  const isConfig = steps[0] === 'spec' && steps[1] === 'config';
  if (isConfig && steps.length === 2) return { place: WHOLE_CONFIG, depth: 2 };
  const [table, first] = isConfig ? [CONFIG_PLACES, 2] : [PLACES[kind], 0];
  for (let depth = steps.length; depth > first; depth--) {
    const place = table[steps.slice(first, depth).join('.')];
    if (place) return { place, depth };
  }
  return undefined;
}

/**
 * The place of a field: its own, or that of the nearest field above it that has one, then without
 * an example. Items of a list have the place of the list.
 *
 * @param path The path in a document of that kind, with `[]` or without.
 */
export function placeOf(kind: Kind, path: readonly string[]): Place | undefined {
  const found = find(kind, path);
  if (found === undefined || found.depth === path.length) return found?.place;
  const { example: _, ...place } = found.place;
  return place;
}

/**
 * Whether a field has a place that says something: a row for it, or for a field above it that is
 * not just `spec`, `spec.kubernetes` or `spec.config`.
 */
export function isPlaced(kind: Kind, path: readonly string[]): boolean {
  const { depth } = find(kind, path) ?? { depth: 0 };
  const least = path[0] !== 'spec' ? 1 : path[1] === 'kubernetes' || path[1] === 'config' ? 3 : 2;
  return depth >= Math.min(least, path.length);
}

/** The default that a description names; undefined when it names none. */
export const defaultIn = (description: string | undefined): string | undefined =>
  /\bDefault:? ((?:[^.;]|\.(?=\S))+)/.exec(description ?? '')?.[1] ??
  /(\S+) \((?:the )?default\)/.exec(description ?? '')?.[1];
