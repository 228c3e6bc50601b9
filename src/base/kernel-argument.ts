/** Checks kernel arguments: a document is refused if iPXE would not pass an argument unchanged. */

/**
 * Characters of all arguments together. Kernels of x86 and arm64 take 2047 characters and a NUL
 * (COMMAND_LINE_SIZE). iPXE adds the image's name (UEFI) and `BOOTIF=01-52-54-00-aa-00-01`, so 47
 * are reserved for those.
 */
export const MAX_COMMAND_LINE = 2000;

/** Most arguments consist of these characters, which need no further check. */
const PLAIN = /^[A-Za-z0-9_.][A-Za-z0-9_.,:;/=+-]*$/;

/**
 * Says why iPXE would not pass `argument` on unchanged; undefined when it does. iPXE splits at
 * blanks and joins with one blank, knows no quotes (the kernel does: `foo="a b"` arrives), expands
 * `${…}`, and ends the command at the words `&&`, `||`, `;` and at a word that begins with `#`. A
 * `;` inside a word, as in `ds=nocloud;s=URL`, is an ordinary character.
 */
export function kernelArgumentFault(argument: string): string | undefined {
  if (PLAIN.test(argument)) return undefined;
  if (argument === '') return 'it is empty';
  if (/[^\x20-\x7e]/.test(argument)) return 'it holds a line break, a tab or a character that is not ASCII';
  if (/^ | {2}| $/.test(argument))
    return 'iPXE joins words with one blank: no blanks at the ends, none repeated';
  if (argument.includes('${')) return 'iPXE expands `${`: it cannot be passed on';
  for (const word of argument.split(' ')) {
    if (word.startsWith('#')) return `iPXE takes "${word}" for a comment`;
    if (word === '&&' || word === '||' || word === ';')
      return `iPXE takes the word "${word}" for the end of the command`;
  }
  if (argument.endsWith('\\')) return 'iPXE takes a backslash at the end of a line for a continuation';
  if (argument.includes(' ') && (argument.match(/"/g)?.length ?? 0) % 2 !== 0)
    return 'it holds blanks and an odd number of quotes';
  return undefined;
}
