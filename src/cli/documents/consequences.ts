/** Prints what a change of documents does to clusters. */
import type { Consequences } from '../../api/consequences.ts';

/** At most this many files are listed for machines that change alike. */
const MOST_FILES = 6;

const listed = (names: readonly string[], most: number): string =>
  names.slice(0, most).join(', ') + (names.length > most ? ` and ${names.length - most} more` : '');

/** The consequences as text, indented below the name of each cluster. */
export function consequencesText(consequences: readonly Consequences[]): string {
  return consequences
    .map(({ cluster, differences, upgrade }) => {
      const lines = differences.flatMap(({ machines, files, restarts, inTurn }) => {
        const atOnce = restarts.filter((one) => !inTurn.includes(one));
        return [
          `  ${machines.join(', ')}:`,
          ...(files.length > 0 ? [`    writes ${listed(files, MOST_FILES)}`] : []),
          ...(inTurn.length > 0 ? [`    restarts ${inTurn.join(', ')}, one machine after the other`] : []),
          ...(atOnce.length > 0 ? [`    restarts ${atOnce.join(', ')} on all of them at once`] : []),
        ];
      });
      if (upgrade)
        lines.push(
          `  begins an upgrade of Kubernetes from ${upgrade.from} to ${upgrade.to}, step by step, with drains;`,
          `    muster cluster upgrade ${cluster} --to ${upgrade.to} --dry-run shows the steps`,
        );
      return `cluster/${cluster}:\n${lines.join('\n')}\n`;
    })
    .join('');
}
