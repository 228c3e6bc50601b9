/** The certificate of a BMC's web server by Redfish (DSP0266, CertificateService). */
import { fieldsOf, textOf } from '../../base/foreign-json.ts';
import { type BmcCertificates, BmcFault } from '../bmc.ts';
import { isOwnPath, membersOf, type Resource } from './model.ts';

/** What asks the BMC. Every call rejects with a BmcFault. */
interface Asks {
  get(path: string): Promise<Resource>;
  post(path: string, body: object): Promise<Readonly<Record<string, unknown>>>;
}

const SERVICE = '/redfish/v1/CertificateService';
/** The schema demands all of these; what a certificate says is decided by whoever signs it. */
const SUBJECT = {
  CommonName: 'bmc',
  Organization: 'Muster',
  OrganizationalUnit: 'BMC',
  City: 'Rack',
  State: 'Rack',
  Country: 'XX',
} as const;

const link = (value: unknown): string => {
  const path = textOf(fieldsOf(value)['@odata.id']);
  return isOwnPath(path) ? path : '';
};

/** @throws {BmcFault} when a BMC has no such service, or does not say where */
const must = (path: string, what: string): string => {
  if (path !== '') return path;
  throw new BmcFault(
    'refused',
    `its Redfish does not let anybody replace its certificate: it names no ${what}`,
  );
};

/** The certificate of the web server of the manager that has the system. */
async function ownCertificate(asks: Asks, system: string): Promise<{ collection: string; member: string }> {
  const { body } = await asks.get(system);
  const [first] = Array.isArray(fieldsOf(body.Links).ManagedBy)
    ? (fieldsOf(body.Links).ManagedBy as unknown[])
    : [];
  const manager = link(first) || membersOf(await asks.get('/redfish/v1/Managers'))[0] || '';
  const { body: said } = await asks.get(must(manager, 'manager'));
  const { body: protocols } = await asks.get(must(link(said.NetworkProtocol), 'NetworkProtocol'));
  const collection = must(link(fieldsOf(protocols.HTTPS).Certificates), 'certificates of HTTPS');
  const [member = ''] = membersOf(await asks.get(collection));
  return { collection, member: must(member, 'certificate of HTTPS') };
}

/** The path of an action of the service. */
async function action(asks: Asks, name: string): Promise<string> {
  const { body } = await asks.get(SERVICE).catch((error: unknown) => {
    if (error instanceof BmcFault && error.code === 'not-understood') return { body: {} as Resource['body'] };
    throw error;
  });
  const target = textOf(fieldsOf(fieldsOf(body.Actions)[`#CertificateService.${name}`]).target);
  return must(isOwnPath(target) ? target : '', `action ${name}`);
}

/** The certificate of the web server of the BMC that has a system. */
export const certificatesBy = (asks: Asks, system: string): BmcCertificates => ({
  async request() {
    const { collection } = await ownCertificate(asks, system);
    const body = { ...SUBJECT, CertificateCollection: { '@odata.id': collection } };
    const answer = await asks.post(await action(asks, 'GenerateCSR'), body);
    return textOf(answer.CSRString);
  },
  async replace(pem) {
    const { member } = await ownCertificate(asks, system);
    await asks.post(await action(asks, 'ReplaceCertificate'), {
      CertificateString: pem,
      CertificateType: 'PEM',
      CertificateUri: { '@odata.id': member },
    });
  },
});
