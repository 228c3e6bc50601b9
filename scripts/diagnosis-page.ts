/** Generates docs/diagnosis.md from the table of verdicts. */
import { RULES } from '../src/diagnosis/rules.ts';
import { generatedFrom, table } from './markdown.ts';

/** How sure a verdict is, in the words of the page. */
const CERTAINTY = {
  certain: 'Certain: the boot host or the machine saw exactly this.',
  likely: 'Likely: other causes would look the same from here.',
} as const;

export function diagnosisPage(): string {
  return (
    generatedFrom('src/diagnosis/rules.ts') +
    '# Diagnosis\n\n`muster machine timeline NAME` shows a boot step by step: every DHCP message with its transaction id and what Muster decided, every transfer with its speed, what the machine reported, and what was waited for in between. At its end, and at the end of `muster explain NAME`, it lists the verdicts that fit the boot. Each has the events that show it and what ends it. `GET /v1/machines/NAME/timeline` answers the same as JSON.\n\n`muster machine console NAME` shows what the kernel and the system of the machine printed. The boot host keeps three boots of each machine and 512 KiB of each boot. All machines together have at most 1 GiB: then the boots that were silent the longest are removed (`muster_console_boots_removed_total`).\n\nEvents are kept for a while only, and a packet that never reached this host left no trace: a verdict says what was seen here, and no verdict does not mean that nothing is wrong.\n\n' +
    table(
      ['verdict', 'what is wrong'],
      RULES.map(({ code, title }) => [`[${code}](#${code})`, title]),
    ) +
    RULES.map(
      ({ code, title, certainty, about, remedy }) =>
        `\n## ${code}\n\n**${title}.** ${about}\n\n${CERTAINTY[certainty]}\n\nRemedy: ${remedy}\n`,
    ).join('')
  );
}
