/** Asks for a passphrase at the terminal, without showing it. */
import fs from 'node:fs';
import tty from 'node:tty';
import { MusterError } from '../../base/errors.ts';

const INTERRUPT = '\u0003';
const END = '\u0004';
const ERASE = ['\u007f', '\b'];

/**
 * Asks twice, and returns the passphrase if both are the same.
 *
 * @throws {MusterError} E_USAGE without a terminal, when the two differ, and for Ctrl-C
 */
export async function askPassphrase(): Promise<string> {
  const terminal = openTerminal();
  try {
    const first = await ask(terminal, 'Passphrase: ');
    if ((await ask(terminal, 'The same again: ')) !== first)
      throw new MusterError('E_USAGE', 'the two passphrases differ');
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

function openTerminal(): Terminal {
  try {
    const input = new tty.ReadStream(fs.openSync('/dev/tty', 'r'));
    input.setRawMode(true);
    return { input, output: fs.openSync('/dev/tty', 'w') };
  } catch (cause) {
    throw new MusterError(
      'E_USAGE',
      'there is no terminal to ask for a passphrase; use --passphrase-file FILE',
      {
        cause,
      },
    );
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
          done(() => reject(new MusterError('E_USAGE', 'no passphrase was given')));
          return;
        }
        line = ERASE.includes(character) ? line.slice(0, -1) : line + character;
      }
    };
    input.on('data', take);
  });
}
