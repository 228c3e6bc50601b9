/** Prints what a change of documents does to clusters. */
import type { Consequences } from '../../api/consequences.ts';
import type { ProfileChange } from '../../api/profile-changes.ts';
import { firstFew } from '../../base/first-few.ts';

/** At most this many files are listed for machines that change alike. */
const MOST_FILES = 6;

/** The consequences as text, indented below the name of each cluster. */
export function consequencesText(consequences: readonly Consequences[]): string {
  return consequences
    .map(({ cluster, differences, nextBoot, upgrade }) => {
      const lines = differences.flatMap(({ machines, files, restarts, inTurn }) => {
        const atOnce = restarts.filter((one) => !inTurn.includes(one));
        return [
          `  ${machines.join(', ')}:`,
          ...(files.length > 0 ? [`    writes ${firstFew(files, MOST_FILES)}`] : []),
          ...(inTurn.length > 0 ? [`    restarts ${inTurn.join(', ')}, one machine after the other`] : []),
          ...(atOnce.length > 0 ? [`    restarts ${atOnce.join(', ')} on all of them at once`] : []),
        ];
      });
      lines.push(...nextBoot.flatMap((one) => nextBootLines(cluster, one)));
      if (upgrade)
        lines.push(
          `  begins an upgrade of Kubernetes from ${upgrade.from} to ${upgrade.to}, step by step, with drains;`,
          `    muster cluster upgrade ${cluster} --to ${upgrade.to} --dry-run shows the steps`,
        );
      return `cluster/${cluster}:\n${lines.join('\n')}\n`;
    })
    .join('');
}

/** Machines that get another profile, a line for those that change alike. */
export const profilesText = (changes: readonly ProfileChange[]): string =>
  changes
    .map(({ from = 'none', to = 'none', machines }) => {
      const whose = firstFew(machines, MOST_MACHINES);
      return `profile ${from} becomes ${to} at the next boot of ${whose}\n`;
    })
    .join('');

const WORDS = {
  image: 'image',
  boot: 'what is booted',
  'kernel-arguments': 'kernel arguments',
  configuration: 'configuration',
  disks: 'selection of disks',
} as const;

/** Machines named in a command; more of them are left to the reader. */
const MOST_MACHINES = 8;

function nextBootLines(
  cluster: string,
  { machines, changes, image, installed }: Consequences['nextBoot'][number],
) {
  const { from, to } = image ?? {};
  const images = from !== undefined && to !== undefined && from !== to ? ` (${from} becomes ${to})` : '';
  const what = changes.map((one) => (one === 'image' ? `${WORDS[one]}${images}` : WORDS[one]));
  const chosen = machines.length > MOST_MACHINES ? '' : ` --machines ${machines.join(' ')}`;
  if (installed)
    return [
      `  ${firstFew(machines, MOST_MACHINES)}: nothing changes before their systems are installed anew, then: ${what.join(', ')};`,
      `    muster machine install ${machines[0]} does that at its next boot`,
    ];
  return [
    `  ${firstFew(machines, MOST_MACHINES)}: nothing changes before the next boot, then: ${what.join(', ')};`,
    `    muster cluster roll ${cluster}${chosen} drains and reboots one after the other,`,
    '    and what a machine keeps outside of its data disk is lost with the reboot',
  ];
}
