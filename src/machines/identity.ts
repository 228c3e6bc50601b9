/** What a machine reports about itself, made comparable. */
import { type Mac, parseMac } from '../base/mac.ts';
import type { Identity } from './machine.ts';
import { isPlaceholderSerial, PLACEHOLDER_UUIDS } from './placeholders.ts';

/**
 * How many addresses of one machine are kept, so that a hostile request cannot grow a record.
 */
export const MAX_MACS = 16;
/** How many characters of a serial, manufacturer, product or asset tag are kept. */
export const MAX_TEXT = 128;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/**
 * The same UUID with the octets of its first three fields reversed. SMBIOS ≥ 2.6 stores them
 * little-endian, RFC 4122 and older firmware big-endian, and ROMs, iPXE and dmidecode disagree on
 * which they print (siderolabs/go-smbios#7, #8).
 */
export function swapUuid(uuid: string): string {
  const octets = uuid.match(/[0-9a-f]{2}/g);
  if (octets?.length !== 16) return uuid;
  const part = (...at: number[]) => at.map((n) => octets[n]).join('');
  return `${part(3, 2, 1, 0)}-${part(5, 4)}-${part(7, 6)}-${part(8, 9)}-${part(10, 11, 12, 13, 14, 15)}`;
}

/** One key for both byte orders of a UUID; undefined when it is malformed or a placeholder. */
export function uuidKey(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const uuid = text.toLowerCase();
  if (!UUID.test(uuid)) return undefined;
  const swapped = swapUuid(uuid);
  const key = uuid < swapped ? uuid : swapped;
  return PLACEHOLDER_KEYS.has(key) ? undefined : key;
}

const PLACEHOLDER_KEYS: ReadonlySet<string> = new Set(
  PLACEHOLDER_UUIDS.map(({ value }) => (value < swapUuid(value) ? value : swapUuid(value))),
);

/**
 * A serial in the form in which serials are compared: upper case, single blanks, no dots at the
 * end; undefined for placeholders.
 */
export function serialKey(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const serial = plainText(text, MAX_TEXT).toUpperCase().replace(/\s+/g, ' ').trim().replace(/\.+$/, '');
  return isPlaceholderSerial(serial) ? undefined : serial;
}

/** Printable text of at most `length` characters; everything else becomes a blank. */
export function printable(text: string, length: number): string {
  return text
    .slice(0, length)
    .replace(/[\p{C}\p{Z}]+/gu, ' ')
    .trim();
}

/**
 * As {@link printable}, in letters, digits, blanks and `._:/+-` only; everything else becomes a
 * blank. For texts of machines that reach files on a machine: no shell, YAML or template reads more
 * in them than a text.
 */
export function plainText(text: string, length: number): string {
  return text
    .slice(0, length)
    .replace(/[^A-Za-z0-9._:/+-]+/g, ' ')
    .trim();
}

/** What a request says about its machine, field by field; none of it is trusted. */
interface IdentityFields {
  /**
   * Any number of addresses in any usual spelling. Eight-octet WWNs of fibre channel cards are
   * skipped (ironic-image#314).
   */
  readonly macs?: readonly string[];
  readonly uuid?: string | undefined;
  readonly serial?: string | undefined;
  readonly manufacturer?: string | undefined;
  readonly product?: string | undefined;
  readonly assetTag?: string | undefined;
}

/** Reads an identity; malformed fields are left out. Never throws. */
export function readIdentity(fields: IdentityFields): Identity {
  const macs: Mac[] = [];
  for (const text of (fields.macs ?? []).slice(0, 4 * MAX_MACS)) {
    const mac = text.length > 32 ? undefined : parseMac(text);
    if (mac !== undefined && !macs.includes(mac) && macs.length < MAX_MACS) macs.push(mac);
  }
  const uuid = fields.uuid?.trim().toLowerCase();
  const text = (value: string | undefined) => (value === undefined ? '' : printable(value, MAX_TEXT));
  const [serial, manufacturer, product, assetTag] = [
    fields.serial === undefined ? '' : plainText(fields.serial, MAX_TEXT),
    text(fields.manufacturer),
    text(fields.product),
    text(fields.assetTag),
  ];
  return {
    macs,
    ...(uuid !== undefined && UUID.test(uuid) ? { uuid } : {}),
    ...(serial ? { serial } : {}),
    ...(manufacturer ? { manufacturer } : {}),
    ...(product ? { product } : {}),
    ...(assetTag ? { assetTag } : {}),
  };
}
