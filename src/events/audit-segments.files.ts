/**
 * The files of the security log: segments `audit-FIRST.jsonl`, named after the number of their
 * first entry. Lines are only ever appended; a line that was not written whole is taken away before
 * the next one comes.
 */
import { type FileHandle, mkdir, open, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { syncDirectory } from '../base/replace-file.files.ts';
import { type AuditEntry, readEntry } from './audit-chain.ts';

const SEGMENT = /^audit-([0-9]{12,15})\.jsonl$/;
const nameOf = (first: number): string => `audit-${String(first).padStart(12, '0')}.jsonl`;

/** The number of the first entry in the segment with this name; undefined for other files. */
export function segmentStart(name: string): number | undefined {
  const digits = SEGMENT.exec(name)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

interface Segment {
  readonly first: number;
  octets: number;
}

/** What the files hold when the log is opened. */
export interface FoundEntries {
  /** The newest entries that can be read, oldest first. */
  readonly recent: readonly AuditEntry[];
  /** Octets of an incomplete last line, which were removed. */
  readonly torn: number;
  /** Whether lines of the newest segment cannot be read. */
  readonly damaged: boolean;
}

export class AuditSegments {
  readonly #directory: string;
  readonly #segments: Segment[];
  #file: FileHandle | undefined;
  /** Something is after the last whole line of the growing segment. */
  #untidy = false;

  private constructor(directory: string, segments: Segment[]) {
    this.#directory = directory;
    this.#segments = segments;
  }

  /** Opens a directory, which is made when it is missing, for its owner alone. */
  static async open(directory: string): Promise<AuditSegments> {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const starts = (await readdir(directory)).flatMap((name) => segmentStart(name) ?? []);
    const segments: Segment[] = [];
    for (const first of starts.sort((a, b) => a - b))
      segments.push({ first, octets: (await stat(join(directory, nameOf(first)))).size });
    return new AuditSegments(directory, segments);
  }

  /** Octets of all segments. */
  get octets(): number {
    return this.#segments.reduce((sum, { octets }) => sum + octets, 0);
  }

  get count(): number {
    return this.#segments.length;
  }

  /** Octets of the segment that grows; 0 when the next line begins one. */
  get growing(): number {
    return this.#file === undefined && this.#segments.length === 0 ? 0 : this.#segments.at(-1)!.octets;
  }

  /** Number of the oldest entry that is kept. */
  get first(): number | undefined {
    return this.#segments[0]?.first;
  }

  #path(segment: Segment): string {
    return join(this.#directory, nameOf(segment.first));
  }

  /**
   * Reads the newest entries, at least `count` if there are so many, and repairs a torn last line.
   */
  async find(count: number): Promise<FoundEntries> {
    let recent: AuditEntry[] = [];
    let torn = 0;
    let damaged = false;
    for (const segment of this.#segments.toReversed()) {
      if (recent.length >= count) break;
      const octets = await readFile(this.#path(segment));
      const whole = octets.lastIndexOf(0x0a) + 1;
      const newest = segment === this.#segments.at(-1);
      if (newest && whole < octets.length) {
        torn = octets.length - whole;
        await this.#truncate(segment, whole);
      }
      const lines = octets.subarray(0, whole).toString('utf8').split('\n').slice(0, -1);
      const read = lines.map((line) => readEntry(line));
      if (newest) damaged = read.some(({ ok }) => !ok);
      recent = [...read.flatMap((one) => (one.ok ? one.entry : [])), ...recent];
    }
    return { recent, torn, damaged };
  }

  async #truncate(segment: Segment, octets: number): Promise<void> {
    const file = await open(this.#path(segment), 'r+');
    try {
      await file.truncate(octets);
      await file.datasync();
      segment.octets = octets;
    } finally {
      await file.close();
    }
  }

  /** Ends the growing segment; the next line begins another one. */
  async end(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    await file?.close();
  }

  /**
   * Appends lines, of which the first has the number `first`, and returns when they are on the
   * disk. After an error nothing of them counts, and they can be appended again.
   * @param fresh begins a new segment
   */
  async append(text: string, first: number, fresh: boolean): Promise<void> {
    if (fresh) await this.end();
    const segment = await this.#grow(first, fresh);
    if (this.#untidy) {
      await this.#file!.truncate(segment.octets);
      this.#untidy = false;
    }
    const octets = Buffer.from(text);
    this.#untidy = true;
    for (let at = 0; at < octets.length; ) {
      const { bytesWritten } = await this.#file!.write(octets, at);
      if (bytesWritten === 0) throw new Error('the disk took nothing');
      at += bytesWritten;
    }
    await this.#file!.datasync();
    this.#untidy = false;
    segment.octets += octets.length;
  }

  async #grow(first: number, fresh: boolean): Promise<Segment> {
    let segment = this.#segments.at(-1);
    if (this.#file !== undefined && segment !== undefined) return segment;
    const isNew = segment === undefined || (fresh && segment.first !== first);
    if (isNew) segment = { first, octets: 0 };
    this.#file = await open(this.#path(segment!), 'a', 0o600);
    if (isNew) {
      this.#segments.push(segment!);
      await syncDirectory(this.#directory);
    }
    return segment!;
  }

  /**
   * The oldest segment and its last entry, where that can be read; undefined when it is the only
   * one.
   */
  async oldest(): Promise<
    { readonly first: number; readonly octets: number; readonly last: AuditEntry | undefined } | undefined
  > {
    const [segment, next] = this.#segments;
    if (segment === undefined || next === undefined) return undefined;
    const lines = (await readFile(this.#path(segment), 'utf8')).trimEnd().split('\n');
    const read = readEntry(lines.at(-1)!);
    return { ...segment, last: read.ok ? read.entry : undefined };
  }

  /** Removes the oldest segment. */
  async removeOldest(): Promise<void> {
    const segment = this.#segments[0];
    if (segment === undefined) return;
    await rm(this.#path(segment), { force: true });
    this.#segments.shift();
    await syncDirectory(this.#directory);
  }

  /** All lines that are on the disk now, in pieces; what is removed meanwhile is still read. */
  async *read(): AsyncGenerator<string> {
    const files: { readonly file: FileHandle; readonly octets: number }[] = [];
    try {
      for (const segment of this.#segments)
        files.push({ file: await open(this.#path(segment), 'r'), octets: segment.octets });
      for (const { file, octets } of files) {
        if (octets === 0) continue;
        const pieces = file.createReadStream({
          start: 0,
          end: octets - 1,
          autoClose: false,
          encoding: 'utf8',
        });
        for await (const piece of pieces) yield piece as string;
      }
    } finally {
      for (const { file } of files) await file.close();
    }
  }
}
