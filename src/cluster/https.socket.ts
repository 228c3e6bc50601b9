/** One request over mTLS to a cluster's etcd or API server, with the boot host's certificate. */
import https from 'node:https';
import { MusterError } from '../base/errors.ts';

/** The client's certificate and key, and the CA that is trusted. PEM. */
export interface Credentials {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

export interface Sent {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Sent as JSON. */
  readonly body?: object | undefined;
  /** The content type of the body; default `application/json`. */
  readonly contentType?: string | undefined;
  /** Milliseconds until the whole answer must be there. */
  readonly patience: number;
  /** The most octets that an answer may have. */
  readonly limit: number;
  /** Aborts the request. */
  readonly signal?: AbortSignal | undefined;
  /** Keeps connections open; without it, each request has its own connection. */
  readonly agent?: https.Agent | undefined;
}

export interface Answer {
  readonly status: number;
  readonly text: string;
  /** The server's clock from the header `Date`, ms since 1970, in whole seconds. */
  readonly date?: number;
}

/**
 * Sends one request, and resolves with the answer, whatever its status.
 *
 * @throws {MusterError} E_TOO_LARGE when the answer has more than `limit` octets. It also rejects
 *   when the answer is not complete in time or the connection fails.
 */
export function ask(url: string, credentials: Credentials, sent: Sent): Promise<Answer> {
  const { method, body, patience, limit, signal, agent = false } = sent;
  const { ca, cert, key } = credentials;
  return new Promise((resolve, reject) => {
    const late = AbortSignal.timeout(patience);
    const ended = AbortSignal.any([late, ...(signal ? [signal] : [])]);
    // Node's message is "the operation was aborted" for both signals, which helps nobody.
    const failed = (cause: Error): void =>
      reject(late.aborted ? new Error(`no whole answer within ${patience / 1000} s`, { cause }) : cause);
    const headers = body === undefined ? {} : { 'content-type': sent.contentType ?? 'application/json' };
    const request = https.request(
      url,
      // An imported CA may be an intermediate one, which is trusted without the CA above it.
      {
        method,
        headers,
        ca,
        cert,
        key,
        signal: ended,
        agent,
        minVersion: 'TLSv1.2',
        allowPartialTrustChain: true,
      },
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
