/** Texts of others, made safe to print. Pure. */

/** CSI and OSC sequences of terminals. */
const SEQUENCES = /\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?/g;

/**
 * A text without escape sequences, control characters and those that turn the direction of writing;
 * line breaks and tabs stay.
 */
export const plainText = (text: string): string =>
  text
    .replace(/\r\n?/g, '\n')
    .replace(SEQUENCES, '')
    .replace(/[^\P{C}\n\t]/gu, '');

/** The same, but colours stay: what the command paints itself. */
export const colouredText = (text: string): string =>
  text
    .split(/(\u001b\[[0-9;]*m)/)
    .map((part, n) => (n % 2 === 1 ? part : plainText(part)))
    .join('');
