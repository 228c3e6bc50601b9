/**
 * The shape of an Ignition configuration, spec 3.3.0 to 3.6.0, as a table: what each field may
 * hold, and since which version.
 */
import { posix } from 'node:path';
import { unitFault } from './unit-text.ts';

/**
 * What a field may hold: `text` with a rule, or a `list` or `map`. `since`: the first spec version
 * that has the field.
 */
export type Shape =
  | { readonly is: 'text'; readonly rule?: (text: string) => string | undefined }
  | { readonly is: 'number'; readonly min?: number; readonly max?: number }
  | { readonly is: 'boolean' }
  | { readonly is: 'list'; readonly of: Shape; readonly key?: string }
  | {
      readonly is: 'map';
      readonly fields: Readonly<Record<string, Shape>>;
      readonly needs?: readonly string[];
      readonly since?: Readonly<Record<string, string>>;
    };

const text = (rule?: (text: string) => string | undefined): Shape => ({ is: 'text', ...(rule && { rule }) });
const flag: Shape = { is: 'boolean' };
const number = (min?: number, max?: number): Shape => ({
  is: 'number',
  ...(min !== undefined && { min }),
  ...(max !== undefined && { max }),
});
/** `key`: the field that identifies items; two items with the same key are a fault. */
const list = (of: Shape, key?: string): Shape => ({ is: 'list', of, ...(key && { key }) });
const map = (
  fields: Readonly<Record<string, Shape>>,
  needs: readonly string[] = [],
  since: Readonly<Record<string, string>> = {},
): Shape => ({ is: 'map', fields, needs, since });

/** Ignition refuses a path that is not in its simplest form ("not fully simplified"). */
const absolute = (path: string) => {
  if (!path.startsWith('/') || path.includes('\0')) return 'not an absolute path';
  const simple = posix.normalize(path).replace(/(?<=.)\/$/, '');
  return simple === path ? undefined : `not in its simplest form; write "${simple}"`;
};
const fileName = (ending: RegExp, what: string) => (name: string) =>
  ending.test(name) && !name.includes('/') ? undefined : `not the name of a ${what}`;
const hash = (value: string) =>
  /^(sha256-[0-9a-f]{64}|sha512-[0-9a-f]{128})$/.test(value)
    ? undefined
    : 'not a hash; write "sha256-" or "sha512-" and hexadecimal digits';
const SCHEMES = /^(https?|tftp|s3|arn|gs|data):/;

function url(value: string): string | undefined {
  if (value === '') return undefined;
  const scheme = SCHEMES.exec(value)?.[1];
  if (scheme === undefined) return 'not a URL of http, https, tftp, s3, arn, gs or data';
  if (scheme === 'data') return dataUrl(value);
  return scheme === 'arn' || URL.canParse(value) ? undefined : 'not a URL';
}

function dataUrl(value: string): string | undefined {
  const comma = value.indexOf(',');
  if (comma < 0) return 'a data URL needs a comma before its data';
  const data = value.slice(comma + 1);
  if (!value.slice(0, comma).endsWith(';base64'))
    return /%(?![0-9A-Fa-f]{2})/.test(data) ? 'a data URL with a stray "%"' : undefined;
  return /^[A-Za-z0-9+/]*={0,2}$/.test(data) && data.length % 4 === 0 ? undefined : 'not base64';
}

const resource = map({
  source: text(url),
  compression: text((value) => (['', 'gzip'].includes(value) ? undefined : 'neither empty nor gzip')),
  httpHeaders: list(map({ name: text(), value: text() }, ['name']), 'name'),
  verification: map({ hash: text(hash) }),
});
const owner = map({ id: number(0), name: text() });
const node = { path: text(absolute), overwrite: flag, user: owner, group: owner };
const mode = number(0, 0o7777);
const clevis = map({
  custom: map({ config: text(), needsNetwork: flag, pin: text() }),
  tang: list(
    map({ url: text(), thumbprint: text(), advertisement: text() }, [], { advertisement: '3.4.0' }),
    'url',
  ),
  threshold: number(1),
  tpm2: flag,
});
const label = text((value) =>
  value.length > 36 ? 'longer than 36 characters' : value.includes(':') ? 'may not hold a colon' : undefined,
);
const guid = text((value) =>
  /^([0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})?$/.test(value) ? undefined : 'not a GUID',
);

