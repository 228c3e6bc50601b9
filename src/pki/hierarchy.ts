/**
 * Every certificate that Muster issues, as one table: what it says, who signs it, how long it
 * lasts, where it lies and who gets it. Names, usages, paths and modes are kubeadm's; what differs
 * is listed with its reason in `deviations.ts`.
 */
import type { Millis } from '../base/duration.ts';
import type { AlternativeNames, Purpose, SubjectName } from './x509.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/**
 * Validity begins this long before issuing: fresh hardware's clocks are wrong (kubeadm has 5
 * minutes).
 */
export const BACK_DATED = DAY as Millis;
/**
 * From here Muster's own transport certificates are valid, so that a machine without a battery can
 * speak to it at all.
 */
export const TRANSPORT_BEGINS = Date.UTC(2000, 0, 1) as Millis;

export const PKI_DIRECTORY = '/etc/kubernetes/pki';
export const KUBERNETES_DIRECTORY = '/etc/kubernetes';
/** What a kubelet joins by that has a token (`spec.kubernetes.joining`). */
export const BOOTSTRAP_KUBECONFIG = `${KUBERNETES_DIRECTORY}/bootstrap-kubelet.conf`;
/** What only kube-apiserver reads: how it encrypts, what it records, what it admits. */
export const APISERVER_DIRECTORY = `${KUBERNETES_DIRECTORY}/apiserver`;

/** CAs of a cluster, and the one of Muster itself. */
export const AUTHORITY_NAMES = ['ca', 'etcd-ca', 'front-proxy-ca', 'transport-ca'] as const;
export type AuthorityName = (typeof AUTHORITY_NAMES)[number];
/** Keysets: the CAs, and the key that signs service-account tokens. */
export type KeysetName = AuthorityName | 'sa';
/** Those that every cluster has of its own. */
export const CLUSTER_KEYSETS = [
  'ca',
  'etcd-ca',
  'front-proxy-ca',
  'sa',
] as const satisfies readonly KeysetName[];
/** Those of Muster: one for all clusters. */
export const MUSTER_KEYSETS = ['transport-ca'] as const satisfies readonly KeysetName[];

/** What a holder is. A control plane with stacked etcd is both of the first two. */
export type Role = 'control-plane' | 'etcd' | 'worker' | 'boot-host' | 'operator';

export interface Authority {
  readonly commonName: string;
  readonly lifetime: Millis;
  readonly begins: 'back-dated' | 'transport';
  /**
   * Signing pair: exactly one certificate, since kube-controller-manager takes no more. For
   * machines that have all of these roles. Absent: it never leaves the boot host.
   */
  readonly pair?: { readonly cert: string; readonly key: string; readonly roles: readonly Role[] };
  /** Trust: every trusted generation. For machines that have any of these roles. */
  readonly bundle: { readonly path: string; readonly roles: readonly Role[] };
}

const TEN_YEARS = (3650 * DAY) as Millis;
const ONE_YEAR = (365 * DAY) as Millis;

export const AUTHORITIES: Readonly<Record<AuthorityName, Authority>> = {
  ca: {
    commonName: 'kubernetes',
    lifetime: TEN_YEARS,
    begins: 'back-dated',
    pair: { cert: `${PKI_DIRECTORY}/ca.crt`, key: `${PKI_DIRECTORY}/ca.key`, roles: ['control-plane'] },
    bundle: { path: `${PKI_DIRECTORY}/ca-bundle.crt`, roles: ['control-plane', 'worker'] },
  },
  'etcd-ca': {
    commonName: 'etcd-ca',
    lifetime: TEN_YEARS,
    begins: 'back-dated',
    pair: {
      cert: `${PKI_DIRECTORY}/etcd/ca.crt`,
      key: `${PKI_DIRECTORY}/etcd/ca.key`,
      roles: ['control-plane', 'etcd'],
    },
    bundle: { path: `${PKI_DIRECTORY}/etcd/ca-bundle.crt`, roles: ['control-plane', 'etcd'] },
  },
  'front-proxy-ca': {
    commonName: 'front-proxy-ca',
    lifetime: TEN_YEARS,
    begins: 'back-dated',
    pair: {
      cert: `${PKI_DIRECTORY}/front-proxy-ca.crt`,
      key: `${PKI_DIRECTORY}/front-proxy-ca.key`,
      roles: ['control-plane'],
    },
    bundle: { path: `${PKI_DIRECTORY}/front-proxy-ca-bundle.crt`, roles: ['control-plane'] },
  },
  'transport-ca': {
    commonName: 'muster-transport',
    lifetime: TEN_YEARS,
    begins: 'transport',
    bundle: { path: '/etc/muster/ca.crt', roles: ['control-plane', 'etcd', 'worker'] },
  },
};

