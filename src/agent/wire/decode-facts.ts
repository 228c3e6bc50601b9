/** Decodes the facts that an agent reports, from a form; see ../README.md. Pure. */
import { readCheckpoint } from '../../events/audit-chain.ts';
import { readInventory } from '../../machines/inventory.ts';
import { LEAF_NAMES, type LeafName } from '../../pki/hierarchy.ts';
import { DATA_ENCRYPTIONS, type DataEncryption } from '../../resources/disk-spec.ts';
import { DEVICE, PLAIN } from './encode-plan.ts';
import { readEvidence } from './evidence.ts';
import {
  type AgentFacts,
  type ApiserverFacts,
  BOOT_DISK_STATES,
  type DataDisk,
  ENDING,
  type EndingProgram,
  type EtcdFacts,
  type Marker,
  type RunningVersions,
  VERSIONED,
} from './facts.ts';
import { readRevisionClaim } from './revision-claim.ts';

/** The largest form of a poll, in octets: a dozen requests with RSA-4096 take 30 KiB. */
export const FACTS_LIMIT = 128 * 1024;

type DecodedFacts =
  | { readonly ok: true; readonly facts: AgentFacts }
  /** Names the field and what is wrong with it. */
  | { readonly ok: false; readonly text: string };

/**
 * A field that is one word of printable ASCII, so that it is unambiguous in logs and comparisons.
 */
const TOKEN = /^[\x21-\x7e]{1,200}$/;
const HEX64 = /^[0-9a-f]{64}$/;
const REVISION = /^(-|[0-9a-f]{1,64})$/;
/**
 * A text from a machine that is shown to people: without control characters, at most 500
 * characters.
 */
const forPeople = (text: string): string =>
  text
    .replace(/[\s\p{Cc}\p{Cf}]+/gu, ' ')
    .trim()
    .slice(0, 500);

const LEAVES: ReadonlySet<string> = new Set(LEAF_NAMES);
const DISK_STATES = ['unused', 'none', 'several', 'blank', 'foreign', 'ours'] as const;

class NotFacts extends Error {}

/**
 * Reads the facts of a poll's body (form-urlencoded). Unknown fields are ignored: a newer agent may
 * send more. Never throws.
 */
export function decodeFacts(body: string): DecodedFacts {
  if (body.length > FACTS_LIMIT) return { ok: false, text: `more than ${FACTS_LIMIT} octets` };
  try {
    return { ok: true, facts: factsOf(new URLSearchParams(body)) };
  } catch (error) {
    if (error instanceof NotFacts) return { ok: false, text: error.message };
    throw error;
  }
}

/** How far the machine's clock was moved, from seconds. */
const movedOf = (seconds = '0'): Pick<AgentFacts, 'clockMoved'> =>
  Number(seconds) === 0 ? {} : { clockMoved: Number(seconds) * 1000 };

/** Readers of a form's fields, which throw {@link NotFacts} for one that is not understood. */
function fieldsOf(form: URLSearchParams) {
  const optional = (name: string, pattern: RegExp = TOKEN): string | undefined => {
    const value = form.get(name) ?? '';
    if (value === '') return undefined;
    if (!pattern.test(value)) throw new NotFacts(`${name} is not understood`);
    return value;
  };
  const needed = (name: string, pattern: RegExp = TOKEN): string => {
    const value = optional(name, pattern);
    if (value === undefined) throw new NotFacts(`${name} is missing`);
    return value;
  };
  const oneOf = <T extends string>(name: string, values: readonly T[]): T => {
    const value = needed(name) as T;
    if (!values.includes(value)) throw new NotFacts(`${name} is not understood`);
    return value;
  };
  const text = (name: string): string => forPeople(form.get(name) ?? '');
  return { optional, needed, oneOf, text };
}

/** The disk whose fields begin with `prefix`. */
function diskOf(form: URLSearchParams, prefix: '' | 'etcd'): DataDisk {
  const { optional, needed, oneOf, text } = fieldsOf(form);
  const encryption = (name: string): DataEncryption | undefined =>
    optional(name) === undefined ? undefined : oneOf(name, DATA_ENCRYPTIONS);
  const state = oneOf(`${prefix}disk`, DISK_STATES);
  const device = () => needed(`${prefix}device`, DEVICE);
  const detail = () => text(`${prefix}detail`);
  const encrypt = encryption(`${prefix}encrypt`);
  switch (state) {
    case 'unused':
      return { state };
    case 'none':
    case 'several':
      return { state, detail: detail() };
    case 'blank':
      return { state, device: device(), ...(encrypt && { encrypt }) };
    case 'foreign':
      return { state, device: device(), detail: detail() };
    case 'ours': {
      const encrypted = encryption(`${prefix}encrypted`);
      return {
        state,
        device: device(),
        filesystem: needed(`${prefix}filesystem`, /^[0-9A-Fa-f][0-9A-Fa-f-]{0,63}$/).toLowerCase(),
        mounted: form.get(`${prefix}mounted`) === 'yes',
        ...(encrypt && { encrypt }),
        ...(encrypted && { encrypted }),
      };
    }
  }
}

