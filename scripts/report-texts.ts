/** src/ignition/report/texts.ts from the files beside it; `make docs` writes it, test/audit/docs.test.ts compares. */
import fs from 'node:fs';
import path from 'node:path';

const DIRECTORY = path.join(import.meta.dirname, '../src/ignition/report');
const FILES = {
  REPORT_SCRIPT: 'muster-report.sh',
  CONFIGURED_UNIT: 'muster-configured.service',
  READY_UNIT: 'muster-ready.service',
  FAILED_UNIT: 'muster-failed.service',
};

const HEAD = `/**
 * The reporting script and units as they are written into configurations: \`make docs\` makes this of the files beside it,
 * which images carry and shellcheck reads; here so that rendering needs no file.
 */

/** Where they go: /etc is writable on every system that we boot, and \`sh FILE\` needs no execute label of SELinux. */
export const REPORT_SCRIPT_PATH = '/etc/muster/muster-report.sh';
`;

export function reportTexts(): string {
  const constants = Object.entries(FILES).map(([name, file]) => {
    const text = fs.readFileSync(path.join(DIRECTORY, file), 'utf8');
    return `\nexport const ${name} = \`${text.replaceAll('\\', '\\\\').replaceAll('`', '\\`').replaceAll('${', '\\${')}\`;\n`;
  });
  return HEAD + constants.join('');
}
