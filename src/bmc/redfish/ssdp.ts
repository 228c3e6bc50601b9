/**
 * The discovery of Redfish by SSDP (DMTF DSP0266, "Discovery"): what is asked, and what answers
 * say. Pure. An answer is a datagram that anybody may send, so it is read strictly, and is shown to
 * people alone.
 */
import { printable } from '../../machines/identity.ts';

const SERVICE = 'urn:dmtf-org:service:redfish-rest:1';
export const SSDP = { address: '239.255.255.250', port: 1900 } as const;
/** BMCs spread their answers over so many seconds. */
export const SPREAD_SECONDS = 2;

/** The question, for one datagram. */
export const SEARCH: Buffer = Buffer.from(
  [
    'M-SEARCH * HTTP/1.1',
    `HOST: ${SSDP.address}:${SSDP.port}`,
    'MAN: "ssdp:discover"',
    `MX: ${SPREAD_SECONDS}`,
    `ST: ${SERVICE}`,
    '\r\n',
  ].join('\r\n'),
);

/** Whether a datagram asks for Redfish services, by one of the targets that they answer to. */
export function isSearch(datagram: Buffer): boolean {
  const [first, ...lines] = datagram.toString('latin1').split('\r\n');
  if (first !== 'M-SEARCH * HTTP/1.1') return false;
  const fields = fieldsIn(lines);
  const target = fields?.get('st')?.toLowerCase() ?? '';
  return fields?.get('man') === '"ssdp:discover"' && (target === 'ssdp:all' || isService(target));
}

/** What a service says of itself. */
export interface SsdpAnswer {
  readonly uuid: string;
  /** The root of its Redfish, which nobody fetches; absent: it names none, or no such URL. */
  readonly location?: string;
}

const MAX_OCTETS = 1024;
const MAX_LINES = 32;
const MAX_LOCATION = 200;

const isService = (target: string): boolean =>
  /^urn:dmtf-org:service:redfish-rest:1(?::\d{1,3})?$/.test(target);

/** The fields of a head; undefined where a line is none, or there are too many. */
function fieldsIn(lines: readonly string[]): ReadonlyMap<string, string> | undefined {
  const end = lines.indexOf('');
  const head = end === -1 ? lines : lines.slice(0, end);
  if (head.length > MAX_LINES) return undefined;
  const found = new Map<string, string>();
  for (const line of head) {
    const [, name, value] = /^([A-Za-z0-9-]{1,64}):[ \t]*([\x20-\x7e]*?)[ \t]*$/.exec(line) ?? [];
    if (name === undefined || value === undefined || found.has(name.toLowerCase())) return undefined;
    found.set(name.toLowerCase(), value);
  }
  return found;
}

/** Reads an answer; undefined for everything that is not one of a Redfish service. */
export function readAnswer(datagram: Buffer): SsdpAnswer | undefined {
  if (datagram.length > MAX_OCTETS) return undefined;
  const [first, ...lines] = datagram.toString('latin1').split('\r\n');
  if (!/^HTTP\/1\.[01] 200(?: [\x20-\x7e]{0,40})?$/.test(first ?? '')) return undefined;
  const fields = fieldsIn(lines);
  const [, uuid, target] =
    /^uuid:([0-9a-f-]{1,64})::(.*)$/.exec(fields?.get('usn')?.toLowerCase() ?? '') ?? [];
  if (uuid === undefined || !isService(target ?? '')) return undefined;
  // DSP0266 has it in AL; others keep to the LOCATION of UPnP.
  const said = fields?.get('al') ?? fields?.get('location') ?? '';
  const location = locationIn(said.replace(/^<(.*)>$/, '$1'));
  return { uuid, ...(location !== undefined && { location }) };
}

/** A URL of a Redfish service by its address, without anything that a person would misread. */
function locationIn(text: string): string | undefined {
  const url = text.length > MAX_LOCATION ? null : URL.parse(text);
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:')) return undefined;
  // The parser takes more than a host can be called, such as brackets.
  if (!/^(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:]+\])$/.test(url.hostname)) return undefined;
  const isPlain = url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  if (!isPlain || !/^\/redfish(?:\/v1)?\/?$/.test(url.pathname)) return undefined;
  return printable(url.href, MAX_LOCATION);
}

/** Whether a service says that it is where its answer came from. */
export const isAt = ({ location }: SsdpAnswer, sender: string): boolean =>
  location === undefined || URL.parse(location)?.hostname === sender;

/** The answer of a service, as DSP0266 has it. */
export const answerOf = ({ uuid, location }: Required<SsdpAnswer>): Buffer =>
  Buffer.from(
    [
      'HTTP/1.1 200 OK',
      'CACHE-CONTROL: max-age=1800',
      `ST: ${SERVICE}`,
      `USN: uuid:${uuid}::${SERVICE}`,
      `AL: ${location}`,
      'EXT:',
      '\r\n',
    ].join('\r\n'),
  );
