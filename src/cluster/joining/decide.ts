/**
 * Decides whether a kubelet may have a certificate that the cluster itself signs, by comparing its
 * request with the inventory. Pure.
 *
 * Machines join with certificates that Muster signs (docs/decisions/0026) and make such requests
 * only for serving certificates (`serverTLSBootstrap`), or when they join with a token of their own
 * (`joining: token`, docs/decisions/0043). The decisions here keep others from getting a
 * certificate in a machine's name.
 */
import { formatIp, parseIp } from '../../base/ip.ts';
import { type AskedNames, readAskedNames } from '../../pki/csr-names.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import { MACHINE_TOKENS, tokenIdOf } from '../resolve/by-token.ts';
import type { SigningRequest } from './request.ts';

/**
 * The signer of serving certificates: kube-controller-manager. Kubernetes has no approver for it.
 */
export const SERVING = 'kubernetes.io/kubelet-serving';
/**
 * The signer of kubelets' client certificates. kube-controller-manager approves requests of the
 * node itself (`selfnodeclient`) and, with any name, of a user with a token of kubeadm's group
 * (`nodeclient`).
 */
export const CLIENT = 'kubernetes.io/kube-apiserver-client-kubelet';

/** What differs from the inventory: code of the event → reason of the condition in the API. */
export const MISFITS = {
  requester: 'RequesterIsNotTheNode',
  unreadable: 'RequestIsNotReadable',
  subject: 'SubjectIsNotTheNode',
  token: 'TokenIsNoMachines',
  usages: 'UsagesAreNotOfTheCertificate',
  names: 'NamesAreNotOfTheMachine',
  more: 'RequestAsksForMore',
  quarantined: 'MachineIsInQuarantine',
} as const;
type Misfit = keyof typeof MISFITS;

export type Verdict =
  | { readonly do: 'approve'; readonly machine: string; readonly text: string }
  /**
   * `alarm`: Muster would deny the request, but somebody has already approved it. `machine`: the
   * machine that the request is about; undefined when that cannot be read.
   */
  | {
      readonly do: 'deny' | 'alarm';
      readonly machine: string | undefined;
      readonly code: Misfit;
      readonly text: string;
    }
  | { readonly do: 'leave'; readonly why: 'settled' | 'other-signer' | 'not-ours' | 'in-tree' };

const LEAVE = {
  settled: { do: 'leave', why: 'settled' },
  otherSigner: { do: 'leave', why: 'other-signer' },
  notOurs: { do: 'leave', why: 'not-ours' },
  inTree: { do: 'leave', why: 'in-tree' },
} as const satisfies Record<string, Verdict>;

type Inventory = Pick<ResolvedCluster, 'machines'>;

/** Returns the machine of an unused token from the public half of the token. */
type TokenOwner = (id: string) => string | undefined;

/**
 * Decides about one request: approve, deny, raise an alarm, or leave it to others. `ownerOf`:
 * returns the machine of an unused join token.
 */
export function decideRequest(
  inventory: Inventory,
  request: SigningRequest,
  ownerOf: TokenOwner,
  isQuarantined: (machine: string) => boolean = () => false,
): Verdict {
  if (request.signer === SERVING || request.signer === CLIENT) {
    const machine = ownOf(inventory, request, ownerOf);
    if (machine !== undefined && isQuarantined(machine) && request.state === 'pending')
      return deny(machine, 'quarantined', `${machine} is in quarantine`);
  }
  if (request.signer === SERVING)
    return request.state === 'pending' ? serving(inventory, request) : LEAVE.settled;
  if (request.signer !== CLIENT) return LEAVE.otherSigner;
  if (request.state !== 'pending' && request.state !== 'approved') return LEAVE.settled;
  const id = request.groups.includes(MACHINE_TOKENS) ? tokenIdOf(request.username) : undefined;
  const verdict = id === undefined ? client(inventory, request) : byToken(inventory, request, ownerOf(id));
  if (request.state === 'pending') return verdict;
  return verdict.do === 'deny' ? { ...verdict, do: 'alarm' } : LEAVE.settled;
}

