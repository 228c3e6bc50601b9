/**
 * Whether a component takes a text as the value of a flag. The types are those of pflag, of Go's
 * flag package and of Kubernetes' own flags; component-tables.generated.ts says which flag has
 * which.
 */
import { parseIp } from '../../base/ip.ts';
import { didYouMean } from '../../base/suggest.ts';
import type { FlagInfo } from './flags.ts';
import { insteadOfName } from './removed.ts';

/** A whole number as Go's strconv.ParseInt reads it with base 0; undefined for every other text. */
export function wholeNumber(text: string): bigint | undefined {
  // Go takes "_" between two digits.
  const plain = text.replace(/(?<=[0-9a-fA-F])_(?=[0-9a-fA-F])/g, '');
  const found = /^([+-]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)$/.exec(plain);
  if (!found) return undefined;
  const digits = found[2]!.replace(/^0[oO]?(?=[0-7]+$)/, '0o');
  const number = BigInt(digits === '0o' ? '0' : digits);
  return found[1] === '-' ? -number : number;
}

const isBetween =
  (least: bigint, most: bigint) =>
  (text: string): boolean => {
    const number = wholeNumber(text);
    return number !== undefined && number >= least && number <= most;
  };

/** Without zeros before it, with which base 0 would read an octal number. */
const decimal = (text: string): string => text.replace(/^([+-]?)0+(?=[0-9])/, '$1');

/** Go's time.ParseDuration. */
export const isGoDuration = (text: string): boolean =>
  /^[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$/.test(text);

/** Go's strconv.ParseBool; undefined for a text that it refuses. */
export function goTruth(text: string): boolean | undefined {
  if (/^(1|t|T|TRUE|true|True)$/.test(text)) return true;
  return /^(0|f|F|FALSE|false|False)$/.test(text) ? false : undefined;
}

/** Milliseconds by unit, as Go names them. */
const GO_UNITS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** The milliseconds of a text that Go's time.ParseDuration reads; undefined for other texts. */
export function goMilliseconds(text: string): number | undefined {
  if (!isGoDuration(text)) return undefined;
  const parts = [...text.matchAll(/([0-9.]+)(ns|us|µs|μs|ms|s|m|h)/g)];
  const total = parts.reduce((sum, [, amount, unit]) => sum + Number(amount) * GO_UNITS[unit!]!, 0);
  return text.startsWith('-') ? -total : total;
}

/** apimachinery's resource.ParseQuantity. */
export const isQuantity = (text: string): boolean =>
  /^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+|[KMGTPE]i|[numkMGTPE]|)$/.test(text);

const QUANTITY_UNITS: Readonly<Record<string, number>> = {
  ...{ n: 1e-9, u: 1e-6, m: 1e-3, '': 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 },
  ...{ Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 },
};

/** The value of a quantity; undefined for a text that is none. */
export function quantityOf(text: string): number | undefined {
  if (!isQuantity(text)) return undefined;
  const [, amount = '', unit = ''] = /^(.*?)((?:[KMGTPE]i|[numkMGTPE])?)$/.exec(text)!;
  return Number(amount) * QUANTITY_UNITS[unit]!;
}

/** Whether a quantity is nothing. */
export const isZeroQuantity = (quantity: string): boolean => !/[1-9]/.test(quantity.replace(/[eE].*$/, ''));

/** The parts of a text that are not empty, between its commas. */
export const listed = (text: string): readonly string[] => text.split(',').filter((part) => part !== '');

/** The parts of a line of CSV, in which a part in double quotes may have commas. */
const quotedParts = (text: string): readonly string[] =>
  [...text.matchAll(/"((?:[^"]|"")*)"|[^,]+/g)].map(([part, quoted]) => quoted ?? part);

