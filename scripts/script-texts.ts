/**
 * Scripts and units as constants, from the files beside them: `make docs` writes them,
 * test/audit/docs.test.ts compares. So rendering a configuration needs no file, and shellcheck
 * reads what machines run.
 */
import fs from 'node:fs';
import path from 'node:path';

interface Texts {
  /** From the root of the tree. */
  readonly directory: string;
  readonly head: string;
  /** Constant → file. */
  readonly files: Readonly<Record<string, string>>;
}

const REPORT: Texts = {
  directory: 'src/ignition/report',
  head: `/**
 * The reporting script and units as they are written into configurations: \`make docs\` makes this of the files beside it,
 * which images carry and shellcheck reads; here so that rendering needs no file.
 */

/**
 * Where they go: /etc is writable on every system that we boot, and \`sh FILE\` needs no execute
 * label of SELinux.
 */
export const REPORT_SCRIPT_PATH = '/etc/muster/muster-report.sh';
`,
  files: {
    REPORT_SCRIPT: 'muster-report.sh',
    CONFIGURED_UNIT: 'muster-configured.service',
    READY_UNIT: 'muster-ready.service',
    FAILED_UNIT: 'muster-failed.service',
  },
};

const AGENT: Texts = {
  directory: 'src/agent',
  head: `/**
 * The agent's scripts and units as they are written into configurations: \`make docs\` makes this of the files beside it, which
 * shellcheck reads and the tests run.
 */
`,
  files: {
    AGENT_SCRIPT: 'muster-agent.sh',
    PLAN_SCRIPT: 'muster-plan.sh',
    KEPT_SCRIPT: 'muster-kept.sh',
    DISK_SCRIPT: 'muster-disk.sh',
    BOOT_SCRIPT: 'muster-boot.sh',
    CHECK_SCRIPT: 'muster-check.sh',
    AGENT_UNIT: 'muster-agent.service',
    INLINE_UNIT: 'muster-inline.service',
  },
};

function texts({ directory, head, files }: Texts): string {
  const constants = Object.entries(files).map(([name, file]) => {
    const text = fs.readFileSync(path.join(import.meta.dirname, '..', directory, file), 'utf8');
    return `\nexport const ${name} = \`${text.replaceAll('\\', '\\\\').replaceAll('`', '\\`').replaceAll('${', '\\${')}\`;\n`;
  });
  return head + constants.join('');
}

export const reportTexts = (): string => texts(REPORT);
export const agentTexts = (): string => texts(AGENT);
