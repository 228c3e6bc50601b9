/** Asks the signer through its socket. */
import { createConnection, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { ERRORS, type ErrorCode, MusterError } from '../../base/errors.ts';
import { fieldsOf, parsed, textOf } from '../../base/foreign-json.ts';
import { MOST_CHARACTERS } from './listen.socket.ts';
import type { Ask } from './requests.ts';

/** A signer that is restarted is there again within this time, in milliseconds. */
const PATIENCE_MS = 5_000;
const BETWEEN_TRIES_MS = 100;
/** A request that takes longer has no answer: the largest RSA key takes a few seconds to make. */
const LONGEST_MS = 60_000;

interface Waiting {
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: Error) => void;
}

const failed = (path: string, why: string, cause?: unknown): MusterError =>
  new MusterError('E_SIGNER', `the signer at ${path} ${why}`, { cause });

/** The signer at a socket. It is connected to when it is first asked, and again when that ends. */
export class SignerClient implements AsyncDisposable {
  readonly #path: string;
  #connection: Promise<Socket> | undefined;
  readonly #waiting = new Map<number, Waiting>();
  #last = 0;

  constructor(path: string) {
    this.#path = path;
  }

  /** @throws {MusterError} E_SIGNER when nobody answers; what the signer says otherwise */
  readonly ask: Ask = (kind, body) => this.request(kind, body) as never;

  /** As {@link ask}, of a request by its name. */
  async request(kind: string, body: unknown): Promise<unknown> {
    this.#connection ??= this.#connect();
    const connection = await this.#connection;
    const id = ++this.#last;
    const { promise, ...waiting } = Promise.withResolvers<unknown>();
    this.#waiting.set(id, waiting);
    const late = setTimeout(() => waiting.reject(failed(this.#path, 'does not answer')), LONGEST_MS);
    connection.write(`${JSON.stringify({ id, ask: kind, body })}\n`);
    try {
      return await promise;
    } finally {
      clearTimeout(late);
      this.#waiting.delete(id);
    }
  }

  async #connect(): Promise<Socket> {
    const until = performance.now() + PATIENCE_MS;
    for (;;) {
      try {
        return await this.#connectOnce();
      } catch (cause) {
        if (performance.now() < until) await wait(BETWEEN_TRIES_MS);
        else {
          this.#connection = undefined;
          throw failed(this.#path, `cannot be reached: ${(cause as NodeJS.ErrnoException).code}`, cause);
        }
      }
    }
  }

  #connectOnce(): Promise<Socket> {
    return new Promise((resolve, reject) => {
      const connection = createConnection(this.#path);
      let text = '';
      connection.once('connect', () => resolve(connection));
      connection.setEncoding('utf8').on('data', (more: string) => {
        text += more;
        const lines = text.split('\n');
        text = lines.pop()!;
        for (const line of lines) this.#heard(line);
        if (text.length > MOST_CHARACTERS) connection.destroy();
      });
      connection.once('error', reject);
      connection.once('close', () => {
        this.#connection = undefined;
        for (const { reject: give } of this.#waiting.values()) give(failed(this.#path, 'ended'));
        this.#waiting.clear();
      });
    });
  }

  #heard(line: string): void {
    const { id, answer, error } = fieldsOf(parsed(line));
    const waiting = this.#waiting.get(Number(id));
    if (waiting === undefined) return;
    if (error === undefined) {
      waiting.resolve(answer);
      return;
    }
    const { code, message } = fieldsOf(error);
    const known = Object.hasOwn(ERRORS, textOf(code)) ? (code as ErrorCode) : 'E_SIGNER';
    waiting.reject(new MusterError(known, textOf(message)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    (await this.#connection?.catch(() => undefined))?.destroy();
  }
}
