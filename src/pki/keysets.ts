/**
 * Every set of keys that rotates, as one table: those of each cluster and Muster's own. Lists of
 * these names elsewhere are filters of the table; test/audit/keysets.test.ts names the few other
 * places where several of them may stand. Pure.
 */

/** A step of a rotation that restarts programs. */
export type Restarting = 'trust' | 'issue' | 'distrust';

export interface KeysetRow {
  /** Whether each cluster has such keys, Muster itself, or all BMCs together. */
  readonly scope: 'cluster' | 'muster' | 'bmcs';
  /** A CA, a key pair without a certificate, or a symmetric secret. */
  readonly is: 'ca' | 'pair' | 'secret';
  /** What the keys are for. */
  readonly about: string;
  /**
   * Programs trust this CA only from their start on, so a bridge from the old generation to the new
   * one saves a restart.
   */
  readonly bridged?: true;
  /** The leaf with which a machine finds out which generations of the CA its listeners accept. */
  readonly probedBy?: string;
  /** An operator may bring a CA of their own (`muster pki import`). */
  readonly imported?: true;
  /** kubeadm's files of the keys, without their endings; absent: they cannot be taken over. */
  readonly adoptedFrom?: string;
  /** API servers accept clients by it: the end of the old keys is searched for and rehearsed. */
  readonly ofClients?: true;
  /** The key under which API servers publish the CA, for aggregated API servers. */
  readonly publishedAs?: string;
  /** The programs that restart in a step of a rotation. */
  readonly restarts?: Readonly<Partial<Record<Restarting, readonly string[]>>>;
  /** What breaks when the old keys end at once; absent: they cannot. */
  readonly breaks?: string;
}

export const KEYSETS = {
  ca: {
    scope: 'cluster',
    is: 'ca',
    about: 'the CA of Kubernetes: API servers, kubelets, administrators',
    probedBy: 'probe',
    imported: true,
    adoptedFrom: 'ca',
    ofClients: true,
    publishedAs: 'client-ca-file',
    restarts: {
      trust: ['kubelet', 'kube-controller-manager'],
      issue: ['kubelet'],
      distrust: ['kubelet', 'kube-controller-manager'],
    },
    breaks:
      'kubelets, controller managers and schedulers until they have restarted with new certificates; pods until they have read the new CA; every kubeconfig of a user, for good',
  },
  'etcd-ca': {
    scope: 'cluster',
    is: 'ca',
    about: 'the CA of etcd',
    bridged: true,
    probedBy: 'etcd-probe',
    imported: true,
    adoptedFrom: 'etcd/ca',
    restarts: { distrust: ['etcd', 'kube-apiserver'] },
    breaks: 'clients of etcd that have no new certificate; members restart one after the other',
  },
  'front-proxy-ca': {
    scope: 'cluster',
    is: 'ca',
    about: 'the CA of extension API servers',
    bridged: true,
    probedBy: 'front-proxy-probe',
    imported: true,
    adoptedFrom: 'front-proxy-ca',
    ofClients: true,
    publishedAs: 'requestheader-client-ca-file',
    restarts: { distrust: ['kube-controller-manager'] },
    breaks: 'aggregated APIs for a moment',
  },
  sa: {
    scope: 'cluster',
    is: 'pair',
    about: 'signs tokens of service accounts',
    adoptedFrom: 'sa',
    ofClients: true,
    restarts: {
      trust: ['kube-apiserver'],
      issue: ['kube-apiserver', 'kube-controller-manager'],
      distrust: ['kube-apiserver'],
    },
    breaks: 'every token of a pod, until its kubelet has renewed it; tokens in Secrets, for good',
  },
  encryption: { scope: 'cluster', is: 'secret', about: 'encrypts Secrets in etcd' },
  'transport-ca': {
    scope: 'muster',
    is: 'ca',
    about: 'the CA by which agents and the boot host trust each other',
    breaks:
      'agents that do not report within 45 seconds, until their machines boot; `muster login` everywhere',
  },
  'ticket-secret': {
    scope: 'muster',
    is: 'secret',
    about: 'makes the tickets with which machines ask for their first certificate',
    breaks: 'machines that boot at this moment, until they boot again',
  },
  'bmc-ca': {
    scope: 'bmcs',
    is: 'ca',
    about: 'the CA that signs certificates of BMCs (`bmc.managedCertificate`)',
  },
} as const satisfies Readonly<Record<string, KeysetRow>>;

