/**
 * Every certificate that Muster issues, as one table: its contents, its CA, its lifetime, its path
 * and the machines that get it. Names, usages, paths and modes are kubeadm's; `deviations.ts` lists
 * the differences with their reasons.
 */
import type { Millis } from '../base/duration.ts';
import type { AuthorityName } from './keysets.ts';
import type { AlternativeNames, Purpose, SubjectName } from './x509.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/**
 * How long before its issue a certificate becomes valid, because clocks of fresh hardware are wrong
 * (kubeadm uses 5 minutes).
 */
export const BACK_DATED = DAY as Millis;
/**
 * The start of validity of certificates of Muster's own transport and of BMCs, so that a machine
 * whose clock has no battery can connect.
 */
export const TRANSPORT_BEGINS = Date.UTC(2000, 0, 1) as Millis;

export const PKI_DIRECTORY = '/etc/kubernetes/pki';
export const KUBERNETES_DIRECTORY = '/etc/kubernetes';
/** The kubeconfig of a kubelet that joins with a token (`spec.kubernetes.joining`). */
export const BOOTSTRAP_KUBECONFIG = `${KUBERNETES_DIRECTORY}/bootstrap-kubelet.conf`;
/** Files that only kube-apiserver reads: for encryption, audit and admission. */
export const APISERVER_DIRECTORY = `${KUBERNETES_DIRECTORY}/apiserver`;

/**
 * Roles of a certificate holder. A control plane with stacked etcd has both `control-plane` and
 * `etcd`.
 */
export type Role = 'control-plane' | 'etcd' | 'worker' | 'boot-host' | 'operator';

export interface Authority {
  readonly commonName: string;
  readonly lifetime: Millis;
  readonly begins: 'back-dated' | 'transport';
  /**
   * kubeadm's files of the signing pair, on machines that have all of these roles: exactly one
   * certificate, because kube-controller-manager takes no more. Absent: machines get neither.
   */
  readonly pair?: {
    readonly cert: string;
    readonly key: string;
    readonly roles: readonly Role[];
    /**
     * The machines get the key, because a program of Kubernetes signs with it. Otherwise only the
     * boot host has it, and a machine removes a file of kubeadm with it.
     */
    readonly signsThere: boolean;
  };
  /**
   * How many CAs may follow below this one (RFC 5280, 4.2.1.9), and the certificate has no
   * alternative name. Absent: any number, and its common name is also its DNS name, as kubeadm
   * makes CAs. A bridge to the next generation needs room for one.
   */
  readonly pathLength?: number;
  /** File with every trusted generation, on machines that have any of these roles. */
  readonly bundle: { readonly path: string; readonly roles: readonly Role[] };
}

const TEN_YEARS = (3650 * DAY) as Millis;
const ONE_YEAR = (365 * DAY) as Millis;
/** Agents renew their certificates at half of this, see src/agent/identity/renewal.ts. */
export const AGENT_LIFETIME = (30 * DAY) as Millis;
/** Probes are made while a rotation looks for evidence, and again when they end. */
const PROBE_LIFETIME = (4 * HOUR) as Millis;

export const AUTHORITIES: Readonly<Record<AuthorityName, Authority>> = {
  ca: {
    commonName: 'kubernetes',
    lifetime: TEN_YEARS,
    begins: 'back-dated',
    pair: {
      cert: `${PKI_DIRECTORY}/ca.crt`,
      key: `${PKI_DIRECTORY}/ca.key`,
      roles: ['control-plane'],
      // kube-controller-manager signs kubelets' certificates and what the CSR API approves.
      signsThere: true,
    },
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
      signsThere: false,
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
      signsThere: false,
    },
    bundle: { path: `${PKI_DIRECTORY}/front-proxy-ca-bundle.crt`, roles: ['control-plane'] },
  },
  'transport-ca': {
    commonName: 'muster-transport',
    lifetime: TEN_YEARS,
    begins: 'transport',
    pathLength: 1,
    bundle: { path: '/etc/muster/ca.crt', roles: ['control-plane', 'etcd', 'worker'] },
  },
  /**
   * Apart from the transport CA, because whoever may write where a BMC is gets a certificate for
   * that: with the transport CA it could be one of the boot host.
   */
  'bmc-ca': {
    commonName: 'muster-bmcs',
    lifetime: TEN_YEARS,
    begins: 'transport',
    pathLength: 1,
    bundle: { path: '/etc/muster/bmc-ca.crt', roles: [] },
  },
};