/**
 * The service-account key's files: the signing pair under kubeadm's names, and every verifier in
 * one file.
 */
export const SERVICE_ACCOUNT = {
  key: `${PKI_DIRECTORY}/sa.key`,
  publicKey: `${PKI_DIRECTORY}/sa.pub`,
  verifiers: `${PKI_DIRECTORY}/sa-verifiers.pub`,
  roles: ['control-plane'] as readonly Role[],
} as const;

/** What the names of a cluster's certificates are made of. */
export interface ClusterNames {
  readonly name: string;
  readonly dnsDomain: string;
  /** The first address of every service network: that of the Service `kubernetes`. */
  readonly serviceAddresses: readonly string[];
  /** Host of the endpoint, virtual addresses and whatever else people reach the API by. */
  readonly endpointNames: AlternativeNames;
}

/** The machine (or boot host, or person) that a leaf is for. */
export interface Holder {
  readonly name: string;
  readonly addresses: readonly string[];
  /** Further DNS names of Muster's own server. */
  readonly dns?: readonly string[];
}

/** Where a leaf lies on the machine. */
export type Delivery =
  | { readonly form: 'pair'; readonly cert: string; readonly key: string }
  /**
   * Certificate and key in one file, and the link to it that kubelet turns to another file when it
   * rotates: it stops at the first rotation when there is a file instead of a link (client-go,
   * certificate_store.go).
   */
  | { readonly form: 'combined'; readonly path: string; readonly link: string; readonly kubeconfig: string }
  /** `alias`: kubeadm's path, a symbolic link to it. */
  | {
      readonly form: 'kubeconfig';
      readonly path: string;
      readonly alias?: string;
      readonly server: 'endpoint' | 'local';
    }
  | { readonly form: 'none' };

export interface Leaf {
  readonly parent: AuthorityName;
  readonly subject: (holder: Holder) => SubjectName;
  readonly purposes: readonly Purpose[];
  readonly sans: (holder: Holder, cluster: ClusterNames) => AlternativeNames;
  readonly lifetime: Millis;
  readonly begins: 'back-dated' | 'transport';
  readonly delivery: Delivery;
  readonly roles: readonly Role[];
}

const NO_NAMES: AlternativeNames = { dns: [], ips: [] };
const noNames = (): AlternativeNames => NO_NAMES;
const named =
  (commonName: string, ...organizations: string[]) =>
  (): SubjectName =>
    organizations.length > 0 ? { commonName, organizations } : { commonName };
const distinct = (values: readonly string[]): readonly string[] => [...new Set(values)];

const pair = (stem: string): Delivery => ({
  form: 'pair',
  cert: `${PKI_DIRECTORY}/${stem}.crt`,
  key: `${PKI_DIRECTORY}/${stem}.key`,
});

/**
 * A component's kubeconfig in a directory of its own: mounted as a file, a pod would not see it
 * replaced.
 */
const componentKubeconfig = (name: string): Delivery => ({
  form: 'kubeconfig',
  path: `${KUBERNETES_DIRECTORY}/${name}/${name}.conf`,
  alias: `${KUBERNETES_DIRECTORY}/${name}.conf`,
  server: 'local',
});

