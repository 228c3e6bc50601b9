/** Asks for a passphrase or password at the terminal, without showing it. */
import fs from 'node:fs';
import tty from 'node:tty';
import { MusterError } from '../../base/errors.ts';

const INTERRUPT = '\u0003';
const END = '\u0004';
const ERASE = ['\u007f', '\b'];

/**
 * Asks for a secret text without showing it; with `again`, twice.
 *
 * @param instead the option that replaces the question where there is no terminal
 * @throws {MusterError} E_USAGE without a terminal, when two answers differ, and for Ctrl-C
 */
export async function askHidden(
  question: string,
  { again, instead }: { readonly again?: string; readonly instead: string },
): Promise<string> {
  const terminal = openTerminal(instead);
  try {
    const first = await ask(terminal, question);
    if (again !== undefined && (await ask(terminal, again)) !== first)
      throw new MusterError('E_USAGE', 'the two answers differ');
    return first;
  } finally {
    terminal.input.setRawMode(false);
    terminal.input.destroy();
    fs.closeSync(terminal.output);
  }
}

interface Terminal {
  readonly input: tty.ReadStream;
  readonly output: number;
}

function openTerminal(instead: string): Terminal {
  try {
    const input = new tty.ReadStream(fs.openSync('/dev/tty', 'r'));
    input.setRawMode(true);
    return { input, output: fs.openSync('/dev/tty', 'w') };
  } catch (cause) {
    throw new MusterError('E_USAGE', `there is no terminal to ask at; use ${instead}`, { cause });
  }
}

function ask({ input, output }: Terminal, question: string): Promise<string> {
  fs.writeSync(output, question);
  return new Promise((resolve, reject) => {
    let line = '';
    const done = (end: () => void): void => {
      input.off('data', take);
      fs.writeSync(output, '\n');
      end();
    };
    const take = (octets: Buffer): void => {
      for (const character of octets.toString('utf8')) {
        if (character === '\r' || character === '\n') {
          done(() => resolve(line));
          return;
        }
        if (character === INTERRUPT || character === END) {
          done(() => reject(new MusterError('E_USAGE', 'nothing was given')));
          return;
        }
        line = ERASE.includes(character) ? line.slice(0, -1) : line + character;
      }
    };
    input.on('data', take);
  });
}