/**
 * The files of the service-account key: the signing pair under kubeadm's names, and one file with
 * all verifying keys.
 */
export const SERVICE_ACCOUNT = {
  key: `${PKI_DIRECTORY}/sa.key`,
  publicKey: `${PKI_DIRECTORY}/sa.pub`,
  verifiers: `${PKI_DIRECTORY}/sa-verifiers.pub`,
  roles: ['control-plane'] as readonly Role[],
} as const;

/** The parts of the names in a cluster's certificates. */
export interface ClusterNames {
  readonly name: string;
  readonly dnsDomain: string;
  /** The first address of every service network, which the Service `kubernetes` has. */
  readonly serviceAddresses: readonly string[];
  /** Host of the endpoint, virtual addresses and all other names under which the API is reached. */
  readonly endpointNames: AlternativeNames;
}

/** The machine, boot host or user that a leaf is for. */
export interface Holder {
  readonly name: string;
  readonly addresses: readonly string[];
  /** Additional DNS names, for Muster's own server. */
  readonly dns?: readonly string[];
}

/** How a leaf is stored on the machine. */
export type Delivery =
  | { readonly form: 'pair'; readonly cert: string; readonly key: string }
  /**
   * Certificate and key in one file, and a link to it. kubelet points the link to another file when
   * it rotates; with a file instead of a link it would stop at its first rotation (client-go,
   * certificate_store.go).
   */
  | { readonly form: 'combined'; readonly path: string; readonly link: string; readonly kubeconfig: string }
  /** Everything embedded, as kubeadm does it. */
  | { readonly form: 'kubeconfig'; readonly path: string; readonly server: 'endpoint' | 'local' }
  /**
   * A kubeconfig that names the files `authority` (trust) and `pair` (certificate and key in one
   * file, so that they change as one): its program reads them again by itself. `embedded` is the
   * same with everything embedded, at kubeadm's path, because kubeadm reads no other.
   */
  | {
      readonly form: 'kubeconfig-files';
      readonly path: string;
      readonly authority: string;
      readonly pair: string;
      readonly embedded: string;
    }
  /** Certificate and key in one file. */
  | { readonly form: 'one-file'; readonly path: string }
  | { readonly form: 'none' };

