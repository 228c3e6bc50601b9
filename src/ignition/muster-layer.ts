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
