/** Reads which CA a server shows, before anything is sent to it. */
import { X509Certificate } from 'node:crypto';
import tls, { type DetailedPeerCertificate } from 'node:tls';
import { MusterError } from '../../base/errors.ts';

const LIMIT_MS = 10_000;

/**
 * The last certificate of the chain that the server at `url` shows, and its SHA-256 fingerprint. It
 * is trusted only after the operator has compared the fingerprint.
 *
 * @throws {MusterError} E_UNREACHABLE when nothing answers, or the chain ends with no CA
 */
export function shownAuthority(
  url: string,
  signal: AbortSignal,
): Promise<{ readonly pem: string; readonly fingerprint: string }> {
  const { hostname, port } = new URL(url);
  const host = hostname.replace(/^\[|\]$/g, '');
  return new Promise((resolve, reject) => {
    const fail = (text: string, cause?: unknown): void =>
      reject(new MusterError('E_UNREACHABLE', `${url}: ${text}`, { cause }));
    // The chain is only looked at here; the connection carries nothing.
    const socket = tls.connect({ host, port: Number(port || 443), rejectUnauthorized: false });
    const stop = (): void => void socket.destroy(new Error('interrupted'));
    signal.addEventListener('abort', stop, { once: true });
    socket.once('close', () => signal.removeEventListener('abort', stop));
    socket.setTimeout(LIMIT_MS, () => socket.destroy(new Error('it does not answer')));
    socket.once('error', (error) => fail(error.message, error));
    socket.once('secureConnect', () => {
      const last = lastOf(socket.getPeerCertificate(true));
      socket.destroy();
      const certificate = new X509Certificate(last.raw);
      if (!certificate.ca) fail('it shows no CA; use --site-ca if your site issued its certificate');
      else resolve({ pem: certificate.toString(), fingerprint: certificate.fingerprint256 });
    });
  });
}

/** Follows the chain to its end; a root names itself. */
function lastOf(certificate: DetailedPeerCertificate): DetailedPeerCertificate {
  let last = certificate;
  for (let depth = 0; depth < 8; depth++) {
    const next = last.issuerCertificate as DetailedPeerCertificate | undefined;
    if (next === undefined || next.fingerprint256 === last.fingerprint256) break;
    last = next;
  }
  return last;
}
