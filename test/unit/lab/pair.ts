/** A key and a certificate that nobody believes, by openssl. */
import { execFileSync } from 'node:child_process';

export function generatedPair(): { readonly ca: string; readonly certificate: string; readonly key: string } {
  const text = execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
      ...['-subj', '/CN=nobody', '-days', '1', '-keyout', '-', '-out', '-'],
    ],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] },
  );
  const part = (name: string): string =>
    new RegExp(`-----BEGIN ${name}-----[^]*?-----END ${name}-----\n`).exec(text)![0];
  const certificate = part('CERTIFICATE');
  return { ca: certificate, certificate, key: part('PRIVATE KEY') };
}
