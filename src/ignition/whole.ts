/**
 * Checks a merged configuration as a whole, whatever format it is rendered to.
 */
import type { Fault } from '../base/errors.ts';
import { pathText } from '../resources/document.ts';
import type { NodeConfig } from '../resources/nodeconfig.ts';
import { referenceIn } from '../resources/secret-spec.ts';
import type { Path } from '../resources/yaml.ts';
import { configFault } from './expand.ts';
import { linkName } from './links.ts';
import { type Merged, sourceOf } from './merge.ts';
import { networkFaults } from './network-faults.ts';
import { nodeFaults } from './node-faults.ts';

/**
 * Faults that no single document shows: names that two items share after merging, and partitions
 * that cannot be made.
 */
export function wholeFaults(merged: Merged, config: NodeConfig): readonly Fault[] {
  const faults: Fault[] = [];
  const unique = (what: string) => {
    const seen = new Map<string, Path>();
    return (name: string, path: Path) => {
      const other = seen.get(name);
      if (other === undefined) seen.set(name, path);
      else
        faults.push(
          configFault(merged, path, `${what} "${name}" is also ${placeOf(merged, other)}; keep one`),
        );
    };
  };
  const named = unique('the interface');
  for (const [n, one] of (config.network?.interfaces ?? []).entries())
    named(linkName(one, n), ['network', 'interfaces', n]);
  for (const { path, message } of networkFaults(config.network?.interfaces ?? []))
    faults.push(configFault(merged, ['network', 'interfaces', ...path], message));
  for (const { path, message } of nodeFaults(config)) faults.push(configFault(merged, path, message));
  const labelled = unique('the partition');
  const mounted = unique('the mount');
  for (const [n, { partitions = [] }] of (config.disks ?? []).entries())
    for (const [k, { label, sizeMiB, mount, filesystem }] of partitions.entries()) {
      const path: Path = ['disks', n, 'partitions', k];
      labelled(label, [...path, 'label']);
      if (mount !== undefined && filesystem !== undefined && filesystem !== 'swap')
        mounted(mount.replace(/\/+/g, '/').replace(/(?<=.)\/$/, ''), [...path, 'mount']);
      if (!sizeMiB && k + 1 < partitions.length)
        faults.push(
          configFault(
            merged,
            path,
            `partition "${label}" has no sizeMiB, so it takes the rest of the disk: only the last can`,
          ),
        );
    }
  for (const [n, { mount }] of (config.filesystems ?? []).entries())
    if (mount !== undefined) mounted(mount, ['filesystems', n, 'mount']);
  for (const [n, { path, content }] of (config.files ?? []).entries())
    if (referenceIn(content) && !PLAN_PATH.test(path))
      faults.push(
        configFault(
          merged,
          ['files', n, 'path'],
          `the agent cannot write "${path}"; for a file that is in a Secret use letters, digits and "@%+=:,._/-" alone`,
        ),
      );
  return faults;
}

/** Paths that a plan of an agent can name. */
const PLAN_PATH = /^\/[A-Za-z0-9@%+=:,._/-]+$/;

function placeOf(merged: Merged, path: Path): string {
  const source = sourceOf(merged, path);
  return source ? `${pathText(source.path)} of ${source.document}` : pathText(path);
}
