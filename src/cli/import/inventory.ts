/** Reads inventories of Ansible, as INI or YAML: hosts with their variables, and groups. Pure. */
import { load } from 'js-yaml';
import { messageOf } from '../../base/error-text.ts';
import { MusterError } from '../../base/errors.ts';
import { fieldsOf } from '../../base/foreign-json.ts';

export interface Inventory {
  /** Host → its variables. */
  readonly hosts: ReadonlyMap<string, Readonly<Record<string, string>>>;
  /** Group → its hosts, those of its child groups included. */
  readonly groups: ReadonlyMap<string, ReadonlySet<string>>;
  /** Variables of groups, those of `all` among them; later groups count. */
  readonly variables: Readonly<Record<string, string>>;
}

interface Raw {
  readonly hosts: Map<string, Record<string, string>>;
  readonly groups: Map<string, Set<string>>;
  readonly children: Map<string, Set<string>>;
  readonly variables: Record<string, string>;
}

const emptyRaw = (): Raw => ({ hosts: new Map(), groups: new Map(), children: new Map(), variables: {} });

const member = <K, V>(map: Map<K, Set<V>>, key: K): Set<V> => {
  const found = map.get(key) ?? new Set<V>();
  map.set(key, found);
  return found;
};

/** More hosts than any inventory has; a range of a billion is a mistake. */
const MAX_HOSTS = 10_000;

/**
 * Expands `node[01:03]` and `node[a:c]`.
 *
 * @throws {MusterError} E_USAGE for a range that is too large
 */
export function expandRange(pattern: string): readonly string[] {
  const found = /^(.*?)\[([0-9]+|[a-z]):([0-9]+|[a-z])\](.*)$/.exec(pattern);
  if (!found) return [pattern];
  const [, before = '', first = '', last = '', after = ''] = found;
  const numbers = /^[0-9]+$/.test(first) && /^[0-9]+$/.test(last);
  const [from, to] = numbers ? [Number(first), Number(last)] : [first.charCodeAt(0), last.charCodeAt(0)];
  if (to - from >= MAX_HOSTS) throw new MusterError('E_USAGE', `${pattern} is more than ${MAX_HOSTS} hosts`);
  const names: string[] = [];
  for (let n = from; n <= to; n++)
    names.push(`${before}${numbers ? String(n).padStart(first.length, '0') : String.fromCharCode(n)}`);
  const all = names.flatMap((name) => expandRange(`${name}${after}`));
  if (all.length > MAX_HOSTS) throw new MusterError('E_USAGE', `${pattern} is more than ${MAX_HOSTS} hosts`);
  return all;
}

const unquoted = (text: string): string => text.replace(/^(['"])(.*)\1$/, '$2');

/** `name=value` words of a line; values may be quoted. */
function variablesIn(text: string): Record<string, string> {
  const found: Record<string, string> = Object.create(null);
  for (const [, name, value] of text.matchAll(/([A-Za-z_][A-Za-z0-9_]*)\s*=\s*("[^"]*"|'[^']*'|\S*)/g))
    found[name!] = unquoted(value!);
  return found;
}

function readIni(text: string): Raw {
  const raw = emptyRaw();
  let [group, kind] = ['ungrouped', ''];
  for (const [n, full] of text.split('\n').entries()) {
    const line = full.replace(/(^|\s)[#;].*$/, '').trim();
    if (line === '') continue;
    const section = /^\[([^\]:]+)(?::(children|vars))?\]$/.exec(line);
    if (section) {
      [group, kind] = [section[1]!, section[2] ?? ''];
      member(raw.groups, group);
    } else if (line.startsWith('['))
      throw new MusterError('E_USAGE', `line ${n + 1}: "${line.slice(0, 60)}" is not the name of a group`);
    else if (kind === 'vars') Object.assign(raw.variables, variablesIn(line));
    else if (kind === 'children') member(raw.children, group).add(line.split(/\s/)[0]!);
    else {
      const [pattern = '', ...rest] = line.split(/\s+/);
      for (const host of expandRange(pattern)) {
        raw.hosts.set(host, { ...raw.hosts.get(host), ...variablesIn(rest.join(' ')) });
        member(raw.groups, group).add(host);
      }
    }
  }
  return raw;
}

/**
 * Values as text. Fields of a mapping become `name.field`; a list is shown as such, because no
 * setting that is translated is one.
 */
export function scalarsOf(value: unknown): Record<string, string> {
  const found: Record<string, string> = Object.create(null);
  for (const [name, one] of Object.entries(fieldsOf(value)))
    if (['string', 'number', 'boolean'].includes(typeof one)) found[name] = String(one);
    else if (Array.isArray(one)) found[name] = '[…]';
    else
      for (const [inner, text] of Object.entries(fieldsOf(one)))
        found[`${name}.${inner}`] = typeof text === 'object' ? '[…]' : String(text);
  return found;
}

function readYamlInventory(value: unknown): Raw {
  const raw = emptyRaw();
  const visit = (group: string, body: unknown, depth: number): void => {
    if (depth > 20) throw new MusterError('E_USAGE', 'groups are nested too deep');
    const { hosts, children, vars } = fieldsOf(body);
    member(raw.groups, group);
    Object.assign(raw.variables, scalarsOf(vars));
    for (const [pattern, variables] of Object.entries(fieldsOf(hosts)))
      for (const host of expandRange(pattern)) {
        raw.hosts.set(host, { ...raw.hosts.get(host), ...scalarsOf(variables) });
        member(raw.groups, group).add(host);
      }
    for (const [child, inner] of Object.entries(fieldsOf(children))) {
      member(raw.children, group).add(child);
      visit(child, inner, depth + 1);
    }
  };
  for (const [group, body] of Object.entries(fieldsOf(value))) visit(group, body, 0);
  return raw;
}

/**
 * Reads YAML of another program.
 *
 * @throws {MusterError} E_YAML when it cannot be read, e.g. because of a value of ansible-vault
 */
export function foreignYaml(text: string, file: string): unknown {
  try {
    return load(text);
  } catch (cause) {
    throw new MusterError('E_YAML', `${file}: ${messageOf(cause).split('\n')[0]}`, { cause });
  }
}

/**
 * Reads an inventory; a file that begins like INI is read as that.
 *
 * @throws {MusterError} E_YAML or E_USAGE when it cannot be read
 */
export function readInventory(text: string, file: string): Inventory {
  const first = text.split('\n').find((line) => line.trim() !== '' && !/^\s*[#;]/.test(line)) ?? '';
  const ini = /^\s*\[[^\]]+\]\s*$/.test(first) || /\.ini$/.test(file);
  const { hosts, groups, children, variables } = ini
    ? readIni(text)
    : readYamlInventory(foreignYaml(text, file));
  const all = (group: string, above: ReadonlySet<string>): ReadonlySet<string> => {
    const found = new Set(groups.get(group));
    for (const child of children.get(group) ?? [])
      if (!above.has(child)) for (const host of all(child, new Set([...above, child]))) found.add(host);
    return found;
  };
  const names = new Set([...groups.keys(), ...children.keys()]);
  return {
    hosts,
    groups: new Map([...names].map((name) => [name, all(name, new Set([name]))])),
    variables,
  };
}
