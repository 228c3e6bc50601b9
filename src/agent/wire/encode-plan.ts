/** Encodes plans as tar; see ../README.md. Pure. */
import { createHash } from 'node:crypto';
import { type TarEntry, tar } from '../../artifacts/tar.ts';
import type { Plan, PlanContent, PlanLine } from './plan.ts';

const sha256 = (octets: Uint8Array | string): string => createHash('sha256').update(octets).digest('hex');

/** Thrown for a plan that the agent would not understand: a bug of the planner. */
export class UnsayablePlan extends Error {
  constructor(line: string) {
    super(`a plan cannot contain: ${line.slice(0, 200)}`);
    this.name = 'UnsayablePlan';
  }
}

const WORD = /^[A-Za-z0-9@%+=:,._/-]+$/;
/** A word that the agent makes part of a path, or passes to a command. */
export const PLAIN = /^[A-Za-z0-9@%+=:,_][A-Za-z0-9@%+=:,._-]*$/;
const PATH = /^\/[A-Za-z0-9@%+=:,._/-]+$/;
/** A path that a plan can name: the agent takes no line with `/..`. */
export const DEVICE = /^(?!.*\/\.\.)\/[A-Za-z0-9@%+=:,._/-]+$/;

const octetsOf = (content: PlanContent): Uint8Array =>
  'text' in content ? Buffer.from(content.text, 'utf8') : content.octets;

const modeText = (mode: number): string => mode.toString(8).padStart(3, '0');

interface EncodedLine {
  readonly plain?: readonly string[];
  readonly path?: string;
  readonly words?: readonly string[];
  readonly text: string;
}

const sizeOf = ({ size }: { readonly size?: number }): readonly number[] =>
  size === undefined ? [] : [size];

type DiskLine = Extract<
  PlanLine,
  {
    readonly do:
      | 'create-data'
      | 'create-etcd'
      | 'mount-data'
      | 'mount-etcd'
      | 'guard-new'
      | 'bind'
      | 'bind-etcd'
      | 'marker'
      | 'marker-etcd'
      | 'clear'
      | 'clear-etcd';
  }
>;

/** {@link encodeLine} for lines about the data disk and the etcd disk. */
function encodeDiskLine(line: DiskLine, of: (...words: readonly string[]) => string): EncodedLine {
  switch (line.do) {
    case 'create-data':
    case 'create-etcd': {
      const words = [line.filesystem, ...(line.encrypt === undefined ? [] : [line.encrypt])];
      return { plain: words, path: line.device, text: of(line.device, ...words) };
    }
    case 'mount-data':
    case 'mount-etcd':
    case 'guard-new':
      return { plain: [line.filesystem], text: of(line.filesystem) };
    case 'bind':
    case 'bind-etcd':
      return { plain: [line.directory], path: line.path, text: of(line.directory, line.path) };
    case 'marker':
    case 'marker-etcd':
    case 'clear':
    case 'clear-etcd': {
      const words = [line.cluster, line.founding, line.member, line.machine];
      return { plain: words, text: of(...words) };
    }
  }
}

