/**
 * Serial over LAN (IPMI 2.0, section 15): the console's side. Packets have numbers 1 to 15; each is
 * sent again until the other side has acknowledged it. Pure, except for its timer.
 */
import type { Command } from './commands.ts';
import type { Decoded } from './packet.ts';

const APPLICATION = 0x06;
/** Type 1 is the serial line; of instances, each BMC has the first. */
const SERIAL = [0x01, 0x01] as const;
/** The payload is encrypted and authenticated, as everything in the session. */
const SEALED = 0xc0;

export const activateSol: Command = {
  netFn: APPLICATION,
  command: 0x48,
  data: Buffer.from([...SERIAL, SEALED, 0, 0, 0]),
};
export const deactivateSol: Command = {
  netFn: APPLICATION,
  command: 0x49,
  data: Buffer.from([...SERIAL, 0, 0, 0, 0]),
};
/** The completion code of {@link activateSol} while another session has the line. */
export const HELD_ELSEWHERE = 0x80;

/** Why an activation is not understood, or how many octets of typed text a packet may have. */
export function roomIn(data: Buffer): number | undefined {
  // Four octets of settings, the size of packets to the BMC, and of those from it.
  return data.length < 8 ? undefined : Math.min(255, Math.max(HEADER + 1, data.readUInt16LE(4))) - HEADER;
}

const HEADER = 4;
/** Bits of the fourth octet in packets of the BMC. */
const REFUSED = 0x40;
const ENDED = 0x10;
const MAX_NUMBER = 15;

export interface SolPacket {
  /** 0: it carries no text, only an acknowledgement. */
  readonly number: number;
  /** The packet of the other side that it acknowledges; 0: none. */
  readonly acknowledged: number;
  /** How many octets of that packet were taken. */
  readonly accepted: number;
  readonly status: number;
  readonly octets: Buffer;
}

export function decodeSol(payload: Buffer): Decoded<SolPacket> {
  if (payload.length < HEADER) return { ok: false, why: 'cut off' };
  const [number, acknowledged, accepted, status] = payload;
  return {
    ok: true,
    value: {
      ...{ number: number! & 0x0f, acknowledged: acknowledged! & 0x0f },
      ...{ accepted: accepted!, status: status!, octets: payload.subarray(HEADER) },
    },
  };
}

export const encodeSol = ({ number, acknowledged, accepted, status, octets }: SolPacket): Buffer =>
  Buffer.concat([Buffer.from([number & 0x0f, acknowledged & 0x0f, accepted, status]), octets]);

/** What the line is connected to. */
export interface SolEnds {
  send(payload: Buffer): void;
  /** What the machine printed. */
  printed(octets: Buffer): void;
  /** The BMC ended it: another session took the line, or the BMC restarts. */
  ended(): void;
  /** Calls back after so many milliseconds; the returned function ends that. */
  after(milliseconds: number, call: () => void): () => void;
}

/** A packet that is not acknowledged is sent again after this, so many times. */
const AGAIN_MS = 500;
const TRIES = 20;
/** Typed text that waits for a slow line; more is refused. */
const MAX_WAITING = 16 * 1024;

/** A packet that is not acknowledged. */
interface Sent {
  readonly number: number;
  readonly octets: Buffer;
  tries: number;
}

/** The console's side of one line. */
export class SolLine {
  readonly #ends: SolEnds;
  readonly #room: number;
  #lastTaken = 0;
  #number = 0;
  #waiting = Buffer.alloc(0);
  #sent: Sent | undefined;
  #cancel = (): void => {};

  constructor(ends: SolEnds, room: number) {
    this.#ends = ends;
    this.#room = room;
  }

  /** Reads a packet of the BMC; what is none is dropped. */
  take(payload: Buffer): void {
    const read = decodeSol(payload);
    if (!read.ok) return;
    const { number, acknowledged, accepted, status, octets } = read.value;
    if ((status & ENDED) !== 0) {
      this.close();
      this.#ends.ended();
      return;
    }
    if (number !== 0) {
      // It comes again when its acknowledgement was lost.
      if (number !== this.#lastTaken && octets.length > 0) this.#ends.printed(Buffer.from(octets));
      this.#lastTaken = number;
      const answer = { number: 0, acknowledged: number, accepted: octets.length, status: 0 };
      this.#ends.send(encodeSol({ ...answer, octets: Buffer.alloc(0) }));
    }
    if (this.#sent === undefined || acknowledged !== this.#sent.number) return;
    if ((status & REFUSED) !== 0 && accepted === 0) return;
    // A BMC that took a part of it gets the rest in the next packet.
    this.#waiting = Buffer.concat([this.#sent.octets.subarray(accepted), this.#waiting]);
    this.#sent = undefined;
    this.#cancel();
    this.#next();
  }

  /** Sends typed text. Returns false where too much waits already: nothing of it is sent. */
  type(octets: Buffer): boolean {
    if (this.#waiting.length + octets.length > MAX_WAITING) return false;
    this.#waiting = Buffer.concat([this.#waiting, octets]);
    this.#next();
    return true;
  }

  close(): void {
    this.#cancel();
    this.#sent = undefined;
    this.#waiting = Buffer.alloc(0);
  }

  #next(): void {
    if (this.#sent !== undefined || this.#waiting.length === 0) return;
    const octets = this.#waiting.subarray(0, this.#room);
    this.#waiting = this.#waiting.subarray(octets.length);
    this.#number = (this.#number % MAX_NUMBER) + 1;
    this.#sent = { number: this.#number, octets, tries: 0 };
    this.#again(this.#sent);
  }

  #again(sent: Sent): void {
    if (++sent.tries > TRIES) {
      this.close();
      this.#ends.ended();
      return;
    }
    this.#ends.send(
      encodeSol({ number: sent.number, acknowledged: 0, accepted: 0, status: 0, octets: sent.octets }),
    );
    this.#cancel = this.#ends.after(AGAIN_MS, () => this.#again(sent));
  }
}