type Rows = typeof KEYSETS;

/** The name of everything that rotates. */
export type RotatedName = keyof Rows;

/** The names whose rows have these values. */
type Names<Has> = { [N in RotatedName]: Rows[N] extends Has ? N : never }[RotatedName];

const ROTATED_NAMES = Object.keys(KEYSETS) as readonly RotatedName[];

/** A row, with the columns that only some rows have. */
export const keysetRow = (name: RotatedName): KeysetRow => KEYSETS[name];

const namesWhere = <Has = unknown>(fits: (row: KeysetRow) => boolean): readonly Names<Has>[] =>
  ROTATED_NAMES.filter((name): name is Names<Has> => fits(keysetRow(name)));

/** The CAs of a cluster, and Muster's own transport CA. */
export type AuthorityName = Names<{ is: 'ca' }>;
export const AUTHORITY_NAMES = namesWhere<{ is: 'ca' }>(({ is }) => is === 'ca');

/** Keysets: the CAs, and the key that signs service-account tokens. */
export type KeysetName = AuthorityName | Names<{ is: 'pair' }>;
export const KEYSET_NAMES: readonly KeysetName[] = namesWhere<{ is: 'ca' | 'pair' }>(
  ({ is }) => is !== 'secret',
);

/** Whether a keyset is a CA, whose generations have certificates. */
export const isAuthority = (name: RotatedName): name is AuthorityName => keysetRow(name).is === 'ca';

/** The keysets of every cluster. */
export const CLUSTER_KEYSETS = KEYSET_NAMES.filter((name) => keysetRow(name).scope === 'cluster');
/** Muster's own keysets, for all clusters. */
export const MUSTER_KEYSETS = KEYSET_NAMES.filter((name) => keysetRow(name).scope === 'muster');

/** The keysets of all BMCs together. */
export const BMC_KEYSETS = KEYSET_NAMES.filter((name) => keysetRow(name).scope === 'bmcs');

/** What can be rotated of a cluster. */
export type Rotated = Names<{ scope: 'cluster' }>;
export const ROTATED = namesWhere<{ scope: 'cluster' }>(({ scope }) => scope === 'cluster');
/** Muster's own keys that can be rotated. */
export type OwnRotated = Names<{ scope: 'muster' }>;
export const OWN_ROTATED = namesWhere<{ scope: 'muster' }>(({ scope }) => scope === 'muster');

/** The CAs of which a machine has probe certificates. */
export type ProbedKeyset = Names<{ probedBy: string }>;
export const PROBED_KEYSETS = namesWhere<{ probedBy: string }>(({ probedBy }) => probedBy !== undefined);

/** The CAs of a cluster that an operator may bring. */
export const IMPORTED_KEYSETS = namesWhere<{ imported: true }>(({ imported }) => imported === true);

/** Under which keys API servers publish CAs. */
export type PublishedAs = Rows[Names<{ publishedAs: string }>]['publishedAs'];

/** The keysets of a cluster that another tool made. */
export type AdoptedKeyset = Names<{ adoptedFrom: string }>;
export const ADOPTED = namesWhere<{ adoptedFrom: string }>(({ adoptedFrom }) => adoptedFrom !== undefined);

/** The names of a scope whose old keys can end at once. */
export const breakable = (scope: KeysetRow['scope']): readonly RotatedName[] =>
  namesWhere(({ breaks, ...row }) => row.scope === scope && breaks !== undefined);

/** What breaks when the old keys of a name that an operator wrote end at once. */
export const breaksOf = (name: string): string | undefined =>
  (KEYSETS as Readonly<Record<string, KeysetRow | undefined>>)[name]?.breaks;
