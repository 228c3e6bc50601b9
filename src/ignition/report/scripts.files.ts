/**
 * The script and units by which a machine reports, read once from the files beside this one. Images
 * contain the script too (images/debian/build.sh).
 */
import { scriptText, unitText } from '../../base/script-text.files.ts';

export const REPORT_SCRIPT = scriptText('src/ignition/report/muster-report.sh');
export const CONFIGURED_UNIT = unitText('src/ignition/report/muster-configured.service');
export const READY_UNIT = unitText('src/ignition/report/muster-ready.service');
export const FAILED_UNIT = unitText('src/ignition/report/muster-failed.service');
