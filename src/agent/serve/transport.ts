/**
 * What agents trust and what the listener shows them: the transport CA as last read, and the
 * listener's certificate, which follows the host's addresses and the calendar.
 */
import {
  type ServerCertificate,
  type ServerCertificateDeps,
  serverCertificate,
} from '../../pki/server-certificate.ts';
import { MUSTER_SCOPE } from '../../store/keys.ts';

export interface Transport {
  /** Undefined until {@link refresh} resolved. */
  readonly certificate: ServerCertificate | undefined;
  /** Increases when the CA that machines are given changes. */
  readonly version: number;
  /** Ids of the CA's generations that are trusted, and of the one that signs. */
  trusted(): ReadonlySet<string>;
  primary(): string;
  /**
   * Reads the CA and makes another certificate if these addresses or the calendar ask for one.
   * Resolves to the certificate, and whether it or the CA changed.
   */
  refresh(
    addresses: readonly string[],
  ): Promise<{ readonly certificate: ServerCertificate; readonly changed: boolean }>;
}

/** Creates the transport. It has no certificate until the first {@link Transport.refresh}. */
export function createTransport(deps: ServerCertificateDeps): Transport {
  let certificate: ServerCertificate | undefined;
  let trusted: ReadonlySet<string> = new Set();
  let primary = '';
  let version = 0;
  return {
    get certificate() {
      return certificate;
    },
    get version() {
      return version;
    },
    trusted: () => trusted,
    primary: () => primary,
    async refresh(addresses) {
      const next = await serverCertificate(deps, addresses);
      const keyset = (await deps.pki.keysets(MUSTER_SCOPE)).get('transport-ca')!;
      // A primary that is not in the bundles yet is accepted by its bridge.
      trusted = new Set([keyset.primary, ...keyset.trusted.map(({ id }) => id)]);
      ({ primary } = keyset);
      const newAuthority = next.authority !== certificate?.authority;
      const changed = newAuthority || next.certificate !== certificate?.certificate;
      if (newAuthority) version++;
      certificate = next;
      return { certificate: next, changed };
    },
  };
}
