/** Sends a request to a server that an operator named: of a Webhook, of a hook, of traces. */
import http from 'node:http';
import https from 'node:https';
import { MusterError } from './errors.ts';
import { withoutSecrets } from './without-secrets.ts';

/** A body and its headers, for one URL. */
export interface Posted {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** How much of the answer is read, and which CA signs the certificate of the server. */
export interface Read {
  /** The most octets that an answer may have. */
  readonly limit: number;
  /** PEM. Absent: the CAs that Node trusts. */
  readonly ca?: string | undefined;
}

export interface Answered {
  readonly status: number;
  readonly text: string;
}

export type PostAndRead = (posted: Posted, read: Read, signal: AbortSignal) => Promise<Answered>;

/**
 * Sends a request, and returns the status of the answer. The content of the answer is not read.
 * Rejects when no answer came before `signal` aborted.
 */
export async function post({ url, headers, body }: Posted, signal: AbortSignal): Promise<number> {
  const response = await fetch(url, { method: 'POST', headers, body, signal, redirect: 'manual' });
  await response.body?.cancel();
  return response.status;
}

/**
 * Sends a request over a connection of its own, and returns the whole answer. Redirects are not
 * followed. Rejects when the answer is not complete before `signal` aborts.
 *
 * @throws {MusterError} E_TOO_LARGE when the answer has more than `limit` octets
 */
export const postAndRead: PostAndRead = ({ url, headers, body }, { limit, ca }, signal) =>
  new Promise((resolve, reject) => {
    const transport = new URL(url).protocol === 'http:' ? http : https;
    const options = { method: 'POST', headers, signal, agent: false as const };
    const trusted = ca === undefined ? {} : { ca, allowPartialTrustChain: true };
    const request = transport.request(url, { ...options, ...trusted }, (response) => {
      const parts: Buffer[] = [];
      let octets = 0;
      response.on('data', (part: Buffer) => {
        octets += part.length;
        if (octets > limit)
          response.destroy(new MusterError('E_TOO_LARGE', `its answer has more than ${limit} octets`));
        else parts.push(part);
      });
      response.on('error', reject);
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, text: Buffer.concat(parts).toString('utf8') }),
      );
    });
    request.on('error', reject);
    request.end(body);
  });

/**
 * Why a request failed, in few words. fetch says only "fetch failed"; its cause says why. Other
 * texts can contain the address.
 */
export function whyFailed(error: unknown): string {
  if (error instanceof MusterError) return error.message;
  const { cause, code, name } = error as {
    readonly cause?: { readonly code?: string; readonly message?: string };
    readonly code?: string;
    readonly name?: string;
  };
  const said = cause?.message && withoutSecrets(cause.message);
  return cause?.code ?? said ?? (typeof code === 'string' ? code : undefined) ?? name ?? 'unknown';
}
