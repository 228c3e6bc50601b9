/**
 * Makes text from documents and machines safe inside an iPXE script. iPXE has no quoting: it splits
 * a line at blanks, expands `${…}` repeatedly, and treats the words `&&`, `||`, `;` and any word
 * that begins with `#` as syntax (iPXE `core/exec.c` and `core/settings.c`, the same in 2019 and
 * 2026). Nothing can be escaped, so characters that could be syntax are replaced.
 */

/** Longer texts are cut. A VGA console has 80 columns; serial consoles wrap. */
const MAX_CONSOLE_CHARACTERS = 200;

/** Texts that need no change: harmless words with one blank between them. */
const PLAIN = /^[A-Za-z0-9.,:/_()+@='"%*<>!-]+( [A-Za-z0-9.,:/_()+@='"%*<>!-]+)*$/;

/**
 * Text for `echo`: printable ASCII in which nothing is syntax to iPXE. Other characters become `?`
 * (backquotes become apostrophes, line breaks blanks). The caller must write a word before it, so
 * that iPXE does not read the text as an option.
 */
export function consoleText(text: string): string {
  if (PLAIN.test(text) && text.length <= MAX_CONSOLE_CHARACTERS) return text;
  const plain = text
    .replace(/\s+/g, ' ')
    .replaceAll('`', "'")
    .replaceAll('…', '...')
    .replaceAll(';', ',')
    .replace(/[^A-Za-z0-9 .,:/_()+@='"%*<>!-]/g, '?')
    .trim();
  return plain.length > MAX_CONSOLE_CHARACTERS ? `${plain.slice(0, MAX_CONSOLE_CHARACTERS - 3)}...` : plain;
}

/** A script line that prints `text` on the machine's console. */
export function say(text: string): string {
  return `echo Muster: ${consoleText(text)} ||`;
}
