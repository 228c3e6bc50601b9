/**
 * Templates: `${machine.name}` in a text becomes a value. There are no conditions, calls or code.
 *
 * `$${` stands for a literal `${` (a variable of the shell). An inserted value is not scanned
 * again, so it cannot smuggle in a template, and the work is linear in the length of text and
 * result.
 */
import { didYouMean } from '../base/suggest.ts';

/**
 * Every name that a template may use, with its meaning. `var.NAME` may be used as well. The
 * reference page is generated from this table.
 */
export const TEMPLATE_NAMES = {
  'machine.name': 'Name of the Machine document.',
  'machine.mac': 'Hardware address of the interface that boots.',
  'machine.uuid': 'SMBIOS UUID, if the machine has one.',
  'machine.serial': 'Serial number, if the machine has one.',
  'machine.address': 'The address reserved for the machine on the network that it boots from, if any.',
  'machine.address6': 'The first of its own IPv6 addresses, if it has one.',
  'network.name': 'Name of the Network that the machine boots from.',
  'network.gateway': 'Its gateway, if it has one.',
  'network.domain': 'Its domain, if it has one.',
  'network.subnet': 'Its subnet, e.g. 10.77.0.0/24.',
  'profile.name': 'Name of the Profile.',
  'cluster.name': 'Name of the Cluster, if the machine is of one.',
  'boot.url': "Base URL of the boot session: anyone who knows it can read this machine's configuration.",
  'boot.session': 'Id of the boot session.',
  'boot.server': "The boot server's address on the machine's network.",
} as const;

export type TemplateScope = Readonly<Record<string, Readonly<Record<string, unknown>> | undefined>>;

type Expanded =
  | { readonly ok: true; readonly text: string }
  /** `line` counts from 1, within the text. */
  | { readonly ok: false; readonly message: string; readonly line: number };

/** Whether {@link expand} would change the text or find a fault in it. */
export const isTemplate = (text: string): boolean => text.includes('${');

/** A text cut at its templates: literal, name, literal, name … literal. */
export interface Template {
  readonly parts: readonly string[];
  /** The whole text, to find the line of a fault. */
  readonly text: string;
}

/** Cuts a text; the part after an unclosed brace is a name that no scope knows. */
export function compile(text: string): Template {
  const parts: string[] = [];
  let literal = '';
  let from = 0;
  for (;;) {
    const at = text.indexOf('${', from);
    if (at < 0) break;
    if (at > from && text[at - 1] === '$') {
      literal += `${text.slice(from, at - 1)}\${`;
      from = at + 2;
      continue;
    }
    const end = text.indexOf('}', at);
    parts.push(
      literal + text.slice(from, at),
      end < 0 ? `${text.slice(at + 2, at + 40)}\0` : text.slice(at + 2, end),
    );
    literal = '';
    from = end < 0 ? text.length : end + 1;
  }
  parts.push(literal + text.slice(from));
  return { parts, text };
}

/** Puts values into a text. `limit`: UTF-16 units that the result may have. */
export function fill({ parts, text }: Template, scope: TemplateScope, limit = 1024 * 1024): Expanded {
  let result = parts[0]!;
  for (let n = 1; n < parts.length; n += 2) {
    const name = parts[n]!;
    const value = lookUp(name, scope);
    if (value === undefined)
      return {
        ok: false,
        message: nameFault(name.replace('\0', ''), name.endsWith('\0'), scope),
        line: lineOf(text, name),
      };
    result += value + parts[n + 1]!;
    if (result.length > limit)
      return { ok: false, message: `grows beyond ${limit} characters`, line: lineOf(text, name) };
  }
  return { ok: true, text: result };
}

/** {@link compile} and {@link fill} in one call. */
export const expand = (text: string, scope: TemplateScope, limit?: number): Expanded =>
  fill(compile(text), scope, limit);

/** The text that expands to `text`, whatever it contains. */
// The replacement is a function, because `$$` in a replacement text means one `$`.
export const templateLiteral = (text: string): string => text.replaceAll('${', () => '$${');

/**
 * The first fault of a text that every machine would meet, whatever its variables; undefined when
 * there is none. Used for documents that no machine uses yet.
 */
export function templateFault(text: string): string | undefined {
  for (const [, dollar, name, brace] of text.matchAll(/(\$?)\$\{([^}]*)(\}?)/g)) {
    if (dollar !== '') continue;
    const known = Object.hasOwn(TEMPLATE_NAMES, name!) || (NAME.test(name!) && name!.startsWith('var.'));
    if (brace === '' || !known) return nameFault(name!, brace === '', {});
  }
  return undefined;
}

const NAME = /^[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z_][A-Za-z0-9_]*$/;

function lookUp(name: string, scope: TemplateScope): string | undefined {
  if (!NAME.test(name)) return undefined;
  const dot = name.indexOf('.');
  const group = Object.hasOwn(scope, name.slice(0, dot)) ? scope[name.slice(0, dot)] : undefined;
  const key = name.slice(dot + 1);
  if (group === undefined || !Object.hasOwn(group, key)) return undefined;
  const value = group[key];
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : undefined;
}

function nameFault(name: string, open: boolean, scope: TemplateScope): string {
  const shown = name.length > 40 ? `${name.slice(0, 37)}…` : name;
  if (open) return `"\${${shown}" has no closing brace; for a literal "\${" write "$\${"`;
  if (Object.hasOwn(TEMPLATE_NAMES, name)) return `"\${${name}}" has no value for this machine`;
  if (NAME.test(name) && name.startsWith('var.') && scope.var === undefined)
    return `"\${${shown}}" is used in a variable, and variables cannot use each other; write its text out`;
  const variables = Object.keys(scope.var ?? {}).map((key) => `var.${key}`);
  const hint = didYouMean(name, [...Object.keys(TEMPLATE_NAMES), ...variables]);
  return `there is no "\${${shown}}"${hint || '; for a literal "${" (a shell variable) write "$${"'}`;
}

/** The line of the first `${name` in the text that is not escaped. */
function lineOf(text: string, name: string): number {
  const wanted = `\${${name.replace('\0', '')}`;
  let at = text.indexOf(wanted);
  while (at > 0 && text[at - 1] === '$') at = text.indexOf(wanted, at + 1);
  return text.slice(0, Math.max(0, at)).split('\n').length;
}