/** A URL as etcd takes it (client/pkg/types, NewURLs): with a port, or of a socket. */
function isEtcdUrl(text: string): boolean {
  const url = URL.parse(text.trim());
  if (url === null) return false;
  if (/^unixs?:$/.test(url.protocol)) return true;
  return /^https?:$/.test(url.protocol) && /^[^/]+\/\/[^/?#]*:[0-9]+$/.test(text.trim());
}

interface FlagType {
  readonly takes: (text: string) => boolean;
  /** Completes "expected …". */
  readonly what: string;
}

const TYPES: Readonly<Record<string, FlagType>> = {
  bool: {
    takes: (text) => goTruth(text) !== undefined,
    what: '"true" or "false"',
  },
  int: { takes: isBetween(-(2n ** 63n), 2n ** 63n - 1n), what: 'a whole number' },
  int32: { takes: isBetween(-(2n ** 31n), 2n ** 31n - 1n), what: 'a whole number of at most 2147483647' },
  level: {
    // klog reads it in base 10.
    takes: (text) => /^[+-]?[0-9]+$/.test(text) && isBetween(-(2n ** 31n), 2n ** 31n - 1n)(decimal(text)),
    what: 'a whole number of at most 2147483647, in decimal',
  },
  int32Slice: {
    takes: (text) => text.split(',').every(isBetween(-(2n ** 31n), 2n ** 31n - 1n)),
    what: 'whole numbers, separated by commas',
  },
  uint: { takes: isBetween(0n, 2n ** 64n - 1n), what: 'a whole number that is not negative' },
  float64: {
    takes: (text) => /^[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|inf(inity)?|nan)$/i.test(text),
    what: 'a number',
  },
  duration: { takes: isGoDuration, what: 'a duration with its unit, like "90s" or "1h30m" (no days)' },
  quantity: { takes: isQuantity, what: 'a quantity like "512", "64Ki" or "1Gi"' },
  ip: { takes: (text) => text === '' || parseIp(text) !== undefined, what: 'an IP address' },
  mapStringString: {
    takes: (text) => listed(text).every((pair) => pair.includes('=')),
    what: 'name=value, separated by commas',
  },
  onePair: { takes: (text) => text.includes('='), what: 'name=value' },
  stringToString: {
    // pflag takes a text with a single "=" as one pair, whose name and value may have commas.
    takes: (text) =>
      text.split('=').length === 2 || (text !== '' && quotedParts(text).every((pair) => pair.includes('='))),
    what: 'name=value; several, as in \'"a,b=1,2","c,d=3"\', each in double quotes',
  },
  portRange: {
    takes: (text) => {
      const [, first, last = first] = /^([0-9]{1,5})(?:[-+]([0-9]{1,5}))?$/.exec(text) ?? [];
      return first !== undefined && Number(first) <= 65_535 && Number(last) <= 65_535;
    },
    what: 'a range of ports like "30000-32767"',
  },
  namedCertKey: {
    takes: (text) => /^[^,]+,[^,:]+(:.+)?$/.test(text),
    what: 'two files, "cert.pem,key.pem", optionally ":" and domains',
  },
  urls: {
    takes: (text) => text === '' || text.split(',').every(isEtcdUrl),
    what: 'URLs like "https://10.77.0.9:2379", with a port and without a path, separated by commas',
  },
};

/**
 * What is wrong with the value of a flag; undefined when the component takes it, or when the table
 * does not tell. `who` is the component with its version, for the message.
 */
export function flagValueFault(info: FlagInfo, text: string, who: string): string | undefined {
  const type = TYPES[info.type];
  if (type !== undefined && !type.takes(text)) return `"${text}" is not a value here; expected ${type.what}`;
  if (info.choices.length === 0) return undefined;
  const parts = info.type === 'string' ? [text] : text.split(',');
  const wrong = parts.find((part) => (part !== '' || parts.length > 1) && !info.choices.includes(part));
  if (wrong === undefined) return undefined;
  if (info.choices.includes(wrong.trim()))
    return `"${wrong}" has a blank, which is a part of the name for ${who}; remove it`;
  if (wrong === '') return 'a name is missing at one of the commas';
  const instead = insteadOfName(wrong);
  if (instead !== undefined) return `${who} has no "${wrong}" any more: ${instead}`;
  const hint = didYouMean(wrong, info.choices);
  const few = info.choices.length <= 8 ? `; it takes ${info.choices.join(', ')}` : '';
  return `${who} has no "${wrong}" here${hint === '' ? few : hint}`;
}

/** Suites of TLS 1.2, of which an HTTP/2 server of Go needs one (RFC 9113, section 9.2.2). */
const HTTP2_SUITES = ['TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256', 'TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256'];

/**
 * Why a server of HTTP/2 would not start with a list of cipher suites (ConfigureServer of Go's
 * golang.org/x/net/http2).
 */
export const suitesFault = (suites: readonly string[]): string | undefined =>
  suites.length === 0 || suites.some((suite) => HTTP2_SUITES.includes(suite))
    ? undefined
    : `HTTP/2 needs ${HTTP2_SUITES.join(' or ')}; add one of them`;

/** Go's numbers of key exchanges (crypto/tls, CurveID): P-256, P-384, P-521, X25519 and hybrids. */
const CURVES = [23, 24, 25, 29, 4587, 4588, 4589];
/** Those that clients offer by themselves, OpenSSL's among them. */
const OFFERED = [23, 24, 25, 29, 4588];

/** What is wrong with a list of key exchanges by number. */
export function curvesFault(curves: readonly number[]): string | undefined {
  const wrong = curves.find((one) => !CURVES.includes(one));
  if (wrong !== undefined)
    return `${wrong} is not a key exchange of Go; it has ${CURVES.join(', ')}, of which 29 is X25519 and 4588 X25519MLKEM768`;
  return curves.length === 0 || curves.some((one) => OFFERED.includes(one))
    ? undefined
    : `clients such as curl offer none of these key exchanges; add one of ${OFFERED.join(', ')}`;
}
