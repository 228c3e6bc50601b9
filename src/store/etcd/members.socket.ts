/**
 * Connections to the members of etcd. A call goes to one member; a member that fails or is silent
 * is left for the next one, and its connection is opened again when its turn comes.
 */
import fs from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { Code, ConnectError, type Transport } from '@connectrpc/connect';
import { createGrpcTransport, Http2SessionManager } from '@connectrpc/connect-node';
import { systemClock } from '../../base/clock.ts';
import { messageOf } from '../../base/error-text.ts';
import { MusterError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import {
  type InputOf,
  type Method,
  type OutputOf,
  type Stream,
  type StreamInputOf,
  type StreamOutputOf,
  streamOf,
  unaryOf,
} from './api.ts';

/** Where the members are, and how to speak to them. */
export interface MembersOptions {
  /** HOST:PORT of each member. */
  readonly endpoints: readonly string[];
  /** PEM files, read again for each connection; undefined: no TLS. */
  readonly files: { readonly ca: string; readonly cert: string; readonly key: string } | undefined;
  readonly log: Log;
}

/** How long one member may take for an answer that is urgent, for any other one, and to connect. */
const URGENT_MS = 1000;
const ANSWER_MS = 3000;
const CONNECT_MS = 1000;
/** Between two rounds through all members. */
const ROUND_MS = 100;

/** A member refuses a request for a reason that the other members share. */
const FINAL: ReadonlySet<Code> = new Set([
  Code.InvalidArgument,
  Code.NotFound,
  Code.OutOfRange,
  Code.PermissionDenied,
  Code.Unauthenticated,
  Code.Unimplemented,
  Code.FailedPrecondition,
]);

/** What the untyped descriptors take; api.ts has the types. */
type Untyped = Record<string, unknown>;

interface Member {
  readonly endpoint: string;
  connection: { readonly transport: Transport; close(): void } | undefined;
}

/** How long all tries may take. */
export interface CallOptions {
  /** Total time for all tries, ms; a function: asked before each try how much is left. */
  readonly withinMs: number | (() => number);
  /** Another member is asked after a second. */
  readonly urgent?: boolean;
  readonly signal?: AbortSignal | undefined;
  /** Whether an answer counts; another member is asked when it does not. */
  readonly counts?: (revision: number) => boolean;
}

export class Members {
  readonly #options: MembersOptions;
  readonly #members: readonly Member[];
  #at: number;

  constructor(options: MembersOptions) {
    this.#options = options;
    this.#members = options.endpoints.map((endpoint) => ({ endpoint, connection: undefined }));
    this.#at = Math.floor(Math.random() * this.#members.length);
  }

  get count(): number {
    return this.#members.length;
  }

  /**
   * Asks one member after the other until one answers. A request may be carried out more than once,
   * also after this rejected.
   *
   * @throws {MusterError} E_STORE_UNSURE when none answered in time; the error of
   *   {@link refusalOf} when etcd refuses.
   */
  async ask<M extends Method>(method: M, input: InputOf<M>, options: CallOptions): Promise<OutputOf<M>> {
    const { withinMs, urgent = false } = options;
    const began = systemClock.monotonic();
    const leftMs = (): number =>
      typeof withinMs === 'number' ? began + withinMs - systemClock.monotonic() : withinMs();
    let last: unknown = new Error('no member was asked');
    for (let tries = 1; ; tries++) {
      options.signal?.throwIfAborted();
      const left = leftMs();
      if (left <= 0)
        throw new MusterError('E_STORE_UNSURE', `no member of etcd answered: ${messageOf(last)}`, {
          cause: last,
        });
      const member = this.#members[this.#at]!;
      try {
        // gRPC's header takes whole milliseconds.
        const timeout = Math.ceil(Math.min(urgent ? URGENT_MS : ANSWER_MS, Math.max(left, 50)));
        const answer = await this.askOne(
          method,
          input,
          this.#members.indexOf(member),
          timeout,
          options.signal,
        );
        const revision = Number((answer as { header?: { revision: bigint } }).header?.revision ?? 0n);
        if (!options.counts || options.counts(revision)) return answer;
        last = new Error(`${member.endpoint} is behind`);
      } catch (error) {
        last = error;
        const refusal = refusalOf(error);
        if (refusal) throw refusal;
      }
      this.#leave(member, last);
      if (tries % this.#members.length === 0) await wait(ROUND_MS);
    }
  }

  /** Asks the member at `place` once. */
  async askOne<M extends Method>(
    method: M,
    input: InputOf<M>,
    place: number,
    withinMs: number,
    signal?: AbortSignal,
  ): Promise<OutputOf<M>> {
    const { transport } = this.#connectionOf(this.#members[place]!);
    // The table in api.ts is the type of the untyped descriptor.
    const answer = await transport.unary(unaryOf(method), signal, withinMs, undefined, input as Untyped);
    return answer.message as unknown as OutputOf<M>;
  }

  /** Opens a stream to the present member. A failure of the stream should be told to `leave`. */
  async stream<S extends Stream>(
    method: S,
    input: AsyncIterable<StreamInputOf<S>>,
    signal: AbortSignal,
  ): Promise<{ readonly answers: AsyncIterable<StreamOutputOf<S>>; leave(cause: unknown): void }> {
    const member = this.#members[this.#at]!;
    const leave = (cause: unknown): void => this.#leave(member, cause);
    try {
      const { transport } = this.#connectionOf(member);
      const headers = { hasleader: 'true' };
      const answer = await transport.stream(
        streamOf(method),
        signal,
        undefined,
        headers,
        input as AsyncIterable<Untyped>,
      );
      return { answers: answer.message as unknown as AsyncIterable<StreamOutputOf<S>>, leave };
    } catch (error) {
      leave(error);
      throw error;
    }
  }

  /** HOST:PORT of the member at `place`. */
  nameOf(place: number): string {
    return this.#members[place]!.endpoint;
  }

  close(): void {
    for (const member of this.#members) this.#disconnect(member);
  }

  /** Goes to the next member, if this one is still the present one. */
  #leave(member: Member, cause: unknown): void {
    if (this.#members[this.#at] === member) {
      this.#at = (this.#at + 1) % this.#members.length;
      this.#options.log.warn(
        { member: member.endpoint, cause: messageOf(cause), next: this.#members[this.#at]!.endpoint },
        'a member of etcd does not answer as it should',
      );
    }
    this.#disconnect(member);
  }

  #disconnect(member: Member): void {
    member.connection?.close();
    member.connection = undefined;
  }

  #connectionOf(member: Member): NonNullable<Member['connection']> {
    member.connection ??= connect(member.endpoint, this.#options.files);
    return member.connection;
  }
}

function connect(endpoint: string, files: MembersOptions['files']): NonNullable<Member['connection']> {
  const baseUrl = `${files ? 'https' : 'http'}://${endpoint}`;
  const tls = files && {
    ca: fs.readFileSync(files.ca),
    cert: fs.readFileSync(files.cert),
    key: fs.readFileSync(files.key),
  };
  const sessionManager = new Http2SessionManager(
    baseUrl,
    { pingIntervalMs: 10_000, pingTimeoutMs: URGENT_MS, connectTimeoutMs: CONNECT_MS },
    tls ?? {},
  );
  return {
    transport: createGrpcTransport({ baseUrl, sessionManager, acceptCompression: [] }),
    close: () => sessionManager.abort(new ConnectError('the connection was left', Code.Unavailable)),
  };
}

/** What etcd's refusal means; undefined when another member may answer. */
export function refusalOf(error: unknown): MusterError | undefined {
  if (error instanceof MusterError) return error;
  if (!(error instanceof ConnectError)) return undefined;
  const { code, rawMessage: text } = error;
  if (code === Code.ResourceExhausted && text.includes('space exceeded'))
    return new MusterError('E_STORE_WRITE', `etcd is full: ${text}`, { cause: error });
  if (code === Code.ResourceExhausted && text.includes('larger than max'))
    return new MusterError('E_STORE_LIMIT', text, { cause: error });
  if (!FINAL.has(code)) return undefined;
  if (code === Code.OutOfRange) return new MusterError('E_STORE_COMPACTED', text, { cause: error });
  if (code === Code.NotFound) return new MusterError('E_STORE_CLOSED', text, { cause: error });
  if (code === Code.InvalidArgument) return new MusterError('E_STORE_LIMIT', text, { cause: error });
  return new MusterError('E_STORE_OPEN', `etcd refuses: ${text}`, { cause: error });
}
