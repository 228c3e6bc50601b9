/**
 * Maps a path in a rendered Ignition configuration back to the value of the merged configuration
 * that it was made from.
 */
import { parsePath } from '../resources/document.ts';
import type { NodeConfig } from '../resources/nodeconfig.ts';
import type { Path } from '../resources/yaml.ts';
import type { IgnitionConfig } from './ignition-types.ts';

/** Fields with another name in Ignition. */
const FIELDS: Readonly<Record<string, string>> = { sshAuthorizedKeys: 'sshKeys', homeDir: 'home' };

/**
 * The path in `config` of the value at `path` of `rendered`, as far as it exists; the root for a
 * value that was not made from one value of `config`. Rendering adds items of its own, so items are
 * found by their keys.
 */
export function placeIn(config: NodeConfig, rendered: IgnitionConfig, path: string): Path {
  const [room, list, index, ...rest] = parsePath(path);
  const item = <T>(name: 'files' | 'units' | 'users', all: readonly T[] | undefined, key: keyof T): Path => {
    const wanted = all?.[Number(index)]?.[key];
    const n = (config[name] ?? []).findIndex((one) => (one as { [K in keyof T]?: unknown })[key] === wanted);
    return n < 0 ? [] : reaching(config, [name, n], rest);
  };
  switch (`${room}.${list}`) {
    case 'storage.files':
      return item('files', rendered.storage?.files, 'path');
    case 'systemd.units':
      return item('units', rendered.systemd?.units, 'name');
    case 'passwd.users':
      return item('users', rendered.passwd?.users, 'name');
    case 'storage.disks':
      return reaching(config, ['disks', Number(index)], rest);
    default:
      return [];
  }
}

/** `path` with as many of the further steps as exist. */
function reaching(config: NodeConfig, path: Path, further: Path): Path {
  let reached = path;
  for (const step of further) {
    const next = [...reached, FIELDS[step] ?? step];
    let value: unknown = config;
    for (const one of next) value = (value as Record<string | number, unknown> | undefined)?.[one];
    if (value === undefined) return reached;
    reached = next;
  }
  return reached;
}
