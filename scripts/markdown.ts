/** Builds Markdown for the generated pages. */

/** The first line of a generated page. */
export const generatedFrom = (sources: string): string =>
  `<!-- Written by \`make docs\` from ${sources}; change it there. -->\n\n`;

/** A Markdown table. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |\n`;
  return line(head) + line(head.map(() => '---')) + rows.map(line).join('');
}

/** Text in code style. */
export const code = (text: string): string => `\`${text}\``;

const WIDTH = 120;

/**
 * Wraps the paragraphs and list items of a page to lines of at most 120 columns. Tables, headings
 * and code blocks stay as they are; a longer code span is not broken.
 */
export function wrapped(page: string): string {
  let inCode = false;
  const lines = page.split('\n').flatMap((line) => {
    if (line.startsWith('```')) inCode = !inCode;
    return inCode || /^(\||#|```|\s)/.test(line) ? [line] : wrappedLine(line);
  });
  return lines.join('\n');
}

function wrappedLine(text: string): readonly string[] {
  const indent = ' '.repeat(/^(?:[-*]|[0-9]+\.) /.exec(text)?.[0].length ?? 0);
  const [first = '', ...words] = text.match(/(?:`[^`]*`|[^ ])+/g) ?? [];
  const lines = [first];
  for (const word of words) {
    const line = `${lines.at(-1)} ${word}`;
    if (line.length <= WIDTH) lines[lines.length - 1] = line;
    else lines.push(`${indent}${word}`);
  }
  return lines;
}
