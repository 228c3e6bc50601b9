/**
 * Who may have a certificate that a cluster signs itself: the request of a kubelet compared with
 * the inventory. Pure.
 *
 * Machines of Muster join with certificates that Muster signs (decision 26) and need none of this,
 * unless their kubelet asks for a serving certificate (`serverTLSBootstrap`), or joins by a token
 * of its own (`joining: token`, decision 43). What is decided here is that nobody else gets one in
 * their name.
 */
import { formatIp, parseIp } from '../../base/ip.ts';
import { type AskedNames, readAskedNames } from '../../pki/csr-names.ts';
import { MACHINE_TOKENS, tokenIdOf } from '../spec/by-token.ts';
import type { ResolvedCluster } from '../spec/resolved-cluster.ts';
import type { SigningRequest } from './request.ts';

/** Its signer is kube-controller-manager, and nobody in the tree approves. */
export const SERVING = 'kubernetes.io/kubelet-serving';
/**
 * Approved in the tree for the node itself (`selfnodeclient`), and for whoever has a token of
 * kubeadm's group (`nodeclient`), by any name.
 */
export const CLIENT = 'kubernetes.io/kube-apiserver-client-kubelet';

/** What differs: the reason of the condition in the API, by the code of the event. */
export const MISFITS = {
  requester: 'RequesterIsNotTheNode',
  unreadable: 'RequestIsNotReadable',
  subject: 'SubjectIsNotTheNode',
  token: 'TokenIsNoMachines',
  usages: 'UsagesAreNotOfTheCertificate',
  names: 'NamesAreNotOfTheMachine',
  more: 'RequestAsksForMore',
} as const;
export type Misfit = keyof typeof MISFITS;

export type Verdict =
  | { readonly do: 'approve'; readonly machine: string; readonly text: string }
  /**
   * `alarm`: it would be denied, and somebody has approved it already. `machine`: whom it is about;
   * absent when that cannot be read.
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

/** The machine whose unused token has that public half. */
export type TokenOwner = (id: string) => string | undefined;

/** What is to be done about one request. */
export function decideRequest(inventory: Inventory, request: SigningRequest, ownerOf: TokenOwner): Verdict {
  if (request.signer === SERVING)
    return request.state === 'pending' ? serving(inventory, request) : LEAVE.settled;
  if (request.signer !== CLIENT) return LEAVE.otherSigner;
  if (request.state !== 'pending' && request.state !== 'approved') return LEAVE.settled;
  const id = request.groups.includes(MACHINE_TOKENS) ? tokenIdOf(request.username) : undefined;
  const verdict = id === undefined ? client(inventory, request) : byToken(inventory, request, ownerOf(id));
  if (request.state === 'pending') return verdict;
  return verdict.do === 'deny' ? { ...verdict, do: 'alarm' } : LEAVE.settled;
}

const USER = 'system:node:';
const NODES = 'system:nodes';

/** The machine of this cluster that is the node of that user name. */
export function nodeOf(
  { machines }: Inventory,
  user: string,
): ResolvedCluster['machines'][number] | undefined {
  if (!user.startsWith(USER)) return undefined;
  const name = user.slice(USER.length);
  return machines.find((one) => one.name === name && one.roles.some((role) => role !== 'etcd'));
}

/**
 * Also of one that names several: whoever reads only the first or only the last must not get by.
 */
const askedFor = (inventory: Inventory, { commonNames }: AskedNames): readonly string[] =>
  commonNames.filter((name) => nodeOf(inventory, name) !== undefined);

function client(inventory: Inventory, request: SigningRequest): Verdict {
  const { username } = request;
  const read = readAskedNames(request.request);
  if (!read.ok) {
    // The approver in the tree may read it. A node gets no other name there; who is no node may be
    // after one of ours.
    if (username.startsWith(USER)) return LEAVE.inTree;
    return deny(undefined, 'unreadable', `${shown(username)} asks with what cannot be read: ${read.text}`);
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
      `${shown(request.username)} is no unused token of a machine of this cluster`,
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

/** Approved, with that text, where nothing differs. */
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
  groups.includes(NODES) ? [] : [['requester', `who asks is not in the group ${NODES}`]];

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
  /** Whose they are, for people. */
  readonly of: string;
}
const OF_SERVING: Usages = { wanted: ['digital signature', 'server auth'], of: 'server' };
const OF_CLIENT: Usages = { wanted: ['digital signature', 'client auth'], of: 'client' };

function usageFaults({ wanted, of }: Usages, usages: readonly string[], asked: AskedNames): readonly Fault[] {
  // kubelet asks for the last one with an RSA key only.
  const allowed = [...wanted, 'key encipherment'];
  const missing = wanted.filter((one) => !usages.includes(one));
  const foreign = [...new Set([...usages, ...asked.usages])].filter((one) => !allowed.includes(one));
  return [
    ...(missing.length > 0 ? [`the usage ${listed(missing)} is missing`] : []),
    ...(foreign.length > 0 ? [`the usage ${listed(foreign)} is none of a kubelet's ${of}`] : []),
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
  return foreign.length === 0
    ? []
    : [['names', `${listed(foreign)} is not of the machine, which has ${has}`]];
}

/** As a request has them; a document may spell them otherwise. */
const canonical = (text: string): string => {
  const ip = parseIp(text);
  return ip === undefined ? text : formatIp(ip);
};

function otherFaults({ emails, uris, others }: AskedNames): readonly Fault[] {
  const found = [...emails, ...uris, ...others];
  return found.length === 0 ? [] : [['more', `it asks for ${listed(found)} as well`]];
}

/** Of what somebody else wrote: so much that people see what it is. */
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