const partition = map({
  guid,
  label,
  number: number(0),
  resize: flag,
  shouldExist: flag,
  sizeMiB: number(0),
  startMiB: number(0),
  typeGuid: guid,
  wipePartitionEntry: flag,
});

const storage = map({
  disks: list(
    map({ device: text(absolute), wipeTable: flag, partitions: list(partition) }, ['device']),
    'device',
  ),
  raid: list(
    map(
      {
        name: text(),
        devices: list(text(absolute)),
        level: text(),
        spares: number(0),
        options: list(text()),
      },
      ['name', 'level', 'devices'],
    ),
    'name',
  ),
  luks: list(
    map(
      {
        name: text(),
        device: text(absolute),
        label: text(),
        uuid: text(),
        keyFile: resource,
        wipeVolume: flag,
        options: list(text()),
        openOptions: list(text()),
        discard: flag,
        clevis,
        cex: map({ enabled: flag }),
      },
      ['name'],
      { discard: '3.4.0', openOptions: '3.4.0', cex: '3.6.0' },
    ),
    'name',
  ),
  filesystems: list(
    map(
      {
        device: text(absolute),
        format: text((value) =>
          ['ext4', 'btrfs', 'xfs', 'vfat', 'swap', 'none', ''].includes(value)
            ? undefined
            : 'not a file system that Ignition makes',
        ),
        label: text(),
        mountOptions: list(text()),
        options: list(text()),
        path: text(absolute),
        uuid: text(),
        wipeFilesystem: flag,
      },
      ['device'],
    ),
    'device',
  ),
  files: list(map({ ...node, mode, contents: resource, append: list(resource) }, ['path'])),
  directories: list(map({ ...node, mode }, ['path'])),
  links: list(map({ ...node, target: text(), hard: flag }, ['path', 'target'])),
});

const UNIT_NAME = fileName(
  /\.(service|socket|device|mount|automount|swap|target|path|timer|snapshot|slice|scope)$/,
  'unit',
);
const unit = map(
  {
    name: text(UNIT_NAME),
    enabled: flag,
    mask: flag,
    contents: text(unitFault),
    dropins: list(
      map({ name: text(fileName(/\.conf$/, 'drop-in')), contents: text(unitFault) }, ['name']),
      'name',
    ),
  },
  ['name'],
);

const user = map(
  {
    name: text(),
    gecos: text(),
    groups: list(text()),
    homeDir: text(),
    noCreateHome: flag,
    noLogInit: flag,
    noUserGroup: flag,
    passwordHash: text(),
    primaryGroup: text(),
    shell: text(),
    shouldExist: flag,
    sshAuthorizedKeys: list(text()),
    system: flag,
    uid: number(0),
  },
  ['name'],
);

export const CONFIG = map(
  {
    ignition: map(
      {
        version: text(),
        config: map({ merge: list(resource), replace: resource }),
        proxy: map({ httpProxy: text(), httpsProxy: text(), noProxy: list(text()) }),
        security: map({ tls: map({ certificateAuthorities: list(resource) }) }),
        timeouts: map({ httpResponseHeaders: number(0), httpTotal: number(0) }),
      },
      ['version'],
    ),
    kernelArguments: map({ shouldExist: list(text()), shouldNotExist: list(text()) }),
    passwd: map({
      users: list(user, 'name'),
      groups: list(
        map({ name: text(), gid: number(0), passwordHash: text(), shouldExist: flag, system: flag }, [
          'name',
        ]),
        'name',
      ),
    }),
    storage,
    systemd: map({ units: list(unit, 'name') }),
  },
  ['ignition'],
);
