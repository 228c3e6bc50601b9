/**
 * Templates: `${machine.name}` in a text becomes a value. Nothing else: no conditions, no calls, no code.
 *
 * `$${` stands for a literal `${` (a shell's own variable). What was put in is not looked at again, so a value cannot smuggle
 * in a template, and the work is linear in the length of text and result.
 */
import { didYouMean } from '../resources/suggest.ts';

/** Every name that a template may use, with what it means; `var.NAME` besides. The reference is made from this. */
export const TEMPLATE_NAMES = {
  'machine.name': 'Name of the Machine document.',
  'machine.mac': 'Hardware address of the interface that boots.',
  'machine.uuid': 'SMBIOS UUID, if the machine has one.',
  'machine.serial': 'Serial number, if the machine has one.',
  'machine.address': 'The address reserved for the machine on the network that it boots from, if any.',
  'network.name': 'Name of the Network that the machine boots from.',
  'network.gateway': 'Its gateway, if it has one.',
  'network.domain': 'Its domain, if it has one.',
  'network.subnet': 'Its subnet, e.g. 10.77.0.0/24.',
  'profile.name': 'Name of the Profile.',
  'cluster.name': 'Name of the Cluster, if the machine is of one.',
  'boot.url': "Base URL of the boot session: whoever knows it can read this machine's configuration.",
  'boot.session': 'Id of the boot session.',
  'boot.server': "The boot server's address on the machine's network.",
} as const;

export type TemplateScope = Readonly<Record<string, Readonly<Record<string, unknown>> | undefined>>;

export type Expanded =
  | { readonly ok: true; readonly text: string }
  /** `line` counts from 1, within the text. */
  | { readonly ok: false; readonly message: string; readonly line: number };

/** Whether {@link expand} would change the text or find a fault in it. */
export const isTemplate = (text: string): boolean => text.includes('${');

/** Puts values into a text. `limit`: octets at most (UTF-16 units) that the result may have. */
export function expand(text: string, scope: TemplateScope, limit = 1024 * 1024): Expanded {
  let result = '';
  let from = 0;
  for (;;) {
    const at = text.indexOf('${', from);
    if (at < 0) break;
    if (at > from && text[at - 1] === '$') {
      result += `${text.slice(from, at - 1)}\${`;
      from = at + 2;
      continue;
    }
    const end = text.indexOf('}', at);
    const name = end < 0 ? text.slice(at + 2, at + 40) : text.slice(at + 2, end);
    const value = end < 0 || !NAME.test(name) ? undefined : lookUp(name, scope);
    if (value === undefined)
      return { ok: false, message: nameFault(name, end < 0, scope), line: lineAt(text, at) };
    result += text.slice(from, at) + value;
    if (result.length > limit)
      return { ok: false, message: `grows beyond ${limit} characters`, line: lineAt(text, at) };
    from = end + 1;
  }
  return { ok: true, text: from === 0 ? text : result + text.slice(from) };
}

/** The text that expands to `text`, whatever is in it. */
// A function: in a replacement text, $$ would be one $.
export const templateLiteral = (text: string): string => text.replaceAll('${', () => '$${');

/** The first fault of a text that no machine and no variable could mend; for a profile that no machine uses yet. */
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
  const variables = Object.keys(scope.var ?? {}).map((key) => `var.${key}`);
  const hint = didYouMean(name, [...Object.keys(TEMPLATE_NAMES), ...variables]);
  return `there is no "\${${shown}}"${hint || '; for a literal "${" (a shell variable) write "$${"'}`;
}

const lineAt = (text: string, offset: number): number => text.slice(0, offset).split('\n').length;