/** The machine in whose name a request is made, by its node's user or its token. */
function ownOf(inventory: Inventory, request: SigningRequest, ownerOf: TokenOwner): string | undefined {
  const id = request.groups.includes(MACHINE_TOKENS) ? tokenIdOf(request.username) : undefined;
  return id === undefined ? nodeOf(inventory, request.username)?.name : ownerOf(id);
}

const USER = 'system:node:';
const NODES = 'system:nodes';

/**
 * The machine of this cluster whose node has this user name (`system:node:NAME`); otherwise
 * undefined.
 */
export function nodeOf(
  { machines }: Inventory,
  user: string,
): ResolvedCluster['machines'][number] | undefined {
  if (!user.startsWith(USER)) return undefined;
  const name = user.slice(USER.length);
  return machines.find((one) => one.name === name && one.roles.some((role) => role !== 'etcd'));
}

/**
 * The machines whose user names are in the request. All common names are compared, because other
 * readers may use only the first or only the last.
 */
const askedFor = (inventory: Inventory, { commonNames }: AskedNames): readonly string[] =>
  commonNames.filter((name) => nodeOf(inventory, name) !== undefined);

function client(inventory: Inventory, request: SigningRequest): Verdict {
  const { username } = request;
  const read = readAskedNames(request.request);
  if (!read.ok) {
    // Kubernetes' own approver may be able to read the request. It gives a node no name but its
    // own. A user that is not a node may want the name of one of our machines.
    if (username.startsWith(USER)) return LEAVE.inTree;
    return deny(undefined, 'unreadable', `the request of ${shown(username)} cannot be read: ${read.text}`);
  }
  const others = askedFor(inventory, read.asked).filter((name) => name !== username);
  const [name] = others;
  if (name === undefined) return nodeOf(inventory, username) ? LEAVE.inTree : LEAVE.notOurs;
  const about = nodeOf(inventory, username) ?? nodeOf(inventory, name);
  return deny(about?.name, 'requester', `${shown(username)} asks for the client certificate of ${name}`);
}

/** The first client certificate of a machine that has a token. */
function byToken(inventory: Inventory, request: SigningRequest, owner: string | undefined): Verdict {
  const read = readAskedNames(request.request);
  const user = `${USER}${owner}`;
  if (owner === undefined || nodeOf(inventory, user) === undefined) {
    const [name] = read.ok ? askedFor(inventory, read.asked) : [];
    return deny(
      name === undefined ? undefined : nodeOf(inventory, name)?.name,
      'token',
      `${shown(request.username)} is not the unused token of a machine of this cluster`,
    );
  }
  if (!read.ok) return deny(owner, 'unreadable', `it cannot be read: ${read.text}`);
  const { asked } = read;
  return judged(
    owner,
    [
      ...subjectFaults(user, asked),
      ...usageFaults(OF_CLIENT, request.usages, asked),
      ...otherFaults({ ...asked, others: [...asked.dns, ...asked.ips, ...asked.others] }),
    ],
    `token, subject and usages are those of ${owner}`,
  );
}

function serving(inventory: Inventory, request: SigningRequest): Verdict {
  const { username, groups, usages } = request;
  const own = nodeOf(inventory, username);
  const read = readAskedNames(request.request);
  if (!read.ok) return own ? deny(own.name, 'unreadable', `it cannot be read: ${read.text}`) : LEAVE.notOurs;
  const { asked } = read;
  if (own === undefined) {
    const [name] = askedFor(inventory, asked);
    if (name === undefined) return LEAVE.notOurs;
    const text = `${shown(username)} asks for the serving certificate of ${name}`;
    return deny(nodeOf(inventory, name)?.name, 'requester', text);
  }
  return judged(
    own.name,
    [
      ...requesterFaults(groups),
      ...subjectFaults(username, asked),
      ...usageFaults(OF_SERVING, usages, asked),
      ...nameFaults(own, asked),
      ...otherFaults(asked),
    ],
    `requester, subject, usages, names and addresses are those of ${own.name}`,
  );
}

