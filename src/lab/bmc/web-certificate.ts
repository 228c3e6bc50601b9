/** The certificate of a simulated BMC's web server, and how it is replaced (CertificateService). */
import { generateKeyPairSync, type KeyObject, sign, X509Certificate } from 'node:crypto';
import { fieldsOf, textOf } from '../../base/foreign-json.ts';
import { element, TAG } from '../../pki/der.ts';
import { formatPem } from '../../pki/pem.ts';
import { at, type Body, collection, done, failure, head, ok, type RedfishAnswer } from './resources.ts';

/** In PEM. */
export interface Certificate {
  readonly certificate: string;
  readonly key: string;
}

const SERVICE = '/redfish/v1/CertificateService';
const PROTOCOL = '/redfish/v1/Managers/1/NetworkProtocol';
const CERTIFICATES = `${PROTOCOL}/HTTPS/Certificates`;
const OWN = `${CERTIFICATES}/1`;
const GENERATE = `${SERVICE}/Actions/CertificateService.GenerateCSR`;
const REPLACE = `${SERVICE}/Actions/CertificateService.ReplaceCertificate`;
/** What GenerateCSR needs at least (schema CertificateService 1.0). */
const NEEDED = ['CommonName', 'Organization', 'OrganizationalUnit', 'City', 'State', 'Country'];

export class WebCertificate {
  readonly #show: (shown: Certificate) => void;
  readonly #restarts: boolean;
  #shown: Certificate;
  /** The key of the last request. */
  #key: KeyObject | undefined;
  /** What it shows after its restart. */
  #next: Certificate | undefined;

  /** `restarts`: another certificate is shown only after {@link restart}. */
  constructor(shown: Certificate, show: (shown: Certificate) => void, restarts: boolean) {
    this.#shown = shown;
    this.#show = show;
    this.#restarts = restarts;
  }

  set(shown: Certificate): void {
    this.#shown = shown;
    this.#show(shown);
  }

  restart(): void {
    if (this.#next) this.set(this.#next);
    this.#next = undefined;
  }

  read(path: string): Body | undefined {
    if (path === SERVICE)
      return {
        ...head(SERVICE, 'CertificateService.v1_0_3.CertificateService', 'Certificates'),
        Actions: {
          '#CertificateService.GenerateCSR': { target: GENERATE },
          '#CertificateService.ReplaceCertificate': { target: REPLACE },
        },
      };
    if (path === PROTOCOL)
      return {
        ...head(PROTOCOL, 'ManagerNetworkProtocol.v1_6_0.ManagerNetworkProtocol', 'Protocols'),
        HTTPS: { ProtocolEnabled: true, Port: 443, Certificates: at(CERTIFICATES) },
      };
    if (path === CERTIFICATES) return collection(path, 'Certificate', [OWN]);
    if (path !== OWN) return undefined;
    const { validTo } = new X509Certificate(this.#shown.certificate);
    return {
      ...head(OWN, 'Certificate.v1_2_0.Certificate', 'HTTPS'),
      CertificateString: this.#shown.certificate,
      CertificateType: 'PEM',
      ValidNotAfter: new Date(validTo).toISOString(),
    };
  }

  /** Carries out an action; undefined for paths that are none of its. */
  change(path: string, fields: Body): RedfishAnswer | undefined {
    if (path === GENERATE) return this.#request(fields);
    return path === REPLACE ? this.#replace(fields) : undefined;
  }

  #request(fields: Body): RedfishAnswer {
    const missing = NEEDED.find((name) => textOf(fields[name]) === '');
    if (missing !== undefined || fieldsOf(fields.CertificateCollection)['@odata.id'] !== CERTIFICATES)
      return failure(400, 'ActionParameterMissing', `${missing ?? 'CertificateCollection'} is missing.`);
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
    this.#key = privateKey;
    const spki = publicKey.export({ type: 'spki', format: 'der' });
    const CSRString = requestOf(textOf(fields.CommonName), privateKey, spki);
    return ok({ CSRString, CertificateCollection: at(CERTIFICATES) });
  }

  #replace({ CertificateString, CertificateType, CertificateUri }: Body): RedfishAnswer {
    if (CertificateType !== 'PEM' || fieldsOf(CertificateUri)['@odata.id'] !== OWN)
      return failure(400, 'ActionParameterNotSupported', 'It takes its own certificate in PEM.');
    const pem = textOf(CertificateString);
    const key = this.#key;
    if (!key || !isOf(pem, key))
      return failure(400, 'PropertyValueError', 'It is not of the key of the request.');
    const next = { certificate: pem, key: String(key.export({ type: 'pkcs8', format: 'pem' })) };
    this.#key = undefined;
    if (this.#restarts) this.#next = next;
    else this.set(next);
    return done;
  }
}

function isOf(pem: string, key: KeyObject): boolean {
  try {
    return new X509Certificate(pem).checkPrivateKey(key);
  } catch {
    return false;
  }
}

const COMMON_NAME = Buffer.from('0603550403', 'hex');
/** ecdsa-with-SHA256. */
const ALGORITHM = Buffer.from('06082a8648ce3d040302', 'hex');
const UTF8_STRING = 0x0c;

/** A request for a certificate (PKCS#10, RFC 2986) in PEM. */
function requestOf(commonName: string, key: KeyObject, spki: Buffer): string {
  const attribute = element(TAG.sequence, COMMON_NAME, element(UTF8_STRING, Buffer.from(commonName)));
  const info = element(
    TAG.sequence,
    element(TAG.integer, Buffer.from([0])),
    element(TAG.sequence, element(TAG.set, attribute)),
    spki,
    element(TAG.context0),
  );
  const bits = element(TAG.bits, Buffer.from([0]), sign('sha256', info, key));
  const octets = element(TAG.sequence, info, element(TAG.sequence, ALGORITHM), bits);
  return formatPem({ label: 'CERTIFICATE REQUEST', octets });
}