interface Leaf {
  readonly parent: AuthorityName;
  readonly subject: (holder: Holder) => SubjectName;
  readonly purposes: readonly Purpose[];
  readonly sans: (holder: Holder, cluster: ClusterNames) => AlternativeNames;
  readonly lifetime: Millis;
  readonly begins: 'back-dated' | 'transport';
  readonly delivery: Delivery;
  readonly roles: readonly Role[];
  /**
   * Shows whether a listener accepts the generation that signed it: any generation signs it on
   * request, and no bridge is sent behind it. No machine gets it for its roles.
   */
  readonly probe?: true;
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
 * A component's kubeconfig in a directory of its own: a pod that mounted the file itself would not
 * see its replacement.
 */
const componentKubeconfig = <N extends string>(name: N) =>
  ({
    form: 'kubeconfig-files',
    path: `${KUBERNETES_DIRECTORY}/${name}/${name}.conf`,
    authority: `${KUBERNETES_DIRECTORY}/${name}/ca-bundle.crt`,
    pair: `${KUBERNETES_DIRECTORY}/${name}/client.pem`,
    embedded: `${KUBERNETES_DIRECTORY}/${name}.conf`,
  }) as const satisfies Delivery;

/** Kubeconfigs of the components that run beside the API server. */
export const COMPONENT_KUBECONFIGS = {
  'controller-manager': componentKubeconfig('controller-manager'),
  scheduler: componentKubeconfig('scheduler'),
} as const;

const etcdMember = (stem: string): Leaf => ({
  parent: 'etcd-ca',
  subject: ({ name }) => ({ commonName: name }),
  // A member's JSON gateway uses its server certificate as a client, too.
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

/** A client that is identified by its subject alone. */
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

const probe = (parent: AuthorityName, subject: Leaf['subject']) =>
  ({ ...client(parent, subject, { form: 'none' }, [], PROBE_LIFETIME), probe: true }) as const;

/** kubelet's `tlsCertFile` and `tlsPrivateKeyFile`. */
export const KUBELET_SERVING = {
  form: 'pair',
  cert: '/var/lib/kubelet/pki/kubelet-serving-muster.crt',
  key: '/var/lib/kubelet/pki/kubelet-serving-muster.key',
} as const satisfies Delivery;

/** kubelet's client certificate, and the kubeconfig by which kubelet finds it. */
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
    COMPONENT_KUBECONFIGS['controller-manager'],
    ['control-plane'],
  ),
  scheduler: client('ca', named('system:kube-scheduler'), COMPONENT_KUBECONFIGS.scheduler, ['control-plane']),
  kubelet: client('ca', kubeletSubject, KUBELET_CLIENT, ['control-plane', 'worker']),
  /**
   * Asks API servers for their health where they refuse anonymous requests. It has no group, and
   * Kubernetes lets everybody who is authenticated ask for health and version, and nothing else.
   */
  health: {
    ...client('ca', named('muster-health'), { form: 'none' }, ['control-plane', 'worker']),
    delivery: { form: 'one-file', path: '/etc/muster/health.pem' },
  },
  /** The subject that Kubernetes' own signer requires of kubelet's serving certificate. */
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
   * Applies the in-cluster objects. It has all rights, because no binding exists yet that would
   * allow a user with fewer rights to apply them.
   */
  applier: client(
    'ca',
    named('muster-applier', 'system:masters'),
    { form: 'kubeconfig', path: '/run/muster/applier.conf', server: 'local' },
    ['control-plane'],
    HOUR as Millis,
  ),
  /** `muster kubeconfig`: for a user, for a working day. */
  person: client(
    'ca',
    ({ name }) => ({ commonName: name, organizations: ['kubeadm:cluster-admins'] }),
    { form: 'none' },
    ['operator'],
    (12 * HOUR) as Millis,
  ),
  /** `muster cluster etcd-client`: for a user who inspects, copies or repairs etcd. */
  'etcd-person': client(
    'etcd-ca',
    ({ name }) => ({ commonName: name }),
    { form: 'none' },
    ['operator'],
    (12 * HOUR) as Millis,
  ),
  /** The boot host, when it reads a cluster's API, drains a node or removes one. */
  'muster-admin': client(
    'ca',
    named('muster', 'kubeadm:cluster-admins'),
    { form: 'none' },
    ['boot-host'],
    HOUR as Millis,
  ),
  /** The boot host, when it changes etcd's membership. */
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
  /** The BMC of a machine, which makes its own key; its clock may be wrong. */
  bmc: {
    parent: 'bmc-ca',
    subject: ({ name }) => ({ commonName: name }),
    purposes: ['serverAuth'],
    sans: ({ addresses, dns }) => ({ dns: distinct(dns ?? []), ips: distinct(addresses) }),
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
      AGENT_LIFETIME,
    ),
    begins: 'transport',
  },
  /** No binding names this user: listeners of Kubernetes that accept it answer 403, others 401. */
  probe: probe('ca', named('muster-probe')),
  /** Only for members of etcd and control planes: etcd does whatever its CA's clients ask. */
  'etcd-probe': probe('etcd-ca', named('muster-probe')),
  /** Only for control planes: API servers believe the user's name that this client sends. */
  'front-proxy-probe': probe('front-proxy-ca', named('front-proxy-client')),
} as const satisfies Readonly<Record<string, Leaf>>;

export type LeafName = keyof typeof LEAVES;
export const LEAF_NAMES = Object.keys(LEAVES) as readonly LeafName[];

export const leafOf = (name: LeafName): Leaf => LEAVES[name];

const MACHINE_ROLES: readonly Role[] = ['control-plane', 'etcd', 'worker'];

/** Whether the leaf shows which generations a listener accepts. */
export const isProbe = (name: LeafName): boolean => leafOf(name).probe === true;

/** Whether machines request this leaf. */
export const isOfMachines = (name: LeafName): boolean =>
  isProbe(name) || leafOf(name).roles.some((role) => MACHINE_ROLES.includes(role));

/** The leaves of machines with these roles. */
export const leavesFor = (roles: readonly Role[]): readonly LeafName[] =>
  LEAF_NAMES.filter((name) => leafOf(name).roles.some((role) => roles.includes(role)));

/**
 * How long a leaf is good for where an operator or a test wishes `wanted`: leaves that live for a
 * year take it, the others only if it is shorter.
 */
export function lifetimeOf(name: LeafName, wanted: Millis | undefined): Millis {
  const { lifetime } = leafOf(name);
  if (wanted === undefined) return lifetime;
  return lifetime === ONE_YEAR || wanted < lifetime ? wanted : lifetime;
}

/** File modes by content, as kubeadm sets them. */
export const MODES = { certificate: 0o644, key: 0o600, kubeconfig: 0o600, publicKey: 0o600 } as const;
