/**
 * Text of foreign origin on its way into an iPXE script. iPXE has no quoting at all: a line is
 * split at blanks, `${…}` is expanded (again and again, while there is something to expand), and
 * the words `&&`, `||`, `;` and any word that begins with `#` are syntax (ipxe `core/exec.c`,
 * `core/settings.c`, the same in 2019 and 2026). So nothing is escaped: what is not plainly
 * harmless is replaced.
 */

/** Longest text of one console line; a VGA console has 80 columns, serial ones wrap. */
const MAX_CONSOLE_CHARACTERS = 200;

/** Needs no closer look: words, one blank between them. */
const PLAIN = /^[A-Za-z0-9.,:/_()+@='"%*<>!-]+( [A-Za-z0-9.,:/_()+@='"%*<>!-]+)*$/;

/**
 * One line of `echo` text: printable ASCII in which nothing is syntax to iPXE. Everything else
 * becomes `?` (backquotes become apostrophes, line breaks blanks). The caller puts a word of its
 * own before it, so that no text is read as an option.
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

/** A line that says something on the machine's console. */
export function say(text: string): string {
  return `echo Muster: ${consoleText(text)} ||`;
}
