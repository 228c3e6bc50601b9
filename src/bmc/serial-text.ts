/** Makes lines of what a machine prints on its serial port. Pure. */
import { StringDecoder } from 'node:string_decoder';

/** A line that is longer is broken: firmware draws screens without line breaks. */
const LONGEST = 1000;
/** A sequence that puts the cursor elsewhere on the screen, where other text begins. */
const ELSEWHERE = /\u001b\[(?:\d*;\d*[Hf]|H|2J|\d*[ABEF])/g;
/** The end of a chunk may be the beginning of a sequence. */
const OPEN_SEQUENCE = /\u001b(?:\[[0-?]{0,16})?$/;

/** Collects octets into lines. */
export class SerialText {
  readonly #decoder = new StringDecoder('utf8');
  #rest = '';

  /** The lines that these octets end. */
  take(octets: Buffer): readonly string[] {
    const text = this.#rest + this.#decoder.write(octets);
    const open = OPEN_SEQUENCE.exec(text)?.index ?? text.length;
    const parts = text
      .slice(0, open)
      .replace(ELSEWHERE, '\n')
      .split(/\r*\n|\r(?=[^\n])/);
    let last = parts.pop()!;
    const lines = [...parts];
    for (; last.length > LONGEST; last = last.slice(LONGEST)) lines.push(last.slice(0, LONGEST));
    this.#rest = last + text.slice(open);
    return lines;
  }

  /** What is there of a line that has no end, such as a prompt. */
  rest(): string {
    const rest = this.#rest;
    this.#rest = '';
    return rest;
  }
}

/** What the kernel prints last before the firmware starts again, or the power goes. */
export const endsBoot = (line: string): boolean =>
  /\breboot: (?:Restarting system|Power down|machine restart)/.test(line);