/** The etcd disk of a machine that has a selector for one. */
function etcdDiskOf(form: URLSearchParams): AgentFacts['etcdDisk'] {
  if ((form.get('etcddisk') ?? '') === '') return undefined;
  const marker = markerOf(form.get('etcdmarker') ?? '');
  return { disk: diskOf(form, 'etcd'), ...(marker && { marker }) };
}

function factsOf(form: URLSearchParams): AgentFacts {
  const { optional, needed, oneOf, text } = fieldsOf(form);
  const etcdRevision = optional('etcdrev', REVISION);
  const etcd: EtcdFacts = {
    wal: oneOf('wal', ['present', 'absent', 'unknown']),
    health: oneOf('etcd', ['serving', 'alive', 'down']),
    ...(etcdRevision !== undefined && { revision: etcdRevision }),
  };
  const apiserver = (): ApiserverFacts | undefined => {
    const revision = optional('apirev', REVISION);
    return revision === undefined ? undefined : { health: oneOf('api', ['ready', 'alive']), revision };
  };
  const api = apiserver();
  const marker = markerOf(form.get('marker') ?? '');
  const etcdDisk = etcdDiskOf(form);
  const applied = optional('applied', HEX64);
  const step = optional('step', PLAIN);
  const code = optional('hold', PLAIN);
  const joined = text('joined') !== '';
  const objects = text('objects');
  // A machine that remembers something else has nothing to say about the store, and works.
  const claim = readRevisionClaim(form.get('revision') ?? '');
  // A machine that remembers something else has nothing to say about the log, and works.
  const checkpoint = readCheckpoint(form.get('checkpoint') ?? '');
  const evidence = readEvidence((name) => form.get(name) ?? '');
  if (evidence && 'wrong' in evidence) throw new NotFacts(`${evidence.wrong} is not understood`);
  const boots = optional('bootdisk') !== undefined;
  const secrets = secretsOf(form.get('secrets') ?? '');
  const selector = text('data');
  const runs = runsOf(form.get('runs') ?? '');
  // The kernel's command line can have any word.
  const image = HEX64.exec(form.get('image') ?? '')?.[0];
  const prefetched = prefetchedOf(text('prefetched'));
  const inventory = readInventory(form.get('inventory') ?? '');
  const refused = refusedOf(text('refused'));
  const ended = endedOf(form.get('ended') ?? '');
  const full = fullOf(form.get('full') ?? '');
  return {
    agent: needed('agent'),
    ...hashes((name) => optional(name, HEX64)),
    ...(refused && { refused }),
    bootId: needed('bootid'),
    // A machine may have none yet; the check `machine-id` reports that.
    machineId: optional('machineid') ?? '',
    clock: Number(needed('clock', /^-?[0-9]{1,12}$/)) * 1000,
    ...movedOf(optional('clockmoved', /^-?[0-9]{1,12}$/)),
    disk: diskOf(form, ''),
    etcd,
    pins: byLeaf(form, 'pin.', (value) => (HEX64.test(value) ? value : undefined)),
    requests: byLeaf(form, 'csr.', (value) => value),
    ...(api && { apiserver: api }),
    ...(marker && { marker }),
    ...(etcdDisk && { etcdDisk }),
    ...(boots && { bootDisk: { state: oneOf('bootdisk', BOOT_DISK_STATES), text: text('boottext') } }),
    ...(evidence && { evidence }),
    ...(selector !== '' && { dataSelector: selector }),
    ...(runs && { runs }),
    ...(image !== undefined && { image }),
    ...(prefetched && { prefetched }),
    ...(inventory && { inventory }),
    ...(joined && { joined }),
    ...(secrets.size > 0 && { secrets }),
    ...(applied !== undefined && { applied }),
    ...(step !== undefined && { step }),
    ...(code !== undefined && { hold: { code, text: text('holdtext') } }),
    ...(objects !== '' && { objects }),
    ...(Object.keys(ended).length > 0 && { ended }),
    ...(Object.keys(full).length > 0 && { full }),
    ...(claim && { claim }),
    ...(checkpoint && { seenCheckpoint: checkpoint }),
  };
}

/** The facts that are one SHA-256 each. */
function hashes(read: (name: 'build' | 'trust') => string | undefined): Pick<AgentFacts, 'build' | 'trust'> {
  const [build, trust] = [read('build'), read('trust')];
  return { ...(build !== undefined && { build }), ...(trust !== undefined && { trust }) };
}

/** A malformed marker is still a marker, of an unknown cluster. */
function markerOf(line: string): Marker | undefined {
  if (line === '') return undefined;
  const words = line.split(' ');
  const [cluster, founding, member, machine] = words.map((word) => (PLAIN.test(word) ? word : '?'));
  if (words.length !== 4) return { cluster: '?', founding: '?', member: '?', machine: '?' };
  return { cluster: cluster!, founding: founding!, member: member!, machine: machine! };
}

