/**
 * Checks an Ignition configuration against its spec (3.3.0 to 3.6.0) and says where each fault is.
 * The tests compare it with `ignition-validate`. It is stricter about unknown keys: Ignition only
 * warns about them, and nobody reads a warning on a machine.
 */
import { didYouMean } from '../base/suggest.ts';
import { CONFIG, type Shape } from './ignition-shape.ts';
import { IGNITION_VERSIONS } from './ignition-types.ts';

interface IgnitionFault {
  /** e.g. `storage.files[0].mode`. */
  readonly path: string;
  readonly message: string;
}

/** The faults of a configuration; none when Ignition accepts it. */
export function validateIgnition(config: unknown): readonly IgnitionFault[] {
  const version = (config as { ignition?: { version?: unknown } } | null)?.ignition?.version;
  if (typeof version === 'string' && !(IGNITION_VERSIONS as readonly string[]).includes(version))
    return [
      {
        path: 'ignition.version',
        message: version.startsWith('2.')
          ? `${version} is another format; translate it with ign-converter of CoreOS, or write Butane`
          : `${version} is none of ${IGNITION_VERSIONS.join(', ')}`,
      },
    ];
  if (config === null || config === undefined) return [{ path: '', message: 'must be a mapping' }];
  const faults: IgnitionFault[] = [];
  const known = typeof version === 'string' ? version : IGNITION_VERSIONS[0];
  check(config, CONFIG, '', known, faults);
  if (faults.length === 0) checkWhole(config as WholeConfig, known, faults);
  return faults;
}

function check(value: unknown, shape: Shape, path: string, version: string, faults: IgnitionFault[]): void {
  const fault = (message: string, at = path) => faults.push({ path: at, message });
  // Ignition treats null as absent.
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
      for (const [n, item] of value.entries())
        if (item === null) fault('must not be null', `${path}[${n}]`);
        else check(item, shape.of, `${path}[${n}]`, version, faults);
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
    if (!Object.hasOwn(value!, key) || (value as Record<string, unknown>)[key] === null)
      faults.push({ path: under(key), message: 'is missing' });
}

function checkDistinct(items: readonly unknown[], key: string, path: string, faults: IgnitionFault[]): void {
  const seen = new Set<unknown>();
  for (const [n, item] of items.entries()) {
    const value = (item as Record<string, unknown> | null)?.[key];
    // 0 and an empty text mean that Ignition chooses a partition number or path itself.
    if (value === undefined || value === null || value === 0 || value === '') continue;
    if (seen.has(value))
      faults.push({ path: `${path}[${n}].${key}`, message: `"${String(value)}" is listed twice` });
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

/** Checks rules between fields. */
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
    checkDistinct(partitions, 'number', at, faults);
    checkDistinct(partitions, 'label', at, faults);
  }
  checkDistinct(store?.filesystems ?? [], 'path', 'storage.filesystems', faults);
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
  /** What has nothing below it. */
  const leaves = new Map<string, 'file' | 'link'>();
  for (const kind of ['files', 'directories', 'links'] as const) {
    for (const [n, one] of (store?.[kind] ?? []).entries()) {
      const at = `storage.${kind}[${n}]`;
      const path = one.path.replace(/\/+/g, '/');
      const other = paths.get(path);
      if (other) faults.push({ path: `${at}.path`, message: `${path} is also ${other}` });
      paths.set(path, at);
      if (kind !== 'directories') leaves.set(path, kind === 'links' ? 'link' : 'file');
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
  for (const [path, at] of paths) {
    const above = pathsAbove(path).find((one) => leaves.has(one));
    if (above !== undefined)
      faults.push({ path: `${at}.path`, message: `lies below the ${leaves.get(above)} ${above}` });
  }
}

/** The directories of a path, the nearest first. */
const pathsAbove = (path: string): readonly string[] => {
  const parts = path.split('/');
  return parts
    .slice(2)
    .map((_, n) => parts.slice(0, n + 2).join('/'))
    .reverse();
};
