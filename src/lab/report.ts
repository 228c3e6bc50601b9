/** The output of a run: a line per step, a table at the end, and JSON for programs. Pure. */
import type { Verdict } from './expectations.ts';
import { type MachineObserved, outcomeOf, type TimedStep } from './observed.ts';

/** The object that `--json` prints at the end; its shape is stable. */
export interface LabResult {
  readonly scenario: string;
  readonly ok: boolean;
  readonly seconds: number;
  readonly machines: readonly {
    readonly name: string;
    readonly firmware: string;
    readonly outcome: string;
    readonly steps: readonly TimedStep[];
  }[];
  readonly expectations: readonly Verdict[];
}

/** The result of a run for `--json`. `seconds` is how long the run took. */
export function resultOf(
  scenario: string,
  seconds: number,
  machines: readonly MachineObserved[],
  expectations: readonly Verdict[],
): LabResult {
  return {
    scenario,
    ok: expectations.every((verdict) => verdict.ok),
    seconds: Math.round(seconds * 10) / 10,
    machines: machines.map((seen) => ({
      name: seen.machine.name,
      firmware: seen.machine.firmware,
      outcome: outcomeOf(seen),
      steps: [...seen.steps],
    })),
    expectations: [...expectations],
  };
}

/** A step as a line: `  12.3 s  node-1    kernel`. */
export function stepLine(at: number, machine: string, step: string): string {
  return `${at.toFixed(1).padStart(6)} s  ${machine.padEnd(10)} ${step}\n`;
}

/** A machine's row in the table. */
interface TableRow {
  readonly name: string;
  readonly firmware: string;
  readonly outcome: string;
  readonly profile: string;
  readonly address: string;
  /** Seconds from power-on to ready, held or failed. */
  readonly seconds: string;
}

function rowOf(seen: MachineObserved): TableRow {
  const script = seen.events.findLast((event) => event.kind === 'boot.script');
  const address = Object.values(seen.facts?.value.addresses ?? {})
    .flat()
    .at(0);
  const on = seen.steps.find(({ step }) => step === 'power on')?.at;
  const end = seen.steps.findLast(({ step }) => ['ready', 'hold', 'failed'].includes(step))?.at;
  return {
    name: seen.machine.name,
    firmware: seen.machine.firmware,
    outcome: outcomeOf(seen),
    profile: String(script?.fields?.profile ?? '-'),
    address: seen.lease ?? address?.split('/')[0] ?? '-',
    seconds: on !== undefined && end !== undefined ? (end - on).toFixed(0) : '-',
  };
}

const HEADINGS: TableRow = {
  name: 'NAME',
  firmware: 'FIRMWARE',
  outcome: 'OUTCOME',
  profile: 'PROFILE',
  address: 'ADDRESS',
  seconds: 'SECONDS',
};

/** The steps of each machine with their times, every expectation, and the table of machines. */
export function resultText(result: LabResult, machines: readonly MachineObserved[]): string {
  const lines = [''];
  for (const { name, firmware, outcome, steps } of result.machines) {
    lines.push(`${name} (${firmware}): ${outcome}`);
    lines.push(`    ${steps.map(({ step, at }) => `${step} ${at.toFixed(1)}`).join(' · ')}`);
  }
  lines.push('');
  // Only the first line is printed: the other lines, the end of a console, were shown when the step
  // failed.
  for (const { text, ok, detail } of result.expectations)
    lines.push(ok ? `  ok    ${text}` : `  FAIL  ${text}: ${detail.split('\n')[0]}`);
  lines.push('');
  const rows = [HEADINGS, ...machines.map(rowOf)];
  const columns = Object.keys(HEADINGS) as (keyof TableRow)[];
  const width = (column: keyof TableRow) => Math.max(...rows.map((row) => row[column].length));
  for (const row of rows)
    lines.push(
      columns
        .map((column) => row[column].padEnd(width(column)))
        .join('   ')
        .trimEnd(),
    );
  const failed = result.expectations.filter((verdict) => !verdict.ok).length;
  const count = result.expectations.length;
  const verdict =
    failed === 0 ? `all ${count} expectations held` : `${failed} of ${count} expectations failed`;
  lines.push('', `${result.scenario}: ${verdict} after ${result.seconds} s`, '');
  return lines.join('\n');
}

/** The last lines of a console, without control sequences. */
export function tail(text: string, lines: number): string {
  return (
    text
      // Firmware and systemd print colours and cursor movements.
      .replace(/\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>c78])/g, '')
      .replace(/[^\x20-\x7e\n]/g, '')
      .split('\n')
      .filter((line) => line.trim() !== '')
      .slice(-lines)
      .map((line) => `    | ${line.slice(0, 160)}`)
      .join('\n')
  );
}
