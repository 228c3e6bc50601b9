/**
 * Settings of an operator's own documents that cloud-init and Ignition carry out, and with which a
 * machine never becomes ready: it restarts at the end of each configuration, or what Muster writes
 * is left out. Pure.
 */
import { fieldsOf, listOf, textOf } from '../base/foreign-json.ts';
import type { NodeUnit } from '../resources/nodeconfig.ts';
import { neededUnitFault } from './muster-layer.ts';
import { NEVER_READY, restartOf, restarts } from './restarts.ts';

interface Trap {
  /** In the document, e.g. `runcmd[0]`. */
  readonly path: string;
  readonly message: string;
}

/** Lists of the modules that cloud-init runs, as /etc/cloud/cloud.cfg of the image has them. */
const MODULE_LISTS = ['cloud_init_modules', 'cloud_config_modules', 'cloud_final_modules'];

/** What in a cloud-config keeps a machine from becoming ready. */
export function cloudConfigTraps(document: object): readonly Trap[] {
  const { power_state: power, package_reboot_if_required: afterUpgrade, ...rest } = fieldsOf(document);
  const { mode, condition } = fieldsOf(power);
  const isNever = condition === false || String(condition).toLowerCase() === 'false';
  return [
    ...(mode !== undefined && !isNever
      ? [{ path: 'power_state', message: `mode: ${String(mode)} ${NEVER_READY}` }]
      : []),
    ...(afterUpgrade === true
      ? [
          {
            path: 'package_reboot_if_required',
            message:
              'a machine that boots from the network installs the same packages again after that restart, and would never be ready; build them into the image, and remove this',
          },
        ]
      : []),
    ...MODULE_LISTS.filter((key) => rest[key] !== undefined).map((key) => ({
      path: key,
      message:
        'this replaces the list of the modules that cloud-init runs, and what Muster writes would be left out; remove it',
    })),
    ...['bootcmd', 'runcmd'].flatMap((key) =>
      listOf(rest[key]).flatMap((item, n) => {
        const command = commandText(item);
        return restarts(command)
          ? [{ path: `${key}[${n}]`, message: `"${command.trim()}" ${NEVER_READY}` }]
          : [];
      }),
    ),
  ];
}

/** A command of cloud-init: a text for a shell, or a list of words. */
export const commandText = (item: unknown): string =>
  Array.isArray(item) ? item.map(String).join(' ') : textOf(item);

/** What in an Ignition configuration keeps a machine from becoming ready, or has no effect. */
export function ignitionTraps(config: object): readonly Trap[] {
  const { ignition, kernelArguments, systemd } = fieldsOf(config);
  const replaced = fieldsOf(fieldsOf(fieldsOf(ignition).config).replace).source;
  const { shouldExist, shouldNotExist } = fieldsOf(kernelArguments);
  return [
    ...(typeof replaced === 'string' && replaced !== ''
      ? [
          {
            path: 'ignition.config.replace',
            message:
              'this replaces what Muster writes, and the machine would never be ready; write it as ignition.config.merge',
          },
        ]
      : []),
    ...(listOf(shouldExist).length + listOf(shouldNotExist).length > 0
      ? [
          {
            path: 'kernelArguments',
            message:
              'Ignition changes those of an installed system, and this one boots from the network; write kernelArguments of the Image or Profile',
          },
        ]
      : []),
    ...listOf(fieldsOf(systemd).units).flatMap((item, n) => {
      const unit = fieldsOf(item) as unknown as NodeUnit;
      if (typeof unit.name !== 'string') return [];
      const message = neededUnitFault(unit) ?? (isText(unit.contents) ? restartOf(unit) : undefined);
      return message === undefined ? [] : [{ path: `systemd.units[${n}]`, message }];
    }),
  ];
}

const isText = (value: unknown): boolean => value === undefined || typeof value === 'string';
