/** Sends a request to a server that an operator named: of a Webhook, of a hook, of traces. */
import dns from 'node:dns';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import { bounded } from './bounded.ts';
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

/** Sends requests. Redirects are not followed. */
export interface Posting {
  /**
   * Sends a request, and returns the status of the answer, whose content is not read. Rejects when
   * no answer came before `signal` aborted.
   */
  readonly post: (posted: Posted, signal: AbortSignal) => Promise<number>;
  /**
   * Sends a request over a connection of its own, and returns the whole answer. Rejects when the
   * answer is not complete before `signal` aborts.
   *
   * @throws {MusterError} E_TOO_LARGE when the answer has more than `limit` octets
   */
  readonly postAndRead: PostAndRead;
}

/**
 * What sends requests.
 *
 * @param local whether they may go to this host itself and to link-local addresses, where programs
 *   and metadata services answer that only this host should reach. The address that is connected to
 *   is looked at, so no name leads there either.
 * @throws {MusterError} E_LOCAL_ADDRESS, from its methods
 */
export function createPost({ local }: { readonly local: boolean }): Posting {
  const open = ({ url, headers, body }: Posted, signal: AbortSignal, ca?: string) =>
    new Promise<http.IncomingMessage>((resolve, reject) => {
      const { protocol, hostname } = new URL(url);
      if (!local && isLocal(hostname.replace(/^\[|\]$/g, ''))) return reject(localAddress());
      const transport = protocol === 'http:' ? http : https;
      const options = { method: 'POST', headers, signal, agent: false as const };
      const trusted = ca === undefined ? {} : { ca, allowPartialTrustChain: true };
      const found = local ? {} : { lookup: lookupElsewhere };
      const request = transport.request(url, { ...options, ...trusted, ...found }, resolve);
      request.on('error', reject);
      request.end(body);
    });
  return {
    async post(posted, signal) {
      const response = await open(posted, signal);
      response.destroy();
      return response.statusCode ?? 0;
    },
    async postAndRead(posted, { limit, ca }, signal) {
      const response = await open(posted, signal, ca);
      const octets = await bounded(response, limit);
      if (octets === undefined)
        throw new MusterError('E_TOO_LARGE', `its answer has more than ${limit} octets`);
      return { status: response.statusCode ?? 0, text: octets.toString('utf8') };
    },
  };
}

/** Loopback, unspecified and link-local addresses. */
const LOCAL = new net.BlockList();
for (const [address, bits] of [
  ['0.0.0.0', 8],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
] as const)
  LOCAL.addSubnet(address, bits, 'ipv4');
LOCAL.addSubnet('::', 127, 'ipv6');
LOCAL.addSubnet('fe80::', 10, 'ipv6');

function isLocal(host: string): boolean {
  const family = net.isIP(host);
  // A list finds an IPv4 address also where it is written as an IPv6 one.
  return family !== 0 && LOCAL.check(host, family === 4 ? 'ipv4' : 'ipv6');
}

const localAddress = () =>
  new MusterError('E_LOCAL_ADDRESS', 'its address is one of the boot host itself, or link-local');

/** As `dns.lookup`, but fails for a name with a local address. */
const lookupElsewhere: net.LookupFunction = (hostname, options, done) =>
  dns.lookup(hostname, { ...options, all: true }, (error, found) => {
    if (error) return done(error, []);
    if (found.some(({ address }) => isLocal(address))) return done(localAddress(), []);
    if (options.all) return done(null, found);
    const [first] = found;
    done(null, first!.address, first!.family);
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
