/**
 * Checks a cloud-config document of an operator against the keys and types of cloud-init's own
 * schema. cloud-init itself only warns, in a log that nobody reads, and leaves out what it does not
 * know.
 */
import type { z } from 'zod';
import { didYouMean, suggest } from '../base/suggest.ts';
import { certificatesFault } from '../resources/certificate-text.ts';
import { domainName, fileMode, filePath } from '../resources/fields.ts';
import { passwordHashFault } from '../resources/password-hash-text.ts';
import { sshKeyFault } from '../resources/ssh-key.ts';
import { timeZoneFault } from '../resources/time-zones.ts';
import { CLOUD_CONFIG_LINES } from './cloudinit-keys.generated.ts';

interface Place {
  readonly types: readonly string[];
  /** Whether a mapping may have keys that are not listed. */
  readonly open: boolean;
  /** The only version that has it, if not all have. */
  readonly only?: string;
  readonly keys: string[];
  /** The texts that it may be; empty: any. */
  readonly choices: readonly string[];
}

interface CloudConfigFault {
  readonly path: string;
  readonly message: string;
}

/** Keys that people look for in cloud-config and that belong into other fields of a document. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  network: 'cloud-init reads no network from user-data; write config.network',
  instance_id: 'Muster sets this in meta-data; remove it',
  'instance-id': 'Muster sets this in meta-data; remove it',
  'local-hostname': 'write config.hostname',
  autoinstall: 'this is read by the installer of Ubuntu alone, not by cloud-init; remove it',
};

const places = new Map<string, Place>();
/** The top-level keys that cloud-init's schema has. */
const TOP: string[] = [];
for (const line of CLOUD_CONFIG_LINES.trim().split('\n')) {
  const [at = '', kinds = '', only] = line.split(' ');
  const [types = '', choices = ''] = kinds.split('=');
  const open = types.endsWith('+');
  places.set(at, {
    types: types.replace(/\+$/, '').split('|'),
    open,
    ...(only !== undefined && { only }),
    keys: [],
    choices: choices === '' ? [] : choices.split(','),
  });
  const dot = at.lastIndexOf('.');
  const parent = dot < 0 ? undefined : places.get(at.slice(0, dot));
  if (at.endsWith('[]')) continue;
  if (parent) parent.keys.push(at.slice(dot + 1));
  else TOP.push(at);
}

/**
 * The faults of a document for an image with `version` of cloud-init. A top-level key that
 * resembles none is no fault: an image may have modules of its own ({@link unknownKeys} lists
 * them).
 */
export function validateCloudConfig(
  document: Readonly<Record<string, unknown>>,
  version: string | undefined,
): readonly CloudConfigFault[] {
  const faults: CloudConfigFault[] = [];
  for (const [key, value] of Object.entries(document)) {
    if (isLater(key, value, version)) continue;
    const instead = Object.hasOwn(ELSEWHERE, key) ? ELSEWHERE[key] : undefined;
    if (instead !== undefined) faults.push({ path: key, message: instead });
    else if (places.has(key)) check(value, key, key, version, faults);
    else if (suggest(key, TOP) !== undefined)
      faults.push({ path: key, message: `cloud-init has no such key${didYouMean(key, TOP)}` });
  }
  return faults;
}

/**
 * Keys that came after 25.1, whose schema the tables have: the first version, and which values it
 * takes in the new form.
 */
const LATER: Readonly<Record<string, readonly [since: string, isNewForm: (value: unknown) => boolean]>> = {
  ansible: ['25.2', (value) => Array.isArray((value as { pull?: unknown } | null)?.pull)],
  rh_subscription: ['25.3', (value) => Object.keys(value ?? {}).some((key) => key.includes('_'))],
  rpi: ['25.2', () => true],
};

function isLater(key: string, value: unknown, version: string | undefined): boolean {
  const [since, isNewForm] = Object.hasOwn(LATER, key) ? LATER[key]! : [];
  return since !== undefined && version !== undefined && isNewForm!(value) && isSince(version, since);
}

/** Whether a version like 25.1.4 is `since`, like 25.2, or newer. */
function isSince(version: string, since: string): boolean {
  const [year = 0, number = 0] = version.split('.').map((part) => Number.parseInt(part, 10) || 0);
  const [from = 0, first = 0] = since.split('.').map(Number);
  return year > from || (year === from && number >= first);
}

/** Top-level keys that cloud-init's own modules do not read. */
export const unknownKeys = (document: object): readonly string[] =>
  Object.keys(document).filter(
    (key) =>
      !places.has(key) &&
      !Object.hasOwn(LATER, key) &&
      !Object.hasOwn(ELSEWHERE, key) &&
      suggest(key, TOP) === undefined,
  );

