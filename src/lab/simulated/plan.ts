/** Reads plans as a machine does, and applies their lines to a machine in memory. */
import { createHash } from 'node:crypto';
import { keyPathOf } from '../../agent/wire/plan.ts';
import { MachineKey } from './keys.ts';

const sha256 = (octets: Uint8Array): string => createHash('sha256').update(octets).digest('hex');

const BLOCK = 512;

/** Plain files of a ustar archive, by name. */
function untar(archive: Buffer): ReadonlyMap<string, Buffer> {
  const files = new Map<string, Buffer>();
  for (let at = 0; at + BLOCK <= archive.length && archive[at] !== 0; ) {
    const header = archive.subarray(at, at + BLOCK);
    const name = header.toString('latin1', 0, header.indexOf(0));
    const size = Number.parseInt(header.toString('latin1', 124, 135), 8);
    files.set(name, archive.subarray(at + BLOCK, at + BLOCK + size));
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
  }
  return files;
}

export interface TakenPlan {
  readonly digest: string;
  readonly lines: readonly string[];
  readonly files: ReadonlyMap<string, Buffer>;
}

/**
 * Reads a plan and checks it as the agent does: the digest of its lines and the hash of every file
 * that a line names. Throws when one is wrong.
 */
export function takePlan(archive: Buffer): TakenPlan {
  const files = untar(archive);
  const text = files.get('plan')?.toString('utf8') ?? '';
  const end = text.indexOf('\n') + 1;
  const digest = /^muster-plan 1 ([0-9a-f]{64})\n$/.exec(text.slice(0, end))?.[1];
  const rest = text.slice(end);
  if (digest === undefined || sha256(Buffer.from(rest)) !== digest)
    throw new Error('a plan without its digest');
  const lines = rest.split('\n').slice(0, -1);
  for (const line of lines) {
    if (!line.startsWith('put')) continue;
    const hash = line.split(' ')[2]!;
    const file = files.get(`files/${hash}`);
    if (file === undefined || sha256(file) !== hash) throw new Error(`a plan without ${line}`);
  }
  return { digest, lines, files };
}

/** The parts of a machine that plans change. */
export interface Belongings {
  /** `unused` without a data disk, then `blank`, then `ours`. */
  disk: 'unused' | 'blank' | 'ours';
  filesystem: string;
  marker: string;
  readonly keys: Map<string, MachineKey>;
  /** Certificates for which the last plan asked a request. */
  readonly requested: Set<string>;
  readonly files: Map<string, string>;
  readonly links: Map<string, string>;
  /** Running units, with the digest for which each was started. */
  readonly units: Map<string, string>;
  /** Hashes of files and archives from the boot host, by path. */
  readonly fetched: Map<string, string>;
  step: string;
}

export const nothingYet = (hasDataDisk: boolean): Belongings => ({
  disk: hasDataDisk ? 'blank' : 'unused',
  filesystem: '',
  marker: '',
  keys: new Map(),
  requested: new Set(),
  files: new Map(),
  links: new Map(),
  units: new Map(),
  fetched: new Map(),
  step: '',
});

export interface Hold {
  readonly code: string;
  readonly text: string;
}

/**
 * Applies the lines in order. `fetch` gets a URL's content. Resolves to the hold that ended it, if
 * any.
 */
export async function applyPlan(
  plan: TakenPlan,
  has: Belongings,
  outside: { readonly fetch: (url: string) => Promise<Buffer>; readonly wal: () => 'present' | 'absent' },
): Promise<Hold | undefined> {
  has.requested.clear();
  for (const line of plan.lines) {
    const [what, ...words] = line.split(' ');
    const held = await perform(what!, words, { plan, has, line, ...outside });
    if (held) return held;
  }
  return undefined;
}

interface Performing {
  readonly plan: TakenPlan;
  readonly has: Belongings;
  readonly line: string;
  readonly fetch: (url: string) => Promise<Buffer>;
  readonly wal: () => 'present' | 'absent';
}

async function perform(what: string, words: readonly string[], of: Performing): Promise<Hold | undefined> {
  const { has, plan } = of;
  const [first = '', second = '', third = '', fourth = '', fifth = ''] = words;
  const content = (hash: string): string => plan.files.get(`files/${hash}`)!.toString('utf8');
  switch (what) {
    case 'hold':
      return { code: first, text: words.slice(1).join(' ') };
    case 'request':
      if (!has.keys.has(first)) has.keys.set(first, new MachineKey());
      has.requested.add(first);
      return undefined;
    case 'create-data':
      if (has.disk !== 'blank') return { code: 'create-data', text: of.line };
      has.disk = 'ours';
      has.filesystem = second;
      return undefined;
    case 'mount-data':
      return first === has.filesystem ? undefined : { code: 'data-mount', text: of.line };
    case 'marker': {
      const wanted = words.join(' ');
      if (has.marker !== '' && has.marker !== wanted) return { code: 'foreign-marker', text: has.marker };
      has.marker = wanted;
      return undefined;
    }
    case 'guard-new':
      return first === has.filesystem && of.wal() === 'absent' ? undefined : { code: 'guard', text: of.line };
    case 'put':
      has.files.set(third, content(second));
      return undefined;
    case 'put-with-key': {
      const key = has.keys.get(fourth);
      if (key === undefined) return { code: 'no-key', text: fourth };
      const own = fifth === 'base64' ? `${Buffer.from(key.pem).toString('base64')}\n` : key.pem;
      has.files.set(third, content(second) + own);
      return undefined;
    }
    case 'put-pair': {
      const own = plan.files.get(`files/${fourth}`)?.toString('utf8') ?? has.keys.get(fourth)?.pem;
      if (own === undefined) return { code: 'no-key', text: fourth };
      has.files.set(third, content(second));
      has.files.set(keyPathOf(third), own);
      return undefined;
    }
    case 'fetch':
    case 'unpack': {
      const [hash, path, url] = what === 'fetch' ? [second, third, fourth] : [first, second, third];
      // Several archives may be unpacked into one directory.
      const place = what === 'fetch' ? path : `${path}/${hash}`;
      if (has.fetched.get(place) === hash) return undefined;
      if (sha256(await of.fetch(url)) !== hash) return { code: 'wrong-hash', text: url };
      has.fetched.set(place, hash);
      return undefined;
    }
    case 'link':
      if (first !== 'absent' || !has.links.has(second)) has.links.set(second, third);
      return undefined;
    case 'remove':
      has.files.delete(first);
      return undefined;
    case 'run':
    case 'reload':
      has.units.set(first, second);
      return undefined;
    case 'stop':
      has.units.delete(first);
      return undefined;
    case 'step':
      has.step = first;
      return undefined;
    // Disks, listeners and the host are not simulated: these lines always succeed.
    case 'probe':
    case 'read-encryption':
    case 'guard-left':
    case 'bind':
    case 'directory':
    case 'check':
    case 'load':
      return undefined;
    default:
      // The machine would wait for the end of a hold until the test ends.
      throw new Error(`simulated machines do not know this line of a plan yet: ${of.line}`);
  }
}
