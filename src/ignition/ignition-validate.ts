/**
 * Checks an Ignition configuration against its spec (3.3.0 to 3.6.0) and says where each fault is. The same verdict as
 * `ignition-validate`, which judges it in the tests; stricter about unknown keys, which Ignition only warns of: on a machine
 * nobody reads the warning.
 */
import { didYouMean } from '../resources/suggest.ts';
import { IGNITION_VERSIONS } from './ignition-types.ts';

export interface IgnitionFault {
  /** e.g. `storage.files[0].mode`. */
  readonly path: string;
  readonly message: string;
}

/** What a field may hold. `text` with a rule; `list` and `map` of more. `since`: not before this spec version. */
type Shape =
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
/** `key`: the field that tells items apart; two of the same are a fault. */
const list = (of: Shape, key?: string): Shape => ({ is: 'list', of, ...(key && { key }) });
const map = (
  fields: Readonly<Record<string, Shape>>,
  needs: readonly string[] = [],
  since: Readonly<Record<string, string>> = {},
): Shape => ({ is: 'map', fields, needs, since });

const absolute = (path: string) =>
  path.startsWith('/') && !path.includes('\0') ? undefined : 'not an absolute path';
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

const CONFIG = map(
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

/** Faults of a configuration, none when Ignition takes it. */
export function validateIgnition(config: unknown): readonly IgnitionFault[] {
  const version = (config as { ignition?: { version?: unknown } } | null)?.ignition?.version;
  if (typeof version === 'string' && !(IGNITION_VERSIONS as readonly string[]).includes(version))
    return [{ path: 'ignition.version', message: `${version} is none of ${IGNITION_VERSIONS.join(', ')}` }];
  const faults: IgnitionFault[] = [];
  const known = typeof version === 'string' ? version : IGNITION_VERSIONS[0];
  check(config, CONFIG, '', known, faults);
  if (faults.length === 0) checkWhole(config as WholeConfig, known, faults);
  return faults;
}

function check(value: unknown, shape: Shape, path: string, version: string, faults: IgnitionFault[]): void {
  const fault = (message: string, at = path) => faults.push({ path: at, message });
  // Ignition's own reading: null is as good as absent.
  if (value === null) return;
  switch (shape.is) {
    case 'boolean':
      if (typeof value !== 'boolean') fault('must be true or false');
      return;
    case 'number':
      if (!Number.isSafeInteger(value)) fault('must be a whole number');
      else if ((value as number) < (shape.min ?? -Infinity) || (value as number) > (shape.max ?? Infinity))
        fault(`must be between ${shape.min} and ${shape.max ?? 'more'}`);
      return;
    case 'text': {
      if (typeof value !== 'string') return void fault('must be text');
      const message = shape.rule?.(value);
      if (message) fault(message);
      return;
    }
    case 'list':
      if (!Array.isArray(value)) return void fault('must be a list');
      for (const [n, item] of value.entries()) check(item, shape.of, `${path}[${n}]`, version, faults);
      if (shape.key) checkDistinct(value, shape.key, path, faults);
      return;
    case 'map':
      checkMap(value, shape, path, version, faults);
  }
}

function checkMap(
  value: unknown,
  shape: Extract<Shape, { is: 'map' }>,
  path: string,
  version: string,
  faults: IgnitionFault[],
): void {
  if (typeof value !== 'object' || Array.isArray(value))
    return void faults.push({ path, message: 'must be a mapping' });
  const under = (key: string) => (path === '' ? key : `${path}.${key}`);
  for (const [key, inner] of Object.entries(value!)) {
    const field = Object.hasOwn(shape.fields, key) ? shape.fields[key] : undefined;
    const since = shape.since?.[key];
    if (!field)
      faults.push({ path: under(key), message: `unknown key${didYouMean(key, Object.keys(shape.fields))}` });
    else if (since && since > version)
      faults.push({ path: under(key), message: `only since spec ${since}; this is ${version}` });
    else check(inner, field, under(key), version, faults);
  }
  for (const key of shape.needs ?? [])
    if (!Object.hasOwn(value!, key)) faults.push({ path: under(key), message: 'is missing' });
}

function checkDistinct(items: readonly unknown[], key: string, path: string, faults: IgnitionFault[]): void {
  const seen = new Set<unknown>();
  for (const [n, item] of items.entries()) {
    const value = (item as Record<string, unknown> | null)?.[key];
    if (seen.has(value))
      faults.push({ path: `${path}[${n}].${key}`, message: `"${String(value)}" stands twice` });
    seen.add(value);
  }
}

interface WholeConfig {
  readonly storage?: {
    readonly disks?: readonly {
      readonly partitions?: readonly {
        number?: number;
        label?: string;
        sizeMiB?: number;
        startMiB?: number;
      }[];
    }[];
    readonly filesystems?: readonly { readonly path?: string; readonly format?: string }[];
    readonly files?: readonly PathNode[];
    readonly directories?: readonly PathNode[];
    readonly links?: readonly PathNode[];
  };
  readonly systemd?: {
    readonly units?: readonly {
      readonly name: string;
      readonly enabled?: boolean;
      readonly contents?: string;
    }[];
  };
  readonly passwd?: {
    readonly users?: readonly {
      readonly groups?: readonly string[];
      readonly sshAuthorizedKeys?: readonly string[];
    }[];
  };
}

interface PathNode {
  readonly path: string;
  readonly mode?: number;
  readonly overwrite?: boolean;
  readonly contents?: { readonly source?: string };
  readonly user?: { readonly id?: number; readonly name?: string };
  readonly group?: { readonly id?: number; readonly name?: string };
}

/** What holds between fields. */
function checkWhole(
  { storage: store, passwd, systemd }: WholeConfig,
  version: string,
  faults: IgnitionFault[],
): void {
  checkPaths(store, version, faults);
  for (const [n, one] of (systemd?.units ?? []).entries())
    if (one.enabled && one.contents && !/^\[Install\]\s*$/m.test(one.contents))
      faults.push({
        path: `systemd.units[${n}].contents`,
        message: `${one.name} is enabled but has no [Install] section: it would never start`,
      });
  for (const [n, disk] of (store?.disks ?? []).entries()) {
    const at = `storage.disks[${n}].partitions`;
    const partitions = disk.partitions ?? [];
    checkDistinct(
      partitions.filter((one) => one.number),
      'number',
      at,
      faults,
    );
    checkDistinct(
      partitions.filter((one) => one.label),
      'label',
      at,
      faults,
    );
  }
  checkDistinct(
    (store?.filesystems ?? []).filter((one) => one.path),
    'path',
    'storage.filesystems',
    faults,
  );
  for (const [n, one] of (store?.filesystems ?? []).entries())
    if (!one.format && one.path)
      faults.push({ path: `storage.filesystems[${n}].format`, message: 'is missing' });
  for (const [n, one] of (passwd?.users ?? []).entries())
    for (const field of ['groups', 'sshAuthorizedKeys'] as const)
      if (new Set(one[field] ?? []).size < (one[field]?.length ?? 0))
        faults.push({ path: `passwd.users[${n}].${field}`, message: 'holds the same twice' });
}

function checkPaths(store: WholeConfig['storage'], version: string, faults: IgnitionFault[]): void {
  const paths = new Map<string, string>();
  const links: string[] = [];
  for (const kind of ['files', 'directories', 'links'] as const) {
    for (const [n, one] of (store?.[kind] ?? []).entries()) {
      const at = `storage.${kind}[${n}]`;
      const path = one.path.replace(/\/+/g, '/');
      const other = paths.get(path);
      if (other) faults.push({ path: `${at}.path`, message: `${path} is also ${other}` });
      paths.set(path, at);
      if (kind === 'links') links.push(path);
      if ((one.mode ?? 0) > 0o777 && version < '3.4.0')
        faults.push({
          path: `${at}.mode`,
          message: `setuid, setgid and sticky bits need spec 3.4.0 (the image's ignitionVersion); this is ${version}`,
        });
      if (kind === 'files' && one.overwrite && one.contents?.source === undefined)
        faults.push({ path: `${at}.contents.source`, message: 'is missing: overwrite needs it' });
      for (const field of ['user', 'group'] as const)
        if (one[field]?.id !== undefined && one[field].name !== undefined && one[field].name !== '')
          faults.push({ path: `${at}.${field}`, message: 'give id or name, not both' });
    }
  }
  if (links.length === 0) return;
  for (const [path, at] of paths)
    for (const link of links)
      if (path.startsWith(`${link}/`))
        faults.push({ path: `${at}.path`, message: `lies below the link ${link}` });
}

/** What systemd's reader cannot make sense of; empty is fine. */
function unitFault(contents: string): string | undefined {
  let section = false;
  let continued = false;
  for (const [n, raw] of contents.split('\n').entries()) {
    const line = raw.trim();
    const goesOn = continued;
    continued = raw.endsWith('\\') && !/^[#;]/.test(line);
    if (goesOn || line === '' || /^[#;]/.test(line)) continue;
    if (/^\[[^\]]+\]$/.test(line)) section = true;
    else if (!section) return `line ${n + 1}: stands before the first [Section]`;
    else if (!/^[^=[\]]+=/.test(line)) return `line ${n + 1}: neither Name=value nor [Section]`;
  }
  return undefined;
}
