/** PEM (RFC 7468), the text form of DER. */

interface PemBlock {
  readonly label: string;
  readonly octets: Buffer;
}

/**
 * The blocks of a text, in order; undefined when it contains anything else. Blank lines between
 * blocks are allowed.
 */
export function parsePem(text: string): readonly PemBlock[] | undefined {
  const blocks: PemBlock[] = [];
  const lines = text.split('\n');
  for (let at = 0; at < lines.length; at++) {
    const line = clean(lines[at]!);
    if (line === '') continue;
    const label = /^-----BEGIN ([A-Z0-9][A-Z0-9 ]{0,62})-----$/.exec(line)?.[1];
    if (label === undefined) return undefined;
    let base64 = '';
    for (at++; at < lines.length; at++) {
      const inner = clean(lines[at]!);
      if (inner.startsWith('-')) break;
      base64 += inner;
    }
    if (at >= lines.length || clean(lines[at]!) !== `-----END ${label}-----`) return undefined;
    if (!/^[A-Za-z0-9+/]+={0,2}$/.test(base64) || base64.length % 4 !== 0) return undefined;
    blocks.push({ label, octets: Buffer.from(base64, 'base64') });
  }
  return blocks;
}

const clean = (line: string): string => line.replace(/[ \t\r]+$/, '');

/** Writes a block, with lines of 64 characters. */
export function formatPem({ label, octets }: PemBlock): string {
  const lines = octets.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`;
}