const etcdMember = (stem: string): Leaf => ({
  parent: 'etcd-ca',
  subject: ({ name }) => ({ commonName: name }),
  // A member's server certificate is a client's as well: its own JSON gateway dials with it.
  purposes: ['serverAuth', 'clientAuth'],
  sans: ({ name, addresses }) => ({
    dns: distinct([name, 'localhost']),
    ips: distinct([...addresses, '127.0.0.1', '::1']),
  }),
  lifetime: ONE_YEAR,
  begins: 'back-dated',
  delivery: pair(stem),
  roles: ['etcd'],
});

/** A client that is known by its subject alone. */
const client = (
  parent: AuthorityName,
  subject: Leaf['subject'],
  delivery: Delivery,
  roles: readonly Role[],
  lifetime: Millis = ONE_YEAR,
): Leaf => ({
  parent,
  subject,
  purposes: ['clientAuth'],
  sans: noNames,
  lifetime,
  begins: 'back-dated',
  delivery,
  roles,
});

/** kubelet's `tlsCertFile` and `tlsPrivateKeyFile`. */
export const KUBELET_SERVING = {
  form: 'pair',
  cert: '/var/lib/kubelet/pki/kubelet-serving-muster.crt',
  key: '/var/lib/kubelet/pki/kubelet-serving-muster.key',
} as const satisfies Delivery;

/** kubelet's client certificate, and how it finds it. */
export const KUBELET_CLIENT = {
  form: 'combined',
  path: '/var/lib/kubelet/pki/kubelet-client-muster.pem',
  link: '/var/lib/kubelet/pki/kubelet-client-current.pem',
  kubeconfig: `${KUBERNETES_DIRECTORY}/kubelet.conf`,
} as const satisfies Delivery;
const kubeletSubject = ({ name }: Holder): SubjectName => ({
  commonName: `system:node:${name}`,
  organizations: ['system:nodes'],
});