/** Approves with the text `fits` when nothing differs; otherwise denies with all differences. */
function judged(machine: string, misfits: readonly Fault[], fits: string): Verdict {
  const [first] = misfits;
  if (first) return deny(machine, first[0], misfits.map(([, text]) => text).join('; '));
  return { do: 'approve', machine, text: fits };
}

const deny = (machine: string | undefined, code: Misfit, text: string): Verdict => ({
  ...{ do: 'deny', machine, code, text },
});

type Fault = readonly [Misfit, string];

const requesterFaults = (groups: readonly string[]): readonly Fault[] =>
  groups.includes(NODES) ? [] : [['requester', `the requester is not in the group ${NODES}`]];

function subjectFaults(username: string, { commonNames, organizations }: AskedNames): readonly Fault[] {
  const same = (found: readonly string[], wanted: string): boolean =>
    found.length === 1 && found[0] === wanted;
  return [
    ...(same(commonNames, username) ? [] : [`CN is ${listed(commonNames)} instead of ${username}`]),
    ...(same(organizations, NODES) ? [] : [`O is ${listed(organizations)} instead of ${NODES}`]),
  ].map((text): Fault => ['subject', text]);
}

interface Usages {
  readonly wanted: readonly string[];
  /** `server` or `client`, for the message. */
  readonly of: string;
}
const OF_SERVING: Usages = { wanted: ['digital signature', 'server auth'], of: 'server' };
const OF_CLIENT: Usages = { wanted: ['digital signature', 'client auth'], of: 'client' };

function usageFaults({ wanted, of }: Usages, usages: readonly string[], asked: AskedNames): readonly Fault[] {
  // kubelet asks for `key encipherment` only with an RSA key.
  const allowed = [...wanted, 'key encipherment'];
  const missing = wanted.filter((one) => !usages.includes(one));
  const foreign = [...new Set([...usages, ...asked.usages])].filter((one) => !allowed.includes(one));
  return [
    ...(missing.length > 0 ? [`the usage ${listed(missing)} is missing`] : []),
    ...(foreign.length > 0
      ? [`the usage ${listed(foreign)} does not belong in a kubelet's ${of} certificate`]
      : []),
  ].map((text): Fault => ['usages', text]);
}

function nameFaults(
  { name, addresses }: ResolvedCluster['machines'][number],
  { dns, ips }: AskedNames,
): readonly Fault[] {
  if (dns.length + ips.length === 0) return [['names', 'it names neither the machine nor an address']];
  const own = new Set(addresses.map(canonical));
  const foreign = [...dns.filter((one) => one !== name), ...ips.filter((one) => !own.has(one))];
  const has = [name, ...addresses].join(', ');
  return foreign.length === 0 ? [] : [['names', `the machine does not have ${listed(foreign)}, only ${has}`]];
}

/** An address in the form that requests use; a document may spell it differently. */
const canonical = (text: string): string => {
  const ip = parseIp(text);
  return ip === undefined ? text : formatIp(ip);
};

function otherFaults({ emails, uris, others }: AskedNames): readonly Fault[] {
  const found = [...emails, ...uris, ...others];
  return found.length === 0 ? [] : [['more', `it also asks for ${listed(found)}`]];
}

/**
 * The most names from a request that a message shows, because others control their number and
 * content.
 */
const MOST_SHOWN = 5;
const listed = (texts: readonly string[]): string => {
  if (texts.length === 0) return 'absent';
  const more = texts.length > MOST_SHOWN ? ` and ${texts.length - MOST_SHOWN} more` : '';
  return texts.slice(0, MOST_SHOWN).map(shown).join(', ') + more;
};
const shown = (text: string): string => {
  const plain = text.replace(/[\p{C}\p{Z}]+/gu, ' ');
  return plain.length > 100 ? `${plain.slice(0, 100)}…` : plain || '""';
};
