/** A key and a certificate that only those believe who are given it, by openssl. PEM. */
import { execFileSync } from 'node:child_process';

export interface SelfSigned {
  readonly certificate: string;
  readonly key: string;
}

/** `names`: as openssl takes them, `IP:10.0.0.1`. Good for two days. */
export function selfSigned(subject: string, names: readonly string[] = []): SelfSigned {
  const text = execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'],
      ...['-subj', `/CN=${subject}`, '-days', '2', '-keyout', '-', '-out', '-'],
      ...(names.length > 0 ? ['-addext', `subjectAltName=${names.join(',')}`] : []),
    ],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] },
  );
  const part = (name: string): string =>
    new RegExp(`-----BEGIN ${name}-----[^]*?-----END ${name}-----\n`).exec(text)![0];
  return { certificate: part('CERTIFICATE'), key: part('PRIVATE KEY') };
}
