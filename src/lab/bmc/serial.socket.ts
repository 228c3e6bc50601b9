/**
 * Serial over LAN from the BMC's side (IPMI 2.0, section 15): packets with numbers 1 to 15, each
 * sent until it is acknowledged. Pure, except for its timer.
 */

interface Ends {
  send(payload: Buffer): void;
  /** What the client types. */
  type(octets: Buffer): void;
  /** Calls with the machine's output; returns how to end that. */
  listen(listener: (octets: Buffer) => void): () => void;
}

const MOST = 200;
const AGAIN_MS = 300;
const TRIES = 20;
/** A line that nobody reads loses its oldest octets. */
const MAX_WAITING = 64 * 1024;
const HEADER = 4;

export class SerialOverLan {
  readonly #ends: Ends;
  readonly #stop: () => void;
  #waiting = Buffer.alloc(0);
  /** The packet that is not acknowledged. */
  #sent: { readonly number: number; readonly octets: Buffer; tries: number } | undefined;
  #number = 0;
  #lastTaken = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(ends: Ends) {
    this.#ends = ends;
    this.#stop = ends.listen((octets) => {
      this.#waiting = Buffer.concat([this.#waiting, octets]).subarray(-MAX_WAITING);
      this.#next();
    });
  }

  close(): void {
    this.#stop();
    clearTimeout(this.#timer);
    this.#sent = undefined;
  }

  /** A packet of the client: an acknowledgement, what was typed, or both. */
  take(payload: Buffer): void {
    if (payload.length < HEADER) return;
    const [number, acknowledged, accepted] = [payload[0]! & 0x0f, payload[1]! & 0x0f, payload[2]!];
    const typed = payload.subarray(HEADER);
    const refused = (payload[3]! & 0x40) !== 0;
    if (this.#sent && acknowledged === this.#sent.number && !refused) {
      // A client that accepted a part of it gets the rest in the next packet.
      const rest = this.#sent.octets.subarray(Math.min(accepted, this.#sent.octets.length));
      if (accepted > 0) this.#waiting = Buffer.concat([rest, this.#waiting]);
      this.#sent = undefined;
      clearTimeout(this.#timer);
    }
    if (number !== 0) {
      if (number !== this.#lastTaken) this.#ends.type(typed);
      this.#lastTaken = number;
      this.#ends.send(Buffer.from([0, number, typed.length, 0]));
    }
    this.#next();
  }

  #next(): void {
    if (this.#sent || this.#waiting.length === 0) return;
    this.#number = (this.#number % 15) + 1;
    this.#sent = { number: this.#number, octets: this.#waiting.subarray(0, MOST), tries: 0 };
    this.#waiting = this.#waiting.subarray(MOST);
    this.#again();
  }

  #again(): void {
    const sent = this.#sent;
    if (!sent) return;
    if (sent.tries++ === TRIES) {
      this.close();
      return;
    }
    this.#ends.send(Buffer.concat([Buffer.from([sent.number, 0, 0, 0]), sent.octets]));
    this.#timer = setTimeout(() => this.#again(), AGAIN_MS);
  }
}
