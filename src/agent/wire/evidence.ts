/**
 * What a machine observes of its own cluster programs, as opposed to what was written to its files:
 * which issuer each listener shows and which client certificates it accepts, with which revision
 * each program runs, which keys its pods' tokens have. A step of a change is done when this says
 * so. A machine is believed about itself only. Pure.
 */
import { PROBED_KEYSETS, type ProbedKeyset } from '../../pki/keysets.ts';

/** The listeners of a machine that a rotation of keys changes. */
export const LISTENERS = {
  'kube-apiserver': { port: 6443, serves: 'ca', accepts: ['ca', 'front-proxy-ca'] },
  kubelet: { port: 10250, serves: 'ca', accepts: ['ca'] },
  /** Controller manager and scheduler serve certificates that they make when they start. */
  'kube-controller-manager': { port: 10257, accepts: ['ca', 'front-proxy-ca'] },
  'kube-scheduler': { port: 10259, accepts: ['ca', 'front-proxy-ca'] },
  'etcd-client': { port: 2379, serves: 'etcd-ca', accepts: ['etcd-ca'] },
  'etcd-peer': { port: 2380, serves: 'etcd-ca', accepts: ['etcd-ca'] },
} as const satisfies Readonly<Record<string, Listener>>;

interface Listener {
  readonly port: number;
  /** The CA whose certificate it shows; absent where no CA of the cluster issued it. */
  readonly serves?: ProbedKeyset;
  /** The CAs whose clients it accepts. */
  readonly accepts: readonly ProbedKeyset[];
}

export type ListenerName = keyof typeof LISTENERS;
export const LISTENER_NAMES = Object.keys(LISTENERS) as readonly ListenerName[];

/**
 * What a listener answered to a request with a probe certificate. accepted: the request was
 * answered, if only with 403, because the probe has no rights. refused: 401, or the connection was
 * ended. unreachable: nothing answers there, so this says nothing about trust.
 */
const ANSWERS = ['accepted', 'refused', 'unreachable'] as const;
export type Answer = (typeof ANSWERS)[number];

/** The name of a probe certificate: its keyset, and the id of the generation that issued it. */
export type ProbeName = `${ProbedKeyset}.${string}`;
export const probeName = (keyset: ProbedKeyset, generation: string): ProbeName => `${keyset}.${generation}`;

export interface ListenerEvidence {
  /**
   * The authority key identifier (RFC 5280, section 4.2.1.1) of the certificate that it shows, hex
   * in lower case: the identifier of the issuing CA's key. Absent: it shows none.
   */
  readonly issuer?: string;
  readonly answers: ReadonlyMap<ProbeName, Answer>;
}

/** Programs besides etcd and API server whose revision an agent reports. */
export const WATCHED_PROGRAMS = ['kube-controller-manager', 'kube-scheduler', 'kubelet', 'haproxy'] as const;
export type WatchedProgram = (typeof WATCHED_PROGRAMS)[number];

/** A program that runs on the machine. */
export interface ProgramEvidence {
  /** `ready`: its own health check says so. */
  readonly health: 'ready' | 'alive';
  /** `MUSTER_REVISION` with which it runs, for haproxy that of its configuration; `-`: none. */
  readonly revision: string;
}

export interface Evidence {
  /** The listeners that the last plan told the machine to probe. */
  readonly listeners: ReadonlyMap<ListenerName, ListenerEvidence>;
  /** The programs that run. */
  readonly programs: ReadonlyMap<WatchedProgram, ProgramEvidence>;
  /** The authority key identifier of the certificate with which kubelet speaks to the API. */
  readonly kubeletIssuer?: string;
  /** SHA-256 of the encryption configuration that the API server says it has loaded. */
  readonly encryption?: string;
  /**
   * How many service-account tokens in pods have which key (`kid`). `-` counts tokens whose key
   * cannot be read, and those of the keys after the {@link MAX_TOKEN_KEYS}th.
   */
  readonly tokens: ReadonlyMap<string, number>;
  /**
   * Key → UIDs of pods with tokens of it, at most {@link MAX_TOKEN_PODS}. Absent: all tokens are of
   * one key.
   */
  readonly tokenPods?: ReadonlyMap<string, readonly string[]>;
}

/** A machine reports at most this many keys of tokens; a rotation has two or three at a time. */
const MAX_TOKEN_KEYS = 16;
/** A machine names at most this many pods for each key. */
export const MAX_TOKEN_PODS = 16;
/** A listener is asked with at most this many probe certificates. */
const MAX_PROBES = 12;

/** A key identifier: 20 octets, or as long as an imported CA made it. */
const KEY_ID = /^([0-9a-f]{2}){1,64}$/;
const PROBE = new RegExp(`^(${PROBED_KEYSETS.join('|')})\\.[0-9a-f]{16}$`);
const REVISION = /^(-|[0-9a-f]{1,64})$/;
/** A static pod's UID has no dashes. */
const UID = /^[0-9a-f-]{32,36}$/;
const KID = /^(-|[A-Za-z0-9_.-]{1,128})$/;
const COUNT = /^[0-9]{1,7}$/;

