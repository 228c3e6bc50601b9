/** One request to a sibling. Its certificate is compared before anything is sent. */
import http, { type IncomingMessage } from 'node:http';
import tls, { type TLSSocket } from 'node:tls';
import { bounded } from '../../base/bounded.ts';
import { MusterError } from '../../base/errors.ts';
import { fingerprintOf, type Pair } from './pair.ts';

/** Where a sibling is, and the certificate that it has to show. */
export interface SiblingAt {
  readonly host: string;
  readonly addresses: readonly string[];
  readonly port: number;
  readonly fingerprint: string;
}

/** An address that does not take a connection in this time is left for the next one. */
const CONNECT_MS = 3000;
/** A connection that carries nothing for this long is cut. */
const STALLED_MS = 30_000;
/** The longest answer that {@link textOf} reads. */
const TEXT_OCTETS = 16 * 1024 * 1024;

export interface Asked {
  readonly method?: 'GET' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal: AbortSignal;
}

/**
 * Asks a sibling at the first of its addresses that answers.
 *
 * @throws {MusterError} E_UNREACHABLE when none does, or another certificate is shown there
 */
export async function askSibling(
  pair: Pair,
  at: SiblingAt,
  path: string,
  { method = 'GET', headers = {}, body, signal }: Asked,
): Promise<IncomingMessage> {
  let last: unknown = new Error('it has no address');
  for (const address of at.addresses) {
    signal.throwIfAborted();
    try {
      const socket = await connect(pair, address, at, signal);
      return await new Promise<IncomingMessage>((resolve, reject) => {
        const asked = http.request({
          ...{ method, path, headers: { host: 'sibling', ...headers } },
          createConnection: () => socket,
        });
        asked.once('response', resolve);
        asked.once('error', reject);
        asked.end(body);
      });
    } catch (error) {
      last = error;
    }
  }
  signal.throwIfAborted();
  const why = last instanceof Error ? last.message : String(last);
  throw new MusterError(
    'E_UNREACHABLE',
    `${at.host} at ${at.addresses.join(', ')}, port ${at.port}: ${why}`,
    {
      cause: last,
    },
  );
}

function connect(pair: Pair, host: string, at: SiblingAt, signal: AbortSignal): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = tls.connect({
      ...{ host, port: at.port, cert: pair.certificate, key: pair.key.pem(), minVersion: 'TLSv1.3' },
      // The fingerprint decides, which is compared below.
      rejectUnauthorized: false,
    });
    const late = setTimeout(() => socket.destroy(new Error('it does not answer')), CONNECT_MS);
    const stop = (): void => void socket.destroy(new Error('interrupted'));
    signal.addEventListener('abort', stop, { once: true });
    socket.once('close', () => {
      clearTimeout(late);
      signal.removeEventListener('abort', stop);
    });
    socket.setTimeout(STALLED_MS, () => socket.destroy(new Error('it went silent')));
    socket.once('error', reject);
    socket.once('secureConnect', () => {
      clearTimeout(late);
      const shown = socket.getPeerX509Certificate();
      if (shown !== undefined && fingerprintOf(shown) === at.fingerprint) resolve(socket);
      else socket.destroy(new Error('another certificate than that of this boot host is shown there'));
    });
  });
}

/**
 * The text of an answer.
 *
 * @throws {MusterError} E_UNREACHABLE when it is too long
 */
export async function textOf(answer: IncomingMessage): Promise<string> {
  const octets = await bounded(answer, TEXT_OCTETS);
  if (octets === undefined) throw new MusterError('E_UNREACHABLE', 'the answer of a boot host is too long');
  return octets.toString();
}
