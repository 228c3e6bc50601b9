/** Makes a key and a self-signed certificate with openssl, in PEM. */
import { execFileSync } from 'node:child_process';

export interface SelfSigned {
  readonly certificate: string;
  readonly key: string;
}

/** `names` are in openssl's form, e.g. `IP:10.0.0.1`. The certificate is valid for two days. */
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
