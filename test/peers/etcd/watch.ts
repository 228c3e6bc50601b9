/** A client that follows the writer's keys on one member of etcd, through its JSON gateway. */
import https from 'node:https';
import { systemClock } from '../../../src/base/clock.ts';
import { millis } from '../../../src/base/duration.ts';
import type { Machine } from './rack.ts';
import type { Writer } from './writer.ts';

const base64 = (text: string): string => Buffer.from(text).toString('base64');

interface Answer {
  readonly result?: {
    readonly header?: { readonly revision?: string };
    readonly events?: readonly { readonly kv?: { readonly key?: string; readonly mod_revision?: string } }[];
  };
}

export class Watch {
  readonly seen = new Set<string>();
  /** How often the stream ended. */
  breaks = 0;
  readonly #machine: Machine;
  readonly #writer: Writer;
  readonly #stopping = new AbortController();
  readonly #running: Promise<void>;
  #next = 1;

  constructor(machine: Machine, writer: Writer) {
    this.#machine = machine;
    this.#writer = writer;
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    let open = false;
    while (!this.#stopping.signal.aborted) {
      const began = await this.#follow().catch(() => false);
      if (began && !this.#stopping.signal.aborted) this.breaks++;
      open = began || open;
      await new Promise<void>((again) => systemClock.after(millis(100), again));
    }
  }

  /** Follows until the stream ends. Resolves with whether it had begun. */
  #follow(): Promise<boolean> {
    return new Promise((done) => {
      let began = false;
      const end = (): void => done(began);
      const asking = https.request(
        `https://${this.#machine.address}:2379/v3/watch`,
        { method: 'POST', ...this.#writer.credentials(), agent: false, signal: this.#stopping.signal },
        (answer) => {
          let rest = '';
          answer.setEncoding('utf8');
          answer.on('data', (part: string) => {
            began = true;
            const lines = (rest + part).split('\n');
            rest = lines.pop() ?? '';
            for (const line of lines) this.#take(JSON.parse(line) as Answer);
          });
          answer.on('error', end);
          answer.on('close', end);
        },
      );
      asking.on('error', end);
      asking.end(
        `${JSON.stringify({
          create_request: {
            key: base64('written/'),
            range_end: base64('written0'),
            start_revision: String(this.#next),
          },
        })}\n`,
      );
    });
  }

  #take({ result }: Answer): void {
    for (const { kv } of result?.events ?? []) {
      this.seen.add(Buffer.from(kv?.key ?? '', 'base64').toString());
      this.#next = Math.max(this.#next, Number(kv?.mod_revision ?? 0) + 1);
    }
  }
}