export const LEAVES = {
  apiserver: {
    parent: 'ca',
    subject: named('kube-apiserver'),
    purposes: ['serverAuth'],
    sans: ({ name, addresses }, cluster) => ({
      dns: distinct([
        name,
        'kubernetes',
        'kubernetes.default',
        'kubernetes.default.svc',
        `kubernetes.default.svc.${cluster.dnsDomain}`,
        'localhost',
        ...cluster.endpointNames.dns,
      ]),
      ips: distinct([
        ...cluster.serviceAddresses,
        ...addresses,
        '127.0.0.1',
        '::1',
        ...cluster.endpointNames.ips,
      ]),
    }),
    lifetime: ONE_YEAR,
    begins: 'back-dated',
    delivery: pair('apiserver'),
    roles: ['control-plane'],
  },
  'apiserver-kubelet-client': client(
    'ca',
    named('kube-apiserver-kubelet-client'),
    pair('apiserver-kubelet-client'),
    ['control-plane'],
  ),
  'front-proxy-client': client('front-proxy-ca', named('front-proxy-client'), pair('front-proxy-client'), [
    'control-plane',
  ]),
  'apiserver-etcd-client': client(
    'etcd-ca',
    named('kube-apiserver-etcd-client'),
    pair('apiserver-etcd-client'),
    ['control-plane'],
  ),
  'etcd-server': etcdMember('etcd/server'),
  'etcd-peer': etcdMember('etcd/peer'),
  'etcd-healthcheck-client': client(
    'etcd-ca',
    named('kube-etcd-healthcheck-client'),
    pair('etcd/healthcheck-client'),
    ['etcd'],
  ),
  admin: client(
    'ca',
    named('kubernetes-admin', 'kubeadm:cluster-admins'),
    { form: 'kubeconfig', path: `${KUBERNETES_DIRECTORY}/admin.conf`, server: 'endpoint' },
    ['control-plane'],
  ),
  'super-admin': client(
    'ca',
    named('kubernetes-super-admin', 'system:masters'),
    { form: 'kubeconfig', path: `${KUBERNETES_DIRECTORY}/super-admin.conf`, server: 'endpoint' },
    ['operator'],
  ),
  'controller-manager': client(
    'ca',
    named('system:kube-controller-manager'),
    componentKubeconfig('controller-manager'),
    ['control-plane'],
  ),
  scheduler: client('ca', named('system:kube-scheduler'), componentKubeconfig('scheduler'), [
    'control-plane',
  ]),
  kubelet: client('ca', kubeletSubject, KUBELET_CLIENT, ['control-plane', 'worker']),
  /** The subject is what the in-tree signer asks of a serving certificate of kubelet. */
  'kubelet-serving': {
    parent: 'ca',
    subject: kubeletSubject,
    purposes: ['serverAuth'],
    sans: ({ name, addresses }) => ({ dns: [name], ips: distinct(addresses) }),
    lifetime: ONE_YEAR,
    begins: 'back-dated',
    delivery: KUBELET_SERVING,
    roles: ['control-plane', 'worker'],
  },
  /**
   * Puts the in-cluster objects in place, before any binding exists that would give a lesser user
   * the right to.
   */
  applier: client(
    'ca',
    named('muster-applier', 'system:masters'),
    { form: 'kubeconfig', path: '/run/muster/applier.conf', server: 'local' },
    ['control-plane'],
    HOUR as Millis,
  ),
  /** `muster kubeconfig`: for a person, for a working day. */
  person: client(
    'ca',
    ({ name }) => ({ commonName: name, organizations: ['kubeadm:cluster-admins'] }),
    { form: 'none' },
    ['operator'],
    (12 * HOUR) as Millis,
  ),
  /** `muster cluster etcd-client`: for a person who looks into etcd, copies it or repairs it. */
  'etcd-person': client(
    'etcd-ca',
    ({ name }) => ({ commonName: name }),
    { form: 'none' },
    ['operator'],
    (12 * HOUR) as Millis,
  ),
  /** The boot host where it looks at a cluster's API, drains a node or takes one away. */
  'muster-admin': client(
    'ca',
    named('muster', 'kubeadm:cluster-admins'),
    { form: 'none' },
    ['boot-host'],
    HOUR as Millis,
  ),
  /** The boot host as the one that changes etcd's membership. */
  'muster-etcd-client': client(
    'etcd-ca',
    named('muster'),
    { form: 'none' },
    ['boot-host'],
    (30 * DAY) as Millis,
  ),
  'muster-server': {
    parent: 'transport-ca',
    subject: ({ name }) => ({ commonName: name }),
    purposes: ['serverAuth'],
    sans: ({ name, addresses, dns }) => ({ dns: distinct([name, ...(dns ?? [])]), ips: distinct(addresses) }),
    lifetime: ONE_YEAR,
    begins: 'transport',
    delivery: { form: 'none' },
    roles: ['boot-host'],
  },
  agent: {
    ...client(
      'transport-ca',
      ({ name }) => ({ commonName: name, organizations: ['muster:agents'] }),
      { form: 'pair', cert: '/var/lib/muster/agent.crt', key: '/var/lib/muster/agent.key' },
      ['control-plane', 'etcd', 'worker'],
    ),
    begins: 'transport',
  },
} as const satisfies Readonly<Record<string, Leaf>>;

export type LeafName = keyof typeof LEAVES;
export const LEAF_NAMES = Object.keys(LEAVES) as readonly LeafName[];

export const leafOf = (name: LeafName): Leaf => LEAVES[name];

/** The leaves that machines of these roles hold. */
export const leavesFor = (roles: readonly Role[]): readonly LeafName[] =>
  LEAF_NAMES.filter((name) => leafOf(name).roles.some((role) => roles.includes(role)));

/** Modes of files by what they hold: kubeadm's. */
export const MODES = { certificate: 0o644, key: 0o600, kubeconfig: 0o600, publicKey: 0o600 } as const;
