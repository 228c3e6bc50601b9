/** Pieces of Markdown for the generated pages. */

/** The first line of a generated page. */
export const generatedFrom = (sources: string): string =>
  `<!-- Written by \`make docs\` from ${sources}; change it there. -->\n\n`;

/** A Markdown table. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |\n`;
  return line(head) + line(head.map(() => '---')) + rows.map(line).join('');
}

export const code = (text: string): string => `\`${text}\``;
