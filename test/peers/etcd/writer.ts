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

export class Writer {
  readonly #machines: readonly Machine[];
  /** Key → when it was acknowledged, by the monotonic clock, ms. */
  readonly acknowledged = new Map<string, number>();
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
      const machine = this.#machines[turn % this.#machines.length]!;
      const key = PREFIX + String(this.#number++).padStart(8, '0');
      try {
        if (!machine.on) throw new Error('off');
        await this.#post(machine, '/v3/kv/put', { key: base64(key), value: base64(`value of ${key}`) });
        this.acknowledged.set(key, systemClock.monotonic());
      } catch {
        // It was not acknowledged, so it may be there or not.
      }
      await new Promise<void>((next) => systemClock.after(millis(25), next));
    }
  }

  /** Keys that this member has; `alone` reads them without a quorum. */
  async keys(machine: Machine, alone = false): Promise<ReadonlySet<string>> {
    const answer = (await this.#post(machine, '/v3/kv/range', {
      key: base64(PREFIX),
      range_end: base64(END),
      keys_only: true,
      serializable: alone,
    })) as { readonly kvs?: readonly { readonly key: string }[] };
    return new Set((answer.kvs ?? []).map(({ key }) => Buffer.from(key, 'base64').toString()));
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

  #known(): Credentials {
    for (const machine of this.#machines) {
      const [ca, cert, key] = ['ca-bundle.crt', 'healthcheck-client.crt', 'healthcheck-client.key'].map(
        (file) => machine.read(`${PKI}/${file}`),
      );
      if (ca && cert && key) this.#credentials ??= { ca, cert, key };
    }
    if (!this.#credentials) throw new Error('no certificates yet');
    return this.#credentials;
  }

  #post(machine: Machine, path: string, body: object): Promise<unknown> {
    const credentials = this.#known();
    return new Promise((done, fail) => {
      const asking = https.request(
        `https://${machine.address}:2379${path}`,
        { method: 'POST', ...credentials, agent: false, signal: AbortSignal.timeout(2500) },
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