/** Thrown for a field that no agent writes; its message names the field. */
class NotEvidence extends Error {}

/** The value of a field of the form, empty if it is not there. */
type FieldOf = (name: string) => string;

/**
 * Reads the evidence in the fields of a poll; ../README.md describes them. Undefined when the agent
 * reports none, `{wrong}` with the name of the first field that is not understood. Never throws.
 */
export function readEvidence(field: FieldOf): Evidence | { readonly wrong: string } | undefined {
  try {
    return evidenceOf(field);
  } catch (error) {
    if (error instanceof NotEvidence) return { wrong: error.message };
    throw error;
  }
}

function evidenceOf(field: FieldOf): Evidence | undefined {
  const listeners = entries(field, 'listeners', LISTENER_NAMES.length, listenerOf);
  const programs = entries(field, 'programs', WATCHED_PROGRAMS.length, programOf);
  const tokens = entries(field, 'tokens', MAX_TOKEN_KEYS + 1, tokenOf);
  const pods = entries(field, 'tokenpods', MAX_TOKEN_KEYS * MAX_TOKEN_PODS, tokenPodOf);
  const kubeletIssuer = optional(field, 'kubeletissuer', KEY_ID);
  const encryption = optional(field, 'encryption', /^[0-9a-f]{64}$/);
  const given = [kubeletIssuer, encryption].some((one) => one !== undefined);
  if (!given && listeners.size + programs.size + tokens.size === 0) return undefined;
  return {
    listeners,
    programs,
    tokens,
    ...(pods.size > 0 && { tokenPods: podsByKey([...pods.values()]) }),
    ...(kubeletIssuer !== undefined && { kubeletIssuer }),
    ...(encryption !== undefined && { encryption }),
  };
}

function optional(field: FieldOf, name: string, pattern: RegExp): string | undefined {
  const value = field(name);
  if (value === '') return undefined;
  if (!pattern.test(value)) throw new NotEvidence(name);
  return value;
}

/** The lines of a field, each read into a key and its value by `read`; no key twice. */
function entries<K, V>(
  field: FieldOf,
  name: string,
  most: number,
  read: (words: readonly string[]) => readonly [K, V] | undefined,
): ReadonlyMap<K, V> {
  const lines = field(name)
    .split('\n')
    .filter((line) => line !== '');
  if (lines.length > most) throw new NotEvidence(name);
  const found = new Map<K, V>();
  for (const line of lines) {
    const [key, value] = read(line.split(' ')) ?? [];
    if (key === undefined || value === undefined || found.has(key)) throw new NotEvidence(name);
    found.set(key, value);
  }
  return found;
}

const oneOf = <T extends string>(values: readonly T[], text: string | undefined): T | undefined =>
  values.find((value) => value === text);

/** `LISTENER ISSUER|- [PROBE=ANSWER…]` */
function listenerOf([word, issuer = '', ...answers]: readonly string[]):
  | readonly [ListenerName, ListenerEvidence]
  | undefined {
  const name = oneOf(LISTENER_NAMES, word);
  if (name === undefined || !(issuer === '-' || KEY_ID.test(issuer)) || answers.length > MAX_PROBES)
    return undefined;
  const found = new Map<ProbeName, Answer>();
  for (const text of answers) {
    const [probe = '', said] = text.split('=');
    const answer = oneOf(ANSWERS, said);
    if (!PROBE.test(probe) || answer === undefined) return undefined;
    found.set(probe as ProbeName, answer);
  }
  return [name, { ...(issuer !== '-' && { issuer }), answers: found }];
}

/** `PROGRAM ready|alive REVISION` */
function programOf([word, said, revision = '', ...rest]: readonly string[]):
  | readonly [WatchedProgram, ProgramEvidence]
  | undefined {
  const name = oneOf(WATCHED_PROGRAMS, word);
  const health = oneOf(['ready', 'alive'] as const, said);
  if (name === undefined || health === undefined || !REVISION.test(revision) || rest.length > 0)
    return undefined;
  return [name, { health, revision }];
}

/** `KID COUNT` */
function tokenOf([kid = '', count = '', ...rest]: readonly string[]): readonly [string, number] | undefined {
  if (!KID.test(kid) || !COUNT.test(count) || rest.length > 0) return undefined;
  return [kid, Number(count)];
}

interface TokenPod {
  readonly kid: string;
  readonly uid: string;
}

/** `KID UID` */
function tokenPodOf([kid = '', uid = '', ...rest]: readonly string[]):
  | readonly [string, TokenPod]
  | undefined {
  if (!KID.test(kid) || !UID.test(uid) || rest.length > 0) return undefined;
  return [`${kid} ${uid}`, { kid, uid }];
}

const podsByKey = (pods: readonly TokenPod[]): ReadonlyMap<string, readonly string[]> =>
  new Map([...Map.groupBy(pods, ({ kid }) => kid)].map(([kid, some]) => [kid, some.map(({ uid }) => uid)]));
