/**
 * Writes plain values as YAML. The text is readable and deterministic, and parsers of YAML 1.1
 * (PyYAML in cloud-init) and 1.2 read the same values back. Without anchors, tags and a choice of
 * styles, this is ten times as fast as a general writer.
 */

import { isShared } from './shared.ts';

export type Plain =
  | string
  | number
  | boolean
  | null
  | readonly Plain[]
  | { readonly [key: string]: Plain | undefined };

/** Formats a value as a document that ends with a line break. Undefined fields are left out. */
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

/** Shared items of lists as they are written at an indentation. */
const memoItems = new WeakMap<object, { readonly indent: number; readonly text: string }>();

/** A list item; its mapping begins on the line of the dash. */
function inline(item: Plain, indent: number): string {
  if (!isShared(item)) return itemText(item, indent);
  const known = memoItems.get(item as object);
  if (known?.indent === indent) return known.text;
  const text = itemText(item, indent);
  memoItems.set(item as object, { indent, text });
  return text;
}

function itemText(item: Plain, indent: number): string {
  const written = node(item, indent);
  return written.startsWith('\n') ? ` ${written.slice(indent + 1)}` : written;
}

/** Words of these characters are text in every version of YAML, unless reserved. */
const SAFE = /^[A-Za-z_/][A-Za-z0-9_./-]*$/;
const RESERVED = /^(y|n|yes|no|on|off|true|false|null)$/i;

function word(value: string): string {
  return SAFE.test(value) && !RESERVED.test(value) ? value : quoted(value);
}

/** Lines of printable text are written as a block if they are read back exactly, else quoted. */
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
 * Quotes a text as JSON does, whose escapes YAML shares, and also escapes characters that JSON
 * permits and YAML does not.
 */
function quoted(value: string): string {
  return JSON.stringify(value.toWellFormed()).replace(
    /[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
