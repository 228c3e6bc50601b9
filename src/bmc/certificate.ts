/**
 * Certificates of BMCs that Muster's CA signs. Pure, apart from what is passed in.
 *
 * What a BMC shows while its certificate is replaced is one of two, and both count: the one before,
 * and the new one, which is stored before the BMC gets it. Whatever ends the server, the connection
 * or the BMC meanwhile, the next log-in that works says which it is.
 */
import { createHash, X509Certificate } from 'node:crypto';
import { type Millis, millis } from '../base/duration.ts';
import { readCsr } from '../pki/csr.ts';
import type { Pki } from '../pki/pki.ts';
import { renewsAt } from '../pki/renewal-time.ts';
import { NO_CLUSTER } from '../pki/server-certificate.ts';
import { BMC_SCOPE } from '../store/keys.ts';
import { type Bmc, BmcFault } from './bmc.ts';
import type { Given, Known } from './known.ts';
import type { Reach } from './reach.ts';

/** How long a certificate that a BMC took and does not show is waited for, before a new one. */
const SHOWN_WITHIN_MS = 86_400_000;
/** BMCs start their web server again, which takes up to a minute. */
const LOOK_EVERY: Millis = millis(3000);
const LOOKS = 20;

const END = '-----END CERTIFICATE-----\n';

/** SHA-256 of a certificate in PEM, as pins have it. */
const pinOf = (pem: string): string =>
  createHash('sha256').update(new X509Certificate(pem).raw).digest('hex');

/** What is known of a BMC that has shown a certificate which counts. */
export function afterShown(known: Known, shown: string, isGiven: boolean): Known {
  const { offered = [], certify, ...rest } = known;
  const given = offered.find(({ pin }) => pin === shown);
  // The first one counts from then on, where documents name none.
  if (given === undefined) return known.pin === undefined && !isGiven ? { ...known, pin: shown } : known;
  const isLater = certify !== undefined && certify.at > given.issuedAt;
  const { taken: _, ...certificate } = given;
  return { ...rest, pin: shown, certificate, ...(isLater && { certify }) };
}

/** The certificates that a BMC may show besides the one of its document: what Muster gave it. */
export const givenTo = ({ certificate, offered = [] }: Known): readonly string[] =>
  [...(certificate ? [certificate] : []), ...offered].map(({ pin }) => pin);

/** The pin of the certificate that counts now; undefined: the first one that it shows will. */
export const countingPin = (
  { managedCertificate, certificate }: Pick<Reach, 'managedCertificate' | 'certificate'>,
  known: Known | undefined,
): string | undefined =>
  (managedCertificate ? known?.certificate?.pin : undefined) ?? certificate?.sha256 ?? known?.pin;

/** Whether a BMC has to get a certificate. `primary`: the generation of the CA that signs. */
export function owesCertificate(
  reach: Pick<Reach, 'managedCertificate'>,
  known: Known | undefined,
  now: number,
  primary: string | undefined,
): boolean {
  if (!reach.managedCertificate) return false;
  const { certificate, certify } = known ?? {};
  if (certificate === undefined || certify !== undefined) return true;
  if (primary !== undefined && certificate.generation !== primary) return true;
  return now >= renewsAt({ leaf: 'bmc', ...timesOf(certificate) });
}

const timesOf = ({ serial, issuedAt, notAfter }: Given) => ({
  serial,
  issuedAt: issuedAt as Millis,
  notAfter: notAfter as Millis,
});

/** Signs for the key of a BMC. @throws {BmcFault} when its request proves no key */
export async function signFor(
  pki: Pick<Pki, 'found' | 'issue'>,
  machine: string,
  { address, name }: Pick<Reach, 'address' | 'name'>,
  request: string,
): Promise<Given & { readonly pem: string }> {
  const read = readCsr(request);
  if (!read.ok) throw new BmcFault('not-understood', `its certificate request is refused: ${read.text}`);
  await pki.found(BMC_SCOPE);
  const { serial, issuer, issuedAt, notAfter, certificate } = await pki.issue(BMC_SCOPE, {
    leaf: 'bmc',
    holder: {
      name: machine,
      addresses: address === undefined ? [] : [address],
      ...(name !== undefined && { dns: [name] }),
    },
    cluster: NO_CLUSTER,
    publicKey: read.publicKey,
  });
  const { generation } = issuer;
  // The certificate alone: bridges of the CA may follow it, and BMCs take no chains.
  const pem = certificate.slice(0, certificate.indexOf(END) + END.length);
  return { pin: pinOf(pem), serial, generation, issuedAt, notAfter, pem };
}

/** What {@link giveCertificate} uses. */
interface Giving {
  /** Logs in; what the BMC shows is noted. */
  readonly open: () => Promise<Bmc>;
  readonly known: () => Known | undefined;
  readonly sign: (request: string) => Promise<Given & { readonly pem: string }>;
  /** Stores what the BMC may show from now on; durable when it resolves. */
  readonly offer: (given: Given) => Promise<void>;
  readonly pause: (span: Millis) => Promise<void>;
  readonly now: () => number;
}

/**
 * Gives a BMC a certificate for a key that it makes, and looks until it shows that.
 *
 * @throws {BmcFault} `busy` when it took the certificate and shows the one before
 */
export async function giveCertificate({ open, known, sign, offer, pause, now }: Giving): Promise<void> {
  const { offered = [], certify } = known() ?? {};
  const last = offered.at(-1);
  // A BMC that shows a certificate only after its restart does not need another one each time.
  const isNew = last?.taken && now() - last.issuedAt < SHOWN_WITHIN_MS;
  const isWaiting = isNew && !(certify && certify.at > last.issuedAt);
  const wanted = isWaiting ? last.pin : await replaced({ open, sign, offer });
  for (let looks = 0; looks < (isWaiting ? 1 : LOOKS); looks++) {
    if (looks > 0) await pause(LOOK_EVERY);
    // Its web server may be starting.
    await open().then(
      (bmc) => bmc.close(),
      (error: unknown) => {
        if (!(error instanceof BmcFault && error.code === 'unreachable')) throw error;
      },
    );
    if (known()?.certificate?.pin === wanted) return;
  }
  throw new BmcFault(
    'busy',
    'it took the certificate and shows the one before; some show it after a restart of the BMC',
  );
}

/** Lets it make a key, and gives it the certificate. Returns the pin of that. */
async function replaced({ open, sign, offer }: Pick<Giving, 'open' | 'sign' | 'offer'>): Promise<string> {
  const bmc = await open();
  try {
    if (!bmc.certificates) throw new BmcFault('refused', 'IPMI has no certificates');
    const { pem, ...given } = await sign(await bmc.certificates.request());
    // Durable before the BMC has it: what it shows afterwards is then known.
    await offer(given);
    // The web server of a BMC may end the connection instead of answering: what it shows says more.
    await bmc.certificates.replace(pem).catch((error: unknown) => {
      if (!(error instanceof BmcFault && error.code === 'unreachable')) throw error;
    });
    await offer({ ...given, taken: true });
    return given.pin;
  } finally {
    await bmc.close();
  }
}