const WORDS: Readonly<Record<string, string>> = {
  list: 'a list',
  map: 'a mapping',
  text: 'text',
  number: 'a number',
  flag: 'true or false',
  null: 'empty',
};

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'list';
  const kinds: Readonly<Record<string, string>> = {
    object: 'map',
    string: 'text',
    number: 'number',
    boolean: 'flag',
  };
  return kinds[typeof value] ?? 'text';
}

function check(
  value: unknown,
  at: string,
  path: string,
  version: string | undefined,
  faults: CloudConfigFault[],
): void {
  const place = places.get(at);
  if (place === undefined) return;
  if (place.only !== undefined && version !== undefined && isNew(version) !== (place.only === '25'))
    faults.push({ path, message: `cloud-init ${version} has no such key` });
  const type = typeOf(value);
  if (type !== 'null' && !place.types.includes('any') && !place.types.includes(type)) {
    const words = place.types.filter((one) => one !== 'null' || place.types.length === 1);
    faults.push({
      path,
      message: `must be ${words.map((one) => WORDS[one]).join(' or ')}, found ${WORDS[type]}${fixOf(value, words)}`,
    });
    return;
  }
  const message = typeof value === 'string' ? textFault(value, at, place) : undefined;
  if (message !== undefined) faults.push({ path, message });
  if (Array.isArray(value))
    for (const [n, item] of value.entries()) check(item, `${at}[]`, `${path}[${n}]`, version, faults);
  else if (type === 'map') checkMap(value as object, at, path, version, faults);
}

/** What to write where YAML read another type than was meant. */
function fixOf(value: unknown, wanted: readonly string[]): string {
  if (wanted.includes('text') && /^(number|boolean)$/.test(typeof value)) return '; put it in quotes';
  // cloud-init reads YAML 1.1, in which these words are true and false.
  if (wanted.includes('flag') && /^(yes|on|y)$/i.test(String(value))) return '; write true';
  if (wanted.includes('flag') && /^(no|off|n)$/i.test(String(value))) return '; write false';
  return '';
}

const by =
  (schema: z.ZodType): Rule =>
  (text) => {
    const result = schema.safeParse(text);
    return result.success ? undefined : result.error.issues[0]!.message;
  };
/** A hash; `*` and `!` lock the password. */
const hashFault: Rule = (text) => (/^[*!]/.test(text) ? undefined : passwordHashFault(text));
const keyFault: Rule = (text) => sshKeyFault(text.trim());

type Rule = (text: string) => string | undefined;

/** Texts that cloud-init takes and that then fail on the machine, each with the rule for it. */
const RULES: Readonly<Record<string, Rule>> = {
  'write_files[].path': by(filePath),
  'write_files[].permissions': by(fileMode),
  timezone: timeZoneFault,
  hostname: by(domainName),
  fqdn: by(domainName),
  'ca_certs.trusted[]': certificatesFault,
  'ca-certs.trusted[]': certificatesFault,
  ...Object.fromEntries(
    ['', 'user.', 'users[].'].map((user) => [`${user}ssh_authorized_keys[]`, keyFault] as const),
  ),
  ...Object.fromEntries(
    ['user', 'users[]'].flatMap((user) =>
      ['passwd', 'hashed_passwd', 'hashed-passwd'].map((key) => [`${user}.${key}`, hashFault] as const),
    ),
  ),
};

function textFault(text: string, at: string, { choices }: Place): string | undefined {
  const fault = RULES[at]?.(text);
  if (fault !== undefined) return fault;
  return choices.length === 0 || choices.includes(text)
    ? undefined
    : `cloud-init has no "${text}" here; it takes ${choices.join(', ')}`;
}

function checkMap(
  value: object,
  at: string,
  path: string,
  version: string | undefined,
  faults: CloudConfigFault[],
): void {
  const { keys, open } = places.get(at)!;
  const free = places.has(`${at}.*`);
  for (const [key, inner] of Object.entries(value)) {
    if (places.has(`${at}.${key}`)) check(inner, `${at}.${key}`, `${path}.${key}`, version, faults);
    else if (free) check(inner, `${at}.*`, `${path}.${key}`, version, faults);
    else if (keys.length > 0 && (!open || suggest(key, keys) !== undefined))
      faults.push({ path: `${path}.${key}`, message: `cloud-init has no such key${didYouMean(key, keys)}` });
  }
}

const isNew = (version: string): boolean => Number.parseInt(version, 10) >= 24;
