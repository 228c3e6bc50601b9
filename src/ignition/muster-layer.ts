/**
 * Muster's own layer, below all others: the script and units by which a machine reports. Images
 * with `reports: true` contain them already.
 */

import type { NodeConfig, NodeUnit } from '../resources/nodeconfig.ts';
import type { ConfigLayer } from './rendered.ts';
import { CONFIGURED_UNIT, FAILED_UNIT, READY_UNIT, REPORT_SCRIPT } from './report/scripts.files.ts';
import { templateLiteral } from './template.ts';

/**
 * The path is below /etc, because /etc is writable on every system that we boot, and SELinux
 * requires no execute label for a file that is run as `sh FILE`.
 */
export const REPORT_SCRIPT_PATH = '/etc/muster/muster-report.sh';

const config: NodeConfig = {
  files: [{ path: REPORT_SCRIPT_PATH, mode: '0755', content: templateLiteral(REPORT_SCRIPT) }],
  units: [
    { name: 'muster-failed.service', contents: templateLiteral(FAILED_UNIT) },
    { name: 'muster-configured.service', enabled: true, contents: templateLiteral(CONFIGURED_UNIT) },
    { name: 'muster-ready.service', enabled: true, contents: templateLiteral(READY_UNIT) },
  ],
};

export const MUSTER_LAYER: ConfigLayer = { layer: 'muster', document: 'muster', config };

/**
 * An installed system starts with the kernel command line of its disk, which names no boot server.
 * This script writes where it reports instead, with the serial number of the disk that has its root
 * file system.
 */
const INSTALLED_SCRIPT = `#!/bin/sh
# Writes where muster-report.sh reports, in the form of a kernel command line.
disk=$(lsblk -nsro NAME,TYPE "$(findmnt -no SOURCE /)" | awk '$2 == "disk" { print $1; exit }')
serial=$(lsblk -ndo SERIAL "/dev/$disk" | awk '{ $1 = $1; print }' | tr -c 'A-Za-z0-9._:@+\\n-' _)
mkdir -p /run/muster
echo "muster.url=\${boot.url}/from/$serial" >/run/muster/installed
`;
const INSTALLED_SCRIPT_PATH = '/etc/muster/installed.sh';

/** Exists when the boot host knows that this system is ready: later boots report nothing. */
const INSTALLED_REPORTED = '/etc/muster/reported';

/** The empty condition ends those of the units, which ask for the kernel argument. */
const installedDropin = (unit: string) => ({
  name: 'installed.conf',
  contents: `[Unit]
ConditionKernelCommandLine=
ConditionPathExists=!${INSTALLED_REPORTED}

[Service]
Environment=MUSTER_CMDLINE=/run/muster/installed
${unit === 'ready' ? `Environment=MUSTER_REPORTED=${INSTALLED_REPORTED}\n` : ''}ExecStartPre=/bin/sh ${INSTALLED_SCRIPT_PATH}
`,
});

/** What systems that are installed on a disk get besides {@link MUSTER_LAYER}. */
export const INSTALLED_LAYER: ConfigLayer = {
  layer: 'muster',
  document: 'muster',
  config: {
    files: [{ path: INSTALLED_SCRIPT_PATH, mode: '0755', content: INSTALLED_SCRIPT }],
    units: ['failed', 'configured', 'ready'].map((name) => ({
      name: `muster-${name}.service`,
      dropins: [installedDropin(name)],
    })),
  },
};

/** Muster's own units that a machine needs in order to report and to get its plan. */
const NEEDED_UNITS = /^muster-(configured|ready|agent|inline)\.service$/;

/** Why a unit must not be as a document says; undefined when it may. */
export const neededUnitFault = ({
  name,
  mask,
  enabled,
}: Pick<NodeUnit, 'name' | 'mask' | 'enabled'>): string | undefined =>
  NEEDED_UNITS.test(name) && (mask === true || enabled === false)
    ? `without ${name} the machine would never be ready; remove this entry`
    : undefined;
