/** Hardware addresses of Ethernet interfaces. */

/** A MAC address in its canonical spelling: lower case, colons, e.g. `52:54:00:aa:00:01`. */
export type Mac = string & { readonly __mac: true };

const CANONICAL = /^[0-9a-f]{2}(?::[0-9a-f]{2}){5}$/;
const HYPHENS = /^[0-9a-f]{2}(?:-[0-9a-f]{2}){5}$/;
const SPELLINGS = [
  /^([0-9a-f]{1,2})[:-]([0-9a-f]{1,2})[:-]([0-9a-f]{1,2})[:-]([0-9a-f]{1,2})[:-]([0-9a-f]{1,2})[:-]([0-9a-f]{1,2})$/,
  /^([0-9a-f]{2})[ .]([0-9a-f]{2})[ .]([0-9a-f]{2})[ .]([0-9a-f]{2})[ .]([0-9a-f]{2})[ .]([0-9a-f]{2})$/,
  /^([0-9a-f]{2})([0-9a-f]{2})[.:-]([0-9a-f]{2})([0-9a-f]{2})[.:-]([0-9a-f]{2})([0-9a-f]{2})$/,
  /^([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})[:-]?([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/,
];

/**
 * Parses a MAC address in any usual spelling (`52:54:0:AA:0:1`, `52-54-00-aa-00-01`, `52 54 00 aa
 * 00 01`, `5254.00aa.0001`, `525400:aa0001`, `525400aa0001`, and PXELINUX's BOOTIF `01-52-54-…`).
 * Returns undefined when the text is none of these.
 */
export function parseMac(text: string): Mac | undefined {
  if (text.length === 17) {
    // Nearly all addresses are written in one of these two forms.
    if (CANONICAL.test(text)) return text as Mac;
    if (HYPHENS.test(text)) return text.replaceAll('-', ':') as Mac;
  }
  let plain = text.trim().toLowerCase();
  if (/^01-([0-9a-f]{2}-){5}[0-9a-f]{2}$/.test(plain)) plain = plain.slice(3);
  for (const spelling of SPELLINGS) {
    const found = spelling.exec(plain);
    if (found) {
      return found
        .slice(1, 7)
        .map((octet) => octet.padStart(2, '0'))
        .join(':') as Mac;
    }
  }
  return undefined;
}

const OCTET = Array.from({ length: 256 }, (_, n) => n.toString(16).padStart(2, '0'));

/** Formats the first six octets as a MAC address. The caller has checked that there are six. */
export function macFromBytes(b: Uint8Array): Mac {
  return `${OCTET[b[0]!]}:${OCTET[b[1]!]}:${OCTET[b[2]!]}:${OCTET[b[3]!]}:${OCTET[b[4]!]}:${OCTET[b[5]!]}` as Mac;
}

/** The six octets of a MAC address. */
export function macToBytes(mac: Mac): Buffer {
  return Buffer.from(mac.replaceAll(':', ''), 'hex');
}
