/**
 * The key layout of the store: each kind of record with its key, the room that owns it and what it
 * holds. All keys are built and parsed here; a test finds code that builds one by hand.
 *
 * Upper-case segments of a pattern are parameters. The value of a parameter contains no `/`, except
 * when its name ends in `…`. Every record is JSON with a number `v`: the version of its shape.
 */

/** The keys of one kind of record. `P` has one string for each parameter of the pattern. */
export interface Keys<P extends readonly string[] = readonly string[]> {
  /** For example `lease/NETWORK/ADDRESS`. */
  readonly pattern: string;
  /** The room whose code reads and writes these records. */
  readonly room: string;
  /** What a record holds. */
  readonly holds: string;
  /** The key of one record. */
  key(...parts: P): string;
  /**
   * The common beginning of all keys whose first parameters have these values, with the `/` at its
   * end; for `Store.list` and `Store.watch`.
   */
  prefix(...parts: FirstOf<P>): string;
  /** The parameters' values; undefined when the key belongs to another kind of record. */
  parse(key: string): P | undefined;
}

/** The first values of a tuple: none or some, but not all of them. */
type FirstOf<P extends readonly string[]> = P extends readonly [...infer Head extends string[], string]
  ? Head | FirstOf<Head>
  : [];

type ParametersOf<Pattern extends string> = Pattern extends `${infer Segment}/${infer Rest}`
  ? [...ParameterIn<Segment>, ...ParametersOf<Rest>]
  : ParameterIn<Pattern>;
type ParameterIn<Segment extends string> = Segment extends Uppercase<Segment> ? [string] : [];

const isParameter = (segment: string): boolean => segment === segment.toUpperCase();

function keys<const Pattern extends string>(
  pattern: Pattern,
  { room, holds }: { readonly room: string; readonly holds: string },
): Keys<ParametersOf<Pattern>> {
  const segments = pattern.split('/');
  const open = pattern.endsWith('…');

  const filled = (...parts: readonly string[]): string => {
    const built: string[] = [];
    let used = 0;
    for (const segment of segments) {
      if (!isParameter(segment)) built.push(segment);
      else if (used < parts.length) built.push(parts[used++]!);
      else return `${built.join('/')}/`;
    }
    return built.join('/');
  };

  const parse = (key: string): ParametersOf<Pattern> | undefined => {
    const given = key.split('/');
    if (open) given.push(given.splice(segments.length - 1).join('/'));
    if (given.length !== segments.length) return undefined;
    const parts: string[] = [];
    for (const [n, segment] of segments.entries()) {
      if (isParameter(segment)) parts.push(given[n]!);
      else if (segment !== given[n]) return undefined;
    }
    return parts.every((part) => part !== '') ? (parts as ParametersOf<Pattern>) : undefined;
  };

  return { pattern, room, holds, key: filled, prefix: filled, parse };
}

/** Scope of the PKI records that belong to no cluster. No cluster can have this name. */
export const MUSTER_SCOPE = '_muster';
/** Scope of the CA of BMCs. */
export const BMC_SCOPE = '_bmcs';

const OF_AGENTS = '.agents';
/** The scope in which the agents of a cluster are upgraded; no cluster has a dot in its name. */
export const agentsScope = (cluster: string): string => `${cluster}${OF_AGENTS}`;
/** The cluster of a scope of changes: `blue` for `blue` and for `blue.agents`. */
export const clusterOfScope = (scope: string): string =>
  scope.endsWith(OF_AGENTS) ? scope.slice(0, -OF_AGENTS.length) : scope;