/** Reads lines `PROGRAM WORDS`. Secrets that a program wrote are not kept. */
function endedOf(text: string): NonNullable<AgentFacts['ended']> {
  const found: Partial<Record<EndingProgram, string>> = {};
  for (const line of text.split('\n')) {
    const [name = '', ...words] = line.split(' ');
    const program = ENDING.find((one) => one === name);
    if (program !== undefined && words.length > 0)
      found[program] = withoutSecrets(forPeople(words.join(' ')));
  }
  return found;
}

/** A mount point and how much of it is used, in percent. */
const FULL = /^(\/[\w./-]{0,99}) ([0-9]{1,3})$/;

/** Reads lines `PATH PERCENT`, of the first three filesystems. */
function fullOf(text: string): NonNullable<AgentFacts['full']> {
  const found: Record<string, string> = {};
  for (const line of text.split('\n').slice(0, 3)) {
    const [, path, used] = FULL.exec(line) ?? [];
    if (path !== undefined) found[path] = used!;
  }
  return found;
}

/** What looks like a secret: a token, a value that is named so, a long word in base64. */
const SECRETS = [
  /eyJ[\w-]+\.[\w-]+(?:\.[\w-]+)?/g,
  /(?<=\b(?:\w*(?:passw(?:or)?d|secret|token|key)\w*["']?\s*[=:]\s*["']?|bearer\s+|basic\s+))[^\s"',;]+/gi,
  /(?<=:\/\/[^\s/:@]*:)[^\s/@]+(?=@)/g,
  /[A-Za-z0-9+/_-]{40,}={0,2}/g,
];

/** The text, with `***` in place of whatever looks like a secret. */
export const withoutSecrets = (text: string): string =>
  SECRETS.reduce((left, secret) => left.replaceAll(secret, '***'), text);

const VERSION_LINE = /^([a-z-]{1,40}) ([0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,4})$/;

/**
 * Reads lines `PROGRAM VERSION`; undefined without any. A program that is not known here is
 * ignored, as an unknown field is.
 */
function runsOf(text: string): RunningVersions | undefined {
  const lines = text.split('\n').filter((line) => line !== '');
  if (lines.length > 4 * VERSIONED.length) throw new NotFacts('runs has too many lines');
  const found: Record<string, string> = {};
  for (const line of lines) {
    const [, name, version] = VERSION_LINE.exec(line) ?? [];
    if (name === undefined || version === undefined) throw new NotFacts('runs is not understood');
    if (VERSIONED.some((one) => one === name)) found[name] = version;
  }
  return Object.keys(found).length > 0 ? found : undefined;
}

/** Reads `LIST ok` or `LIST failed WHY`; undefined for any other text. */
function prefetchedOf(text: string): AgentFacts['prefetched'] {
  const [, list, fault] = /^([0-9a-f]{16,64}) (?:ok|failed (.+))$/.exec(text) ?? [];
  return list === undefined ? undefined : { list, ...(fault !== undefined && { fault }) };
}

/** Reads `DIGEST.ATTEMPT CODE TEXT`; undefined for any other text. */
function refusedOf(text: string): AgentFacts['refused'] {
  const [, digest, attempt, code, why] = REFUSED_LINE.exec(text) ?? [];
  if (digest === undefined) return undefined;
  return { digest, attempt: Number(attempt), code: code!, text: why! };
}

const REFUSED_LINE = /^([0-9a-f]{64})\.([0-9]{1,9}) ([a-z-]{1,40}) (.+)$/;

/** A line of the fact `secrets`: NAME:KEY and the tag of its value. */
const SECRET_LINE = /^([a-z0-9-]{1,63}:[A-Za-z0-9._-]{1,63}) ([0-9a-f]{32})$/;
/** More are not kept: a machine uses a few. */
const MAX_SECRETS = 256;

function secretsOf(text: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const [, id, tag] = SECRET_LINE.exec(line) ?? [];
    if (id === undefined || tag === undefined) throw new NotFacts('secrets is not understood');
    if (found.size >= MAX_SECRETS) throw new NotFacts(`secrets has more than ${MAX_SECRETS} lines`);
    found.set(id, tag);
  }
  return found;
}

function byLeaf(
  form: URLSearchParams,
  prefix: string,
  read: (value: string) => string | undefined,
): ReadonlyMap<LeafName, string> {
  const found = new Map<LeafName, string>();
  for (const [name, value] of form) {
    if (!name.startsWith(prefix)) continue;
    const leaf = name.slice(prefix.length);
    const taken = LEAVES.has(leaf) ? read(value) : undefined;
    if (taken === undefined) throw new NotFacts(`${name.slice(0, 60)} is not understood`);
    found.set(leaf as LeafName, taken);
  }
  return found;
}
