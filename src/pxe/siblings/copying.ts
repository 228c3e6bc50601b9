/**
 * Fetches the files of images and artifacts that this host lacks from the other boot hosts, one
 * after the other, whether it acts or stands by. So a take-over lacks no file, and a file that a
 * disk lost comes back.
 */
import { createHash } from 'node:crypto';
import { setBounded } from '../../base/aged.ts';
import { type Clock, pause } from '../../base/clock.ts';
import { type Millis, millis } from '../../base/duration.ts';
import { messageOf } from '../../base/error-text.ts';
import { MusterError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import { type FilesSaid, TROUBLES } from '../../store/etcd/hosts.ts';
import type { Assets } from '../assets/assets.files.ts';
import type { Wanted } from './wire.ts';

/** The octets of a file that a sibling sends. */
export interface Sent {
  /** Size of the whole file. */
  readonly total: number;
  readonly body: AsyncIterable<Uint8Array>;
}

/** Another boot host. */
export interface Sibling {
  readonly host: string;
  readonly acts: boolean;
  /** What it wants all hosts to have; undefined when it does not act. Rejects when unreachable. */
  wanted(signal: AbortSignal): Promise<Wanted | undefined>;
  /**
   * A file from `offset` on. `lacks`: it has none; `shorter`: it has no octet there. Rejects when
   * unreachable.
   */
  file(sha256: string, offset: number, signal: AbortSignal): Promise<Sent | 'lacks' | 'shorter'>;
}

export interface CopyingDeps {
  readonly assets: Pick<Assets, 'find' | 'list' | 'progress' | 'receive' | 'remove'>;
  /** The others that were heard lately. */
  readonly siblings: () => readonly Sibling[];
  /** What this host wants, if it acts; undefined while it stands by. */
  readonly own: () => Wanted | undefined;
  /** Octets a second at most. */
  readonly rate: number;
  /** Called when the others should know soon what {@link Copying.said} returns. */
  readonly changed: () => void;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

const EVERY: Millis = millis(5000);
/** After a round in which a host could not be asked: it may have started just now. */
const SOON: Millis = millis(2000);
/** A sibling that sent a file with another hash is not asked for it again so soon. */
const WRONG_FOR = millis(600_000);
const MOST_WRONG = 1000;
/** So many hashes at most are told to the others. */
const MOST_TOLD = 100;

/** Said while the acting host cannot be asked. */
const NOTHING_KNOWN: FilesSaid = { of: '', lacks: [], lacking: 0, octets: 0 };

type Trouble = NonNullable<FilesSaid['trouble']>;

/** Identifies a list of wanted files, so that what a host said of an older one is not believed. */
export const idOf = ({ files }: Pick<Wanted, 'files'>): string =>
  createHash('sha256')
    .update(files.map(({ sha256 }) => sha256).join())
    .digest('hex')
    .slice(0, 16);

export class Copying {
  readonly #deps: CopyingDeps;
  readonly #wrong = new Map<string, Millis>();
  #said: FilesSaid | undefined;
  /** When the octets that came so far were due by the rate. */
  #due = 0;
  readonly #ended: Promise<void>;

  constructor(deps: CopyingDeps) {
    this.#deps = deps;
    this.#ended = this.#run();
  }

  /** What this host lacks; undefined until it knows what it should have. */
  get said(): FilesSaid | undefined {
    return this.#said;
  }

  /** Resolves once `signal` has aborted and nothing is written any more. */
  get ended(): Promise<void> {
    return this.#ended;
  }

  async #run(): Promise<void> {
    const { clock, signal, log } = this.#deps;
    let told: string | undefined;
    while (!signal.aborted) {
      const again = await this.#round().catch((error: unknown) => {
        const text = messageOf(error).slice(0, 300);
        if (!signal.aborted && text !== told)
          log.warn({ cause: text }, 'cannot ask which files this host should have');
        told = text;
        this.#tell({ ...NOTHING_KNOWN, trouble: { code: 'unreachable', text } });
        return SOON;
      });
      await pause(clock, again, signal);
    }
  }

  /** Looks once what is lacking, and fetches it. Returns when to look again. */
  async #round(): Promise<Millis> {
    const { own, signal } = this.#deps;
    const wanted = own() ?? (await this.#asked());
    if (wanted === undefined || signal.aborted) return SOON;
    const here = new Set((await this.#deps.assets.list()).map(({ sha256 }) => sha256));
    let lacks = wanted.files.filter(({ sha256 }) => !here.has(sha256));
    await this.#removeAsOrdered(wanted);
    const troubles: Trouble[] = [];
    this.#say(wanted, lacks, this.#said?.trouble);
    for (const { sha256 } of lacks) {
      if (signal.aborted) return SOON;
      const trouble = await this.#fetch(sha256);
      if (trouble !== undefined) troubles.push(trouble);
      lacks = lacks.filter((one) => one.sha256 !== sha256 || trouble !== undefined);
      this.#say(wanted, lacks, worst(troubles));
    }
    this.#say(wanted, lacks, worst(troubles));
    return troubles.some(({ code }) => code === 'unreachable') ? SOON : EVERY;
  }

  async #asked(): Promise<Wanted | undefined> {
    const acting = this.#deps.siblings().find(({ acts }) => acts);
    return acting?.wanted(this.#deps.signal);
  }

  /** Removes what operators removed at the acting host, unless it is wanted again. */
  async #removeAsOrdered({ files, removed }: Wanted): Promise<void> {
    const { assets, own, log } = this.#deps;
    if (own() !== undefined) return;
    const still = new Set(files.map(({ sha256 }) => sha256));
    for (const sha256 of removed) {
      if (still.has(sha256) || assets.find(sha256) === undefined) continue;
      await assets.remove(sha256);
      log.info({ sha256 }, 'a file was removed, as at the acting host');
    }
  }

  /** Fetches a file from the first host that has it. Returns why it could not. */
  async #fetch(sha256: string): Promise<Trouble | undefined> {
    const { siblings, assets, clock, log, signal } = this.#deps;
    const troubles: Trouble[] = [];
    for (const sibling of siblings()) {
      const name = `${sibling.host} ${sha256}`;
      if ((this.#wrong.get(name) ?? Number.NEGATIVE_INFINITY) > clock.monotonic() - WRONG_FOR) {
        troubles.push({ code: 'damaged', text: `${sibling.host} sends another file for ${sha256}` });
        continue;
      }
      try {
        if (await this.#fetchFrom(sibling, sha256)) return undefined;
      } catch (error) {
        if (signal.aborted) return { code: 'unreachable', text: 'this host stops' };
        const trouble = troubleOf(error, sibling.host, sha256);
        troubles.push(trouble);
        log.warn({ sha256, from: sibling.host, cause: trouble.text }, 'a file could not be fetched');
        if (trouble.code === 'damaged') setBounded(this.#wrong, name, clock.monotonic(), MOST_WRONG);
        // Another source does not help.
        if (trouble.code === 'full' || trouble.code === 'disk') break;
      }
      // An operator may have uploaded it meanwhile.
      if ((await assets.progress(sha256)).complete) return undefined;
    }
    return worst(troubles) ?? { code: 'nowhere', text: `no boot host that answers has ${sha256}` };
  }

  /** Resolves to whether the file is here now. */
  async #fetchFrom(sibling: Sibling, sha256: string): Promise<boolean> {
    const { assets, log, signal } = this.#deps;
    const { received: offset } = await assets.progress(sha256);
    const sent = await sibling.file(sha256, offset, signal);
    if (sent === 'lacks') return false;
    if (sent === 'shorter') {
      // What an interrupted upload left cannot become this file.
      await assets.remove(sha256);
      return this.#fetchFrom(sibling, sha256);
    }
    const { total, body } = sent;
    const length = total - offset;
    try {
      await assets.receive({ sha256, offset, total, length, body: this.#slowed(body) });
    } catch (error) {
      // The octets that were there before may be the wrong ones, and are gone now.
      const wrong = error instanceof MusterError && error.code === 'E_ASSET_HASH';
      if (wrong && offset > 0) return this.#fetchFrom(sibling, sha256);
      throw error;
    }
    log.info({ sha256, from: sibling.host, octets: length, resumed: offset > 0 }, 'a file was fetched');
    return true;
  }

  /** The octets, no faster than the rate. */
  async *#slowed(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    const { clock, rate, signal } = this.#deps;
    for await (const part of body) {
      signal.throwIfAborted();
      const now = clock.monotonic();
      this.#due = Math.max(this.#due, now) + (part.length / rate) * 1000;
      if (this.#due > now + 50) await pause(clock, millis(this.#due - now), signal);
      yield part;
    }
  }

  #say(wanted: Wanted, lacks: readonly Wanted['files'][number][], trouble: Trouble | undefined): void {
    this.#tell({
      of: idOf(wanted),
      lacks: lacks.slice(0, MOST_TOLD).map(({ sha256 }) => sha256),
      lacking: lacks.length,
      octets: lacks.reduce((sum, { size = 0 }) => sum + size, 0),
      ...(lacks.length > 0 && trouble !== undefined && { trouble }),
    });
  }

  #tell(said: FilesSaid): void {
    const before = this.#said;
    this.#said = said;
    const whole = said.lacking === 0;
    if (
      before?.of !== said.of ||
      before.trouble?.code !== said.trouble?.code ||
      (before.lacking === 0) !== whole
    )
      this.#deps.changed();
  }
}

const worst = (troubles: readonly Trouble[]): Trouble | undefined =>
  TROUBLES.map((code) => troubles.find((one) => one.code === code)).find((one) => one !== undefined);

function troubleOf(error: unknown, host: string, sha256: string): Trouble {
  const text = messageOf(error).slice(0, 300);
  const code = error instanceof MusterError ? error.code : undefined;
  if (code === 'E_ASSET_SPACE') return { code: 'full', text };
  if (code === 'E_ASSET_WRITE') return { code: 'disk', text };
  if (code === 'E_ASSET_HASH') return { code: 'damaged', text: `${host} sends another file for ${sha256}` };
  return { code: 'unreachable', text };
}
