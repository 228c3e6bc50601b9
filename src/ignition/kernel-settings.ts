/** Files and commands of kernel modules and kernel settings that documents ask for. */
import { shellWord } from './cloudinit-scripts.ts';
import type { PlainConfig, PlainFile } from './secrets.ts';

/** Read after Muster's own settings of clusters (90-muster.conf), so that documents win. */
const SYSCTL = '/etc/sysctl.d/95-muster-config.conf';
const MODULES = '/etc/modules-load.d/95-muster-config.conf';

type Settings = Pick<PlainConfig, 'sysctls' | 'kernelModules'>;

/** The files that systemd reads at every boot; none where documents say nothing. */
export function kernelFiles({ sysctls = {}, kernelModules = [] }: Settings): readonly PlainFile[] {
  const settings = Object.entries(sysctls).map(([key, value]) => `${key} = ${value}\n`);
  return [
    ...(kernelModules.length > 0
      ? [{ path: MODULES, content: kernelModules.map((name) => `${name}\n`).join('') }]
      : []),
    ...(settings.length > 0 ? [{ path: SYSCTL, content: settings.join('') }] : []),
  ];
}

const failing = (command: string, why: string): string =>
  `${command} || { echo ${shellWord(why)} | tee /run/muster-failed >&2; exit 1; }`;

/**
 * What takes these files into effect in a boot that wrote them after systemd had read its own.
 * Modules come first, because some settings exist only with them.
 */
export const kernelCommands = ({ sysctls = {}, kernelModules = [] }: Settings): readonly string[] => [
  ...(kernelModules.length > 0
    ? [
        failing(
          `modprobe -a ${kernelModules.map(shellWord).join(' ')}`,
          'a kernel module of this configuration cannot be loaded',
        ),
      ]
    : []),
  ...(Object.keys(sysctls).length > 0
    ? [failing(`sysctl -q -p ${SYSCTL}`, 'a kernel setting of this configuration cannot be set')]
    : []),
];
