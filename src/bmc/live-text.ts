/**
 * What a machine prints on its serial port, for those who watch it live: as a terminal needs it,
 * with escape sequences, in pieces that are numbered. Pure, but for its timer.
 */
import { StringDecoder } from 'node:string_decoder';

/** What comes within this time is one piece. */
const PIECE_MS = 50;
/** A word that grows longer without a pause is passed on all the same. */
const LONGEST_WORD = 4096;
/** A new watcher gets the last characters that were printed: a screen has 2,000. */
const KEPT = 8192;

export interface LivePiece {
  readonly sequence: number;
  readonly kind: 'console';
  readonly text: string;
}

interface LiveTextDeps {
  /** A text without what nobody should see. */
  readonly hidden: (text: string) => string;
  /** Calls back after so many milliseconds. */
  readonly after: (milliseconds: number, call: () => void) => unknown;
}

/** The live text of one serial port. */
export class LiveText {
  readonly #deps: LiveTextDeps;
  readonly #decoder = new StringDecoder('utf8');
  readonly #listeners = new Set<(piece: LivePiece) => void>();
  #waiting = '';
  /** How much waited when the last piece was cut: a word that grew since is not cut. */
  #before = 0;
  #isTimed = false;
  #pieces: LivePiece[] = [];
  #sequence = 0;

  constructor(deps: LiveTextDeps) {
    this.#deps = deps;
  }

  /** The pieces that are kept, oldest first. */
  kept(): readonly LivePiece[] {
    return this.#pieces;
  }

  /** Calls back with each piece from now on; the returned function ends that. */
  subscribe(listener: (piece: LivePiece) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  take(octets: Buffer): void {
    this.#waiting += this.#decoder.write(octets);
    this.#time();
  }

  #time(): void {
    if (this.#isTimed || this.#waiting === '') return;
    this.#isTimed = true;
    this.#deps.after(PIECE_MS, () => {
      this.#isTimed = false;
      this.#cut();
      this.#time();
    });
  }

  /** Passes on what waits, but for a word that still grows: a secret may be one. */
  #cut(): void {
    const word = /\S*$/.exec(this.#waiting.slice(-LONGEST_WORD))![0].length;
    const grows = word > 0 && word < LONGEST_WORD && word !== this.#before;
    const text = grows ? this.#waiting.slice(0, -word) : this.#waiting;
    this.#waiting = this.#waiting.slice(text.length);
    this.#before = grows ? word : 0;
    if (text === '') return;
    const piece = { sequence: ++this.#sequence, kind: 'console' as const, text: this.#deps.hidden(text) };
    this.#pieces.push(piece);
    let length = this.#pieces.reduce((sum, one) => sum + one.text.length, 0);
    while (this.#pieces.length > 1 && length > KEPT) length -= this.#pieces.shift()!.text.length;
    for (const listener of this.#listeners) listener(piece);
  }
}