/** The text of a line, with the words in it that must be checked; `hash` names a content. */
function encodeLine(line: PlanLine, hash: (content: PlanContent) => string): EncodedLine {
  const of = (...words: readonly (string | number)[]): string => [line.do, ...words].join(' ');
  const plain = (...words: readonly string[]): EncodedLine => ({ plain: words, text: of(...words) });
  switch (line.do) {
    case 'request': {
      const words = [line.leaf, line.algorithm, ...(line.replaces ? [line.replaces] : [])];
      return { plain: words, text: of(...words) };
    }
    case 'create-data':
    case 'create-etcd':
    case 'mount-data':
    case 'mount-etcd':
    case 'guard-new':
    case 'bind':
    case 'bind-etcd':
    case 'marker':
    case 'marker-etcd':
    case 'clear':
    case 'clear-etcd':
      return encodeDiskLine(line, of);
    case 'restore-etcd':
    case 'restore-snapshot': {
      const words = [line.cluster, line.from, line.to, line.member, line.machine, line.address, line.program];
      const { image } = line;
      const snapshot = line.do === 'restore-snapshot' ? [line.snapshot] : [];
      const plain = [...words, ...snapshot];
      const said = [...words, line.bump, ...snapshot];
      if (image === undefined) return { plain, text: of(...said) };
      // Checked like a path, so that an image is neither an option nor contains `..`.
      return { plain: [...plain, image.split('/')[0]!], path: `/${image}`, text: of(...said, image) };
    }
    case 'snapshot-etcd':
    case 'reboot':
      return plain(line.id);
    case 'guard-left':
      return plain(line.founding);
    case 'set-aside-etcd':
      return plain(line.member);
    case 'end-etcd':
      return plain(line.machine);
    case 'check':
      return { plain: [line.check], words: line.of, text: of(line.check, ...line.of) };
    case 'directory':
      return { path: line.path, text: of(modeText(line.mode), line.path) };
    case 'put':
      return { path: line.path, text: of(modeText(line.mode), hash(line.content), line.path) };
    case 'put-with-key':
      return {
        plain: [line.leaf],
        path: line.path,
        text: of(modeText(line.mode), hash(line.content), line.path, line.leaf, line.append),
      };
    case 'put-pair': {
      const key = 'leaf' in line.key ? line.key.leaf : hash(line.key.content);
      return {
        plain: [key, line.path.slice(line.path.lastIndexOf('.') + 1)],
        path: line.path,
        text: of(modeText(line.mode), hash(line.content), line.path, key),
      };
    }
    case 'put-owned':
      return {
        plain: [line.owner, line.group],
        path: line.path,
        text: of(modeText(line.mode), hash(line.content), line.path, line.owner, line.group),
      };
    case 'put-password':
      return { plain: [line.user], text: of(line.user, hash(line.content)) };
    case 'secret':
      return plain(line.id, line.tag);
    case 'fetch':
      return {
        plain: [line.sha256],
        path: line.path,
        words: [line.url],
        text: of(modeText(line.mode), line.sha256, line.path, line.url, ...sizeOf(line)),
      };
    case 'unpack':
      return {
        plain: [line.sha256],
        path: line.directory,
        words: [line.url],
        text: of(line.sha256, line.directory, line.url, ...sizeOf(line)),
      };
    case 'probe':
      return plain(line.listener, line.address, String(line.port), ...line.probes);
    case 'read-encryption':
      return plain(line.address, String(line.port), line.probe);
    case 'link':
      return {
        path: line.path,
        words: [line.to],
        text: of(line.onlyIfAbsent ? 'absent' : 'always', line.path, line.to),
      };
    case 'remove':
      return { path: line.path, text: of(line.path) };
    case 'load':
      return { plain: [line.digest], text: of(line.what, line.digest) };
    case 'run':
    case 'reload':
      return plain(line.unit, line.digest);
    case 'stop':
      return plain(line.unit);
    case 'step':
      return plain(line.step);
    case 'hold':
      // The only text for people; it becomes one line.
      return {
        plain: [line.code],
        text: of(line.code, line.text.replace(/[\s\p{Cc}]+/gu, ' ').trim() || '-'),
      };
  }
}

function lineText(line: PlanLine, hash: (content: PlanContent) => string): string {
  const { plain = [], path = '/-', words = [], text } = encodeLine(line, hash);
  const fits =
    plain.every((word) => PLAIN.test(word)) &&
    PATH.test(path) &&
    words.every((word) => WORD.test(word)) &&
    (line.do === 'hold' || !text.includes('/..'));
  if (!fits) throw new UnsayablePlan(text);
  return `${text}\n`;
}

interface EncodedPlan {
  /**
   * SHA-256 of all lines, which contain the hashes of all contents. Agents report it as `applied`.
   */
  readonly digest: string;
  /** The lines without contents, for people and tests. */
  readonly text: string;
  readonly tar: Buffer;
}

/**
 * Encodes a plan.
 *
 * @throws {UnsayablePlan} for a value that the agent would refuse or misread.
 */
export function encodePlan(plan: Plan): EncodedPlan {
  const files = new Map<string, TarEntry>();
  const hash = (content: PlanContent): string => {
    const octets = octetsOf(content);
    const name = sha256(octets);
    files.set(name, { name: `files/${name}`, content: octets });
    return name;
  };
  const lines = plan.lines.map((line) => lineText(line, hash)).join('');
  const digest = sha256(lines);
  const text = `muster-plan 1 ${digest}\n${lines}`;
  return {
    digest,
    text,
    tar: tar([{ name: 'plan', content: Buffer.from(text, 'utf8') }, ...files.values()]),
  };
}
