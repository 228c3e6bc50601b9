/**
 * A client that writes to etcd continuously over mTLS, and remembers every acknowledged write.
 */
import https from 'node:https';
import { systemClock } from '../../../src/base/clock.ts';
import { millis } from '../../../src/base/duration.ts';
import type { Machine } from './rack.ts';

interface Credentials {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

const PKI = '/etc/kubernetes/pki/etcd';
const base64 = (text: string): string => Buffer.from(text).toString('base64');
const PREFIX = 'written/';
const END = 'written0';
/** etcd gives a write up after 7 s. A shorter limit would fail writes on a busy host instead. */
const LIMIT_MS = 10_000;
/** How many keys one answer has; after an hour of writing, all of them would take too long. */
const PAGE = 10_000;

export class Writer {
  readonly #machines: readonly Machine[];
  /** Key → when it was acknowledged, by the monotonic clock, ms. */
  readonly acknowledged = new Map<string, number>();
  /** Writes that failed at one member and at the next one too, with both errors. */
  readonly failedTwice: string[] = [];
  /** Whether it reads the CA again for each connection; otherwise it trusts the first one only. */
  readsCaAgain = false;
  #credentials: Credentials | undefined;
  #writing: Promise<void> | undefined;
  #stop = false;
  #number = 0;

  constructor(machines: readonly Machine[]) {
    this.#machines = machines;
  }

  start(): void {
    this.#stop = false;
    this.#writing ??= this.#write();
  }

  async stop(): Promise<void> {
    this.#stop = true;
    await this.#writing;
    this.#writing = undefined;
  }

  async #write(): Promise<void> {
    for (let turn = 0; !this.#stop; turn++) {
      const key = PREFIX + String(this.#number++).padStart(8, '0');
      const errors: string[] = [];
      const on = this.#machines.filter((machine) => machine.on);
      for (const offset of [0, 1]) {
        const machine = on[(turn + offset) % on.length];
        if (machine === undefined) break;
        const error = await this.#put(machine, key);
        if (error === undefined) break;
        errors.push(`${machine.name}: ${error}`);
      }
      // What was not acknowledged may be there or not.
      if (errors.length > 1) this.failedTwice.push(`${key}: ${errors.join(', ')}`);
      await new Promise<void>((next) => systemClock.after(millis(25), next));
    }
  }

  /** Writes one key; resolves with the error, if it was not acknowledged. */
  async #put(machine: Machine, key: string): Promise<string | undefined> {
    try {
      await this.#post(machine, '/v3/kv/put', { key: base64(key), value: base64(`value of ${key}`) });
      this.acknowledged.set(key, systemClock.monotonic());
      return undefined;
    } catch (error) {
      return (error as Error).message;
    }
  }

  /** Writes one large key again and again until etcd is full; resolves with etcd's refusal. */
  async fill(machine: Machine): Promise<string> {
    const body = { key: base64('large'), value: base64('x'.repeat(500_000)) };
    for (let n = 0; n < 1000; n++)
      try {
        await this.#post(machine, '/v3/kv/put', body);
      } catch (error) {
        return (error as Error).message;
      }
    throw new Error('etcd took 500 MB and is not full');
  }

  /** Whether this member is etcd's leader. */
  async leads(machine: Machine): Promise<boolean> {
    const { header, leader } = (await this.#post(machine, '/v3/maintenance/status', {})) as {
      readonly header: { readonly member_id: string };
      readonly leader?: string;
    };
    if (leader === undefined || leader === '0') throw new Error(`${machine.name} knows no leader`);
    return leader === header.member_id;
  }

  /** Keys that this member has; `alone` reads them without a quorum. */
  async keys(machine: Machine, alone = false): Promise<ReadonlySet<string>> {
    const found = new Set<string>();
    for (let from = PREFIX; ; ) {
      const { kvs = [], more } = (await this.#post(machine, '/v3/kv/range', {
        key: base64(from),
        range_end: base64(END),
        keys_only: true,
        serializable: alone,
        limit: PAGE,
      })) as { readonly kvs?: readonly { readonly key: string }[]; readonly more?: boolean };
      for (const { key } of kvs) found.add(Buffer.from(key, 'base64').toString());
      if (!more || kvs.length === 0) return found;
      from = `${Buffer.from(kvs.at(-1)!.key, 'base64')}\0`;
    }
  }

  /** Acknowledged writes that this member lacks; `before`: only those up to that moment. */
  async missing(
    machine: Machine,
    alone = false,
    before = Number.POSITIVE_INFINITY,
  ): Promise<readonly string[]> {
    const there = await this.keys(machine, alone);
    return [...this.acknowledged].flatMap(([key, at]) => (at <= before && !there.has(key) ? [key] : []));
  }

  /**
   * Reads certificate and key for each connection, as API servers do. The CA stays the one with
   * which the writer began, unless it `readsCaAgain`.
   */
  credentials(): Credentials {
    for (const machine of this.#machines) {
      const [ca, cert, key] = ['ca-bundle.crt', 'healthcheck-client.crt', 'healthcheck-client.key'].map(
        (file) => machine.read(`${PKI}/${file}`),
      );
      if (ca && cert && key) {
        const trusted = this.readsCaAgain ? ca : (this.#credentials?.ca ?? ca);
        this.#credentials = { ca: trusted, cert, key };
        break;
      }
    }
    if (!this.#credentials) throw new Error('no certificates yet');
    return this.#credentials;
  }

  #post(machine: Machine, path: string, body: object): Promise<unknown> {
    const credentials = this.credentials();
    return new Promise((done, fail) => {
      const asking = https.request(
        `https://${machine.address}:2379${path}`,
        { method: 'POST', ...credentials, agent: false, signal: AbortSignal.timeout(LIMIT_MS) },
        (answer) => {
          let text = '';
          answer.setEncoding('utf8');
          answer.on('data', (part) => (text += part));
          answer.on('error', fail);
          answer.on('end', () =>
            answer.statusCode === 200 ? done(JSON.parse(text)) : fail(new Error(text)),
          );
        },
      );
      asking.on('error', fail);
      asking.end(JSON.stringify(body));
    });
  }
}