/** Each kind of record in the store. No key fits two patterns. */
export const KEYS = {
  document: keys('document/KIND/NAME', {
    room: 'resources',
    holds: 'a document that was written through the API',
  }),
  file: keys('file/PATH…', {
    room: 'resources',
    holds:
      'the last valid version of a file of `--config DIR`, compressed, with which its present version is compared at a start',
  }),
  keyset: keys('pki/SCOPE/keyset/NAME', {
    room: 'pki',
    holds:
      'the generations of one key pair, private keys sealed; NAME is one that `muster pki status` shows, SCOPE is a cluster or `_muster`',
  }),
  encryption: keys('pki/SCOPE/encryption', {
    room: 'pki',
    holds: "the keys that encrypt a cluster's Secrets in etcd, sealed",
  }),
  exported: keys('pki/SCOPE/exported', {
    room: 'pki',
    holds: 'the generations of keys that `muster pki export` has copied',
  }),
  renewals: keys('pki/SCOPE/renewals', {
    room: 'pki',
    holds: 'which certificates and keys an operator or a rotation ordered to be replaced',
  }),
  issued: keys('pki/SCOPE/issued/SERIAL', { room: 'pki', holds: 'a certificate that was issued' }),
  secret: keys(`pki/${MUSTER_SCOPE}/secret/NAME`, {
    room: 'pki',
    holds: 'a sealed text, for example the key that tickets are derived from',
  }),
  givenSecret: keys(`pki/${MUSTER_SCOPE}/given/NAME/KEY`, {
    room: 'pki',
    holds: 'a value of a Secret that an operator gave, sealed; KEY is the key in the Secret',
  }),
  dataKey: keys(`pki/${MUSTER_SCOPE}/data/MACHINE/FILESYSTEM`, {
    room: 'pki',
    holds: "the key of a machine's encrypted data filesystem (`encrypt: boot-host`), sealed",
  }),
  machine: keys('machine/NAME', { room: 'machines', holds: 'the status of a machine' }),
  inventory: keys('inventory/MACHINE', {
    room: 'machines',
    holds: "what a machine's agent last reported of its parts",
  }),
  wipe: keys('wipe/MACHINE/ID', {
    room: 'machines',
    holds: "the certificate of a wipe: what a machine's disks showed afterwards, and who ordered it",
  }),
  test: keys('test/MACHINE/ID', {
    room: 'machines',
    holds: "the report of a test of a machine's parts: what was measured, and who ordered it",
  }),
  session: keys('session/ID', { room: 'machines', holds: 'a boot session' }),
  bmc: keys('bmc/MACHINE', {
    room: 'bmc',
    holds: "what was learnt of a machine's BMC: its protocol, its certificate, log-ins that it refused",
  }),
  power: keys('power/MACHINE', {
    room: 'bmc',
    holds: "the last order about a machine's power: its step and its attempts, or how it ended",
  }),
  artifact: keys('artifact/NAME…', {
    room: 'artifacts',
    holds:
      'a binary (`binary/NAME/VERSION/ARCH`), container image (`image/REFERENCE`) or manifest (`manifest/ADDON/SHA256`) and the files that it consists of',
  }),
  agent: keys('agent/MACHINE', {
    room: 'agent',
    holds: "the certificate that is valid for a machine's agent",
  }),
  ticket: keys('ticket/SESSION', {
    room: 'agent',
    holds: "the key for which a boot session's ticket was redeemed",
  }),
  founding: keys('founding/CLUSTER', {
    room: 'cluster',
    holds:
      "how a cluster's etcd was founded, its members, and what is being changed; kept when the Cluster is deleted",
  }),
  change: keys('change/CLUSTER', {
    room: 'cluster',
    holds:
      'the change of a cluster that is under way (a rotation, an upgrade): what was ordered, its step, and the evidence so far; after its end, the report of the last change',
  }),
  pastChange: keys('past-change/CLUSTER/ID', {
    room: 'cluster',
    holds: 'the report of a change that has ended, when another one has begun since',
  }),
  hook: keys('hook/CLUSTER/MACHINE', {
    room: 'cluster',
    holds:
      "what the hooks of a cluster answered in a machine's last turn in an upgrade or roll, and since when they are asked",
  }),
  etcdSpace: keys('etcd-space/CLUSTER', {
    room: 'cluster',
    holds: 'that the space of etcd is being reclaimed, so that a server that starts goes on with it',
  }),
  turn: keys('turn/CLUSTER/MACHINE', {
    room: 'cluster',
    holds:
      'that a machine may restart programs or reboot now, so that a server that starts meanwhile keeps the others running',
  }),
  changeEvidence: keys('change-evidence/CLUSTER/ID/ROUTE/STEP', {
    room: 'cluster',
    holds: 'what each machine has shown for a step of a change that is over',
  }),
  laterKeys: keys('later-keys/CLUSTER', {
    room: 'cluster',
    holds: 'a key that a machine has and a restored store does not know: the cluster waits for an operator',
  }),
  restored: keys('restored/CLUSTER', {
    room: 'cluster',
    holds: 'the founding from a snapshot in which CAs and tokens were found to be those of today',
  }),
  objects: keys('objects/CLUSTER/MACHINE', {
    room: 'cluster',
    holds: 'the in-cluster objects that a control plane applied',
  }),
  joinToken: keys('join-tokens/CLUSTER/MACHINE', {
    room: 'cluster',
    holds: 'the public half of the bootstrap token of a machine',
  }),
  node: keys('nodes/CLUSTER/MACHINE', {
    room: 'cluster',
    holds: 'the labels and taints that Muster gave to a Node',
  }),
  release: keys('release/CLUSTER', {
    room: 'cluster',
    holds: 'the versions that the machines of a founded cluster may have, and how it was founded',
  }),
  running: keys('running/CLUSTER/MACHINE', {
    room: 'cluster',
    holds: "what a machine's agent last reported that it runs",
  }),
  operator: keys('operator/NAME', {
    room: 'api',
    holds: 'an operator: roles, the hash of the password, the hash of an open invitation',
  }),
  operatorToken: keys('operator-token/ID', {
    room: 'api',
    holds: 'a token of an operator: its hash, roles and end',
  }),
  operatorSession: keys('operator-session/HASH', {
    room: 'api',
    holds: 'a session of an operator who logged in: the hash of its text, whose it is, and its last use',
  }),
  passkey: keys('passkey/ID', {
    room: 'api',
    holds: 'a passkey of an operator: its public key, and the counter of its last use',
  }),
  life: keys('life', {
    room: 'store',
    holds: 'the life of this store: it is counted up when a backup is restored',
  }),
  clock: keys('clock', {
    room: 'wiring',
    holds: 'the newest time at which the clock of the boot host was proved',
  }),
  name: keys('name/ZONE/RECORD…', {
    room: 'pxe',
    holds:
      'a name that is, or may be, at a name server: written before it is sent, deleted once removed there',
  }),
  lease: keys('lease/NETWORK/ADDRESS', { room: 'pxe', holds: 'a DHCP lease' }),
} as const;

/** The keys of all records of the PKI begin with this. */
export const PKI_PREFIX = 'pki/';
