/**
 * Translates Butane, the form in which people write Ignition, into Ignition. Fields are those of
 * the Ignition spec in other letters; what Butane reads from files beside it, or makes of one key
 * for one operating system, is refused with its place.
 *
 * @see https://coreos.github.io/butane/specs/
 */
import { unitPath } from './ignition.ts';
import { CONFIG, type Shape } from './ignition-shape.ts';

interface ButaneFault {
  readonly path: string;
  readonly message: string;
}

/** Whether a document is Butane. */
export const isButane = (document: object): boolean => Object.hasOwn(document, 'variant');

/** The Ignition spec that a Butane version makes (docs of Butane, "Specifications"). */
const SPECS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  flatcar: { '1.0.0': '3.3.0', '1.1.0': '3.4.0' },
  fcos: {
    '1.0.0': '3.3.0',
    '1.1.0': '3.3.0',
    '1.2.0': '3.3.0',
    '1.3.0': '3.3.0',
    '1.4.0': '3.3.0',
    '1.5.0': '3.4.0',
    '1.6.0': '3.5.0',
    '1.7.0': '3.6.0',
  },
  r4e: { '1.0.0': '3.3.0', '1.1.0': '3.4.0' },
  fiot: { '1.0.0': '3.4.0' },
};

/** Keys that are not of the Ignition spec, and what to write instead. */
const REFUSED: Readonly<Record<string, string>> = {
  local: 'Muster does not read files beside a document; write the content as inline',
  contents_local: 'Muster does not read files beside a document; write the content as contents',
  ssh_authorized_keys_local:
    'Muster does not read files beside a document; write the keys as ssh_authorized_keys',
  trees: 'Muster does not read directories beside a document; write the files as storage.files',
  boot_device:
    'the machine has no boot device of Ignition: it boots from the network; see dataDisk and bootDisk',
  grub: 'the machine boots without GRUB; kernel arguments are in the Image or Profile',
  openshift: 'this belongs to OpenShift’s MachineConfig',
  metadata: 'this belongs to OpenShift’s MachineConfig',
};

type Translated =
  | { readonly ok: true; readonly config: object }
  | { readonly ok: false; readonly faults: readonly ButaneFault[] };

/** The Ignition configuration of a Butane document, or why there is none. */
export function fromButane(document: Readonly<Record<string, unknown>>): Translated {
  const { variant, version, ...rest } = document;
  if (variant === 'openshift')
    return refusal(
      'variant',
      'openshift makes a MachineConfig, which an operator of OpenShift reads; write "variant: fcos" with "version: 1.5.0", and remove metadata and openshift',
    );
  const specs = Object.hasOwn(SPECS, String(variant)) ? SPECS[String(variant)]! : undefined;
  if (specs === undefined)
    return refusal('variant', `${String(variant)} is none of ${Object.keys(SPECS).join(', ')}`);
  const spec = Object.hasOwn(specs, String(version)) ? specs[String(version)] : undefined;
  if (spec === undefined)
    return refusal('version', `Muster knows ${Object.keys(specs).join(', ')} of ${String(variant)}`);
  const faults: ButaneFault[] = [];
  const config = translate(rest, CONFIG, '', faults) as Record<string, unknown>;
  if (faults.length > 0) return { ok: false, faults };
  const units = mountUnits(rest);
  const systemd = (config.systemd ?? {}) as { units?: unknown[] };
  return {
    ok: true,
    config: {
      ...config,
      ...(units.length > 0 && { systemd: { ...systemd, units: [...(systemd.units ?? []), ...units] } }),
      ignition: { ...(config.ignition as object | undefined), version: spec },
    },
  };
}

const refusal = (path: string, message: string): Translated => ({ ok: false, faults: [{ path, message }] });

/** Ignition keeps the unit of a size: `sizeMiB` is `size_mib` in Butane. */
const camel = (key: string): string =>
  key.replace(/_mib$/, 'MiB').replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
/** The name of an Ignition field in Butane. */
export const snakePath = (path: string): string =>
  path.replace(/MiB\b/g, '_mib').replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Translates the keys that the shape has; all others are faults. */
function translate(value: unknown, shape: Shape | undefined, path: string, faults: ButaneFault[]): unknown {
  if (Array.isArray(value))
    return value.map((item, n) =>
      translate(item, shape?.is === 'list' ? shape.of : undefined, `${path}[${n}]`, faults),
    );
  if (typeof value !== 'object' || value === null || shape?.is !== 'map') return value;
  const result: Record<string, unknown> = {};
  for (const [key, inner] of Object.entries(value)) {
    const at = path === '' ? key : `${path}.${key}`;
    const name = camel(key);
    if (Object.hasOwn(shape.fields, name) && !/[A-Z]/.test(key))
      result[name] = translate(inner, shape.fields[name], at, faults);
    else if (key === 'inline' && Object.hasOwn(shape.fields, 'source')) {
      if (typeof inner === 'string') result.source = inlineUrl(inner);
      else faults.push({ path: at, message: 'must be text' });
    } else if (key === 'with_mount_unit') continue;
    else if (Object.hasOwn(REFUSED, key)) faults.push({ path: at, message: REFUSED[key]! });
    else faults.push({ path: at, message: 'unknown key' });
  }
  return result;
}

const inlineUrl = (text: string): string => `data:;base64,${Buffer.from(text).toString('base64')}`;

interface Filesystem {
  readonly device?: unknown;
  readonly path?: unknown;
  readonly format?: unknown;
  readonly mount_options?: unknown;
  readonly with_mount_unit?: unknown;
}

/** The units that `with_mount_unit: true` asks for. */
function mountUnits(document: Readonly<Record<string, unknown>>): readonly object[] {
  const { filesystems } = (document.storage ?? {}) as { filesystems?: unknown };
  if (!Array.isArray(filesystems)) return [];
  return (filesystems as (Filesystem | null)[]).flatMap((one) => {
    if (one?.with_mount_unit !== true || typeof one.device !== 'string') return [];
    const options = Array.isArray(one.mount_options) ? one.mount_options.join(',') : '';
    if (one.format === 'swap')
      return [
        {
          name: `${unitPath(one.device)}.swap`,
          enabled: true,
          contents: `[Swap]\nWhat=${one.device}\n${options && `Options=${options}\n`}\n[Install]\nRequiredBy=swap.target\n`,
        },
      ];
    if (typeof one.path !== 'string') return [];
    const type = typeof one.format === 'string' ? `Type=${one.format}\n` : '';
    return [
      {
        name: `${unitPath(one.path)}.mount`,
        enabled: true,
        contents: `[Mount]\nWhere=${one.path}\nWhat=${one.device}\n${type}${options && `Options=${options}\n`}\n[Install]\nRequiredBy=local-fs.target\n`,
      },
    ];
  });
}
