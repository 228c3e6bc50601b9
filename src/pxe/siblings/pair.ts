/** The key and certificate by which the boot hosts that share a store know each other. */
import { X509Certificate } from 'node:crypto';
import { type Millis, millis } from '../../base/duration.ts';
import { PrivateKey } from '../../pki/keys.ts';
import { selfSign } from '../../pki/x509.ts';

export interface Pair {
  readonly key: PrivateKey;
  /** PEM. */
  readonly certificate: string;
  /** SHA-256 of the certificate, hexadecimal, lower case. */
  readonly fingerprint: string;
}

/** The fingerprint of a certificate as {@link Pair} has it. */
export const fingerprintOf = ({ fingerprint256 }: Pick<X509Certificate, 'fingerprint256'>): string =>
  fingerprint256.replaceAll(':', '').toLowerCase();

/** Nobody judges the dates, because the clocks of two hosts may differ. */
const BEGINS = Date.UTC(2000, 0, 1) as Millis;
const LASTS = millis(100 * 365 * 86_400_000);

/** Makes a pair for this process, which is nowhere on disk. */
export async function makePair(host: string): Promise<Pair> {
  const key = await PrivateKey.generate();
  const { pem } = await selfSign(
    {
      subject: { commonName: host.slice(0, 64), organizations: ['muster:boot-host'] },
      sans: { dns: [], ips: [] },
      publicKey: key.publicKey(),
      purposes: ['serverAuth', 'clientAuth'],
      ca: false,
      notBefore: BEGINS,
      notAfter: (BEGINS + LASTS) as Millis,
    },
    key,
  );
  return { key, certificate: pem, fingerprint: fingerprintOf(new X509Certificate(pem)) };
}
