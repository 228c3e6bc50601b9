/**
 * The certificate of the agents' listener: renewed before it ends, and when the host's addresses
 * change.
 */
import { X509Certificate } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../base/clock.ts';
import { parsed } from '../base/foreign-json.ts';
import { formatIp, parseIp } from '../base/ip.ts';
import { MUSTER_SCOPE } from '../store/keys.ts';
import type { ClusterNames } from './hierarchy.ts';
import { PrivateKey } from './keys.ts';
import { bridgesBehind, type Keyset, primaryOf, trustBundle } from './keyset.ts';
import type { Pki } from './pki.ts';
import { renewsAt } from './renewal-time.ts';
import type { Secrets } from './secrets.ts';

/** The listener's DNS name, in addition to its addresses. */
const SERVER_NAME = 'muster';
/** The listeners, and the secret that keeps the certificate of each. */
const SECRETS = { agents: 'server', operators: 'operators-server' } as const;

export interface ServerCertificate {
  readonly certificate: string;
  readonly key: PrivateKey;
  /** Id of the transport CA's generation that signed it. */
  readonly generation: string;
  /** All trusted generations of the transport CA, PEM. */
  readonly authority: string;
}

const stored = z.strictObject({ certificate: z.string(), key: z.string(), generation: z.string() });

/**
 * Reads the sealed text. Undefined when this version cannot read it; then a new certificate is
 * made.
 */
export function readServerCertificate(text: string):
  | {
      readonly pem: string;
      readonly certificate: X509Certificate;
      readonly key: PrivateKey;
      readonly generation: string;
    }
  | undefined {
  const read = stored.safeParse(parsed(text));
  if (!read.success) return undefined;
  const { certificate: pem, key, generation } = read.data;
  try {
    return { pem, certificate: new X509Certificate(pem), key: PrivateKey.fromPem(key), generation };
  } catch {
    return undefined;
  }
}

/** Muster's own leaves name no cluster. */
export const NO_CLUSTER: ClusterNames = {
  name: '',
  dnsDomain: '',
  serviceAddresses: [],
  endpointNames: { dns: [], ips: [] },
};

export interface ServerCertificateDeps {
  readonly pki: Pki;
  readonly secrets: Secrets;
  readonly clock: Clock;
  /** Default: `agents`. */
  readonly listener?: keyof typeof SECRETS;
  /** More DNS names of the host. */
  readonly names?: readonly string[];
}

/**
 * Returns the stored certificate if it names these addresses (it may name more: interfaces get
 * theirs one after the other), is signed by the CA's primary generation, has the bridges behind it
 * that are needed now and is not to be renewed yet; else makes a new one. Founds the transport CA
 * when there is none. `addresses`: IPv4 or IPv6 as text.
 */
export async function serverCertificate(
  { pki, secrets, clock, listener = 'agents', names = [] }: ServerCertificateDeps,
  addresses: readonly string[],
): Promise<ServerCertificate> {
  const secret = SECRETS[listener];
  const keyset = (await pki.found(MUSTER_SCOPE)).get('transport-ca')!;
  const authority = trustBundle(keyset);
  const text = await secrets.get(secret);
  const known = text === undefined ? undefined : readServerCertificate(text);
  const isDue = async (certificate: X509Certificate): Promise<boolean> => {
    const issued = await pki.issuedOne(MUSTER_SCOPE, certificate.serialNumber.toLowerCase());
    if (clock.doubt() !== undefined) return false;
    return issued === undefined || clock.now() >= renewsAt(issued);
  };
  if (
    known !== undefined &&
    known.generation === keyset.primary &&
    bridgesIn(known.pem) === bridgesBehind(keyset, primaryOf(keyset)) &&
    namesAll(known.certificate, addresses, names) &&
    !(await isDue(known.certificate))
  )
    return { certificate: known.pem, key: known.key, generation: known.generation, authority };
  return { ...(await renew({ pki, secrets, secret, names }, keyset, addresses)), authority };
}

async function renew(
  {
    pki,
    secrets,
    secret,
    names,
  }: {
    readonly pki: Pki;
    readonly secrets: Secrets;
    readonly secret: string;
    readonly names: readonly string[];
  },
  keyset: Keyset,
  addresses: readonly string[],
): Promise<Omit<ServerCertificate, 'authority'>> {
  const key = await PrivateKey.generate();
  const { certificate } = await pki.issue(MUSTER_SCOPE, {
    leaf: 'muster-server',
    holder: { name: SERVER_NAME, addresses, dns: names },
    cluster: NO_CLUSTER,
    publicKey: key.publicKey(),
  });
  await secrets.put(secret, JSON.stringify({ certificate, key: key.pem(), generation: keyset.primary }));
  return { certificate, key, generation: keyset.primary };
}

const END = '-----END CERTIFICATE-----\n';

/** What follows the first certificate of a PEM text. */
const bridgesIn = (pem: string): string => pem.slice(pem.indexOf(END) + END.length);

/** Whether the certificate names all of these addresses and names. */
function namesAll(
  certificate: X509Certificate,
  addresses: readonly string[],
  names: readonly string[],
): boolean {
  const named = (certificate.subjectAltName ?? '')
    .split(', ')
    .flatMap((name) => (name.startsWith('IP Address:') ? [plain(name.slice('IP Address:'.length))] : []));
  const wanted = addresses.map(plain);
  if (!names.every((name) => certificate.checkHost(name) !== undefined)) return false;
  return wanted.every((address) => named.includes(address));
}

const plain = (text: string): string => {
  const address = parseIp(text);
  return address === undefined ? text : formatIp(address);
};
