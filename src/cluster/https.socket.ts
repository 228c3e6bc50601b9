/**
 * One request over mTLS to something of a cluster (etcd's JSON gateway, an API server), with a
 * certificate made for the boot host.
 */
import https from 'node:https';
import { MusterError } from '../base/errors.ts';

/** Who we are there, and whom we believe. PEM. */
export interface Credentials {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

export interface Sent {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Sent as JSON. */
  readonly body?: object | undefined;
  /** Of the body; `application/json` unless it is said. */
  readonly contentType?: string | undefined;
  /** Milliseconds until an answer has to be whole. */
  readonly patience: number;
  /** Octets of an answer that are taken. */
  readonly limit: number;
  /** Ends it earlier. */
  readonly signal?: AbortSignal | undefined;
  /** Keeps connections; without it, one a request. */
  readonly agent?: https.Agent | undefined;
}

export interface Answer {
  readonly status: number;
  readonly text: string;
  /** The other side's clock, ms since 1970; whole seconds. */
  readonly date?: number;
}

/** Rejects when there is no whole answer in time; what the answer says is the caller's. */
export function ask(url: string, credentials: Credentials, sent: Sent): Promise<Answer> {
  const { method, body, patience, limit, signal, agent = false } = sent;
  const { ca, cert, key } = credentials;
  return new Promise((resolve, reject) => {
    const late = AbortSignal.timeout(patience);
    const ended = AbortSignal.any([late, ...(signal ? [signal] : [])]);
    // Node says of both that the operation was aborted, which tells nobody what to do.
    const failed = (cause: Error): void =>
      reject(late.aborted ? new Error(`no whole answer within ${patience / 1000} s`, { cause }) : cause);
    const headers = body === undefined ? {} : { 'content-type': sent.contentType ?? 'application/json' };
    const request = https.request(
      url,
      { method, headers, ca, cert, key, signal: ended, agent, minVersion: 'TLSv1.2' },
      (response) => {
        const parts: Buffer[] = [];
        let octets = 0;
        response.on('data', (part: Buffer) => {
          octets += part.length;
          if (octets > limit)
            request.destroy(new MusterError('E_TOO_LARGE', `${url} answers with more than ${limit} octets`));
          else parts.push(part);
        });
        response.on('error', failed);
        response.on('end', () => {
          const date = Date.parse(response.headers.date ?? '');
          resolve({
            status: response.statusCode ?? 0,
            text: Buffer.concat(parts).toString(),
            ...(Number.isNaN(date) ? {} : { date }),
          });
        });
      },
    );
    request.on('error', failed);
    request.end(body === undefined ? undefined : JSON.stringify(body));
  });
}
