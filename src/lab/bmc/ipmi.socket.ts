/** A simulated BMC's IPMI over UDP: sessions, commands, and serial over LAN. */
import { createSocket, type RemoteInfo, type Socket } from 'node:dgram';
import { decodeFrame, encodeFrame, type Framed, PAYLOADS } from '../../bmc/ipmi/packet.ts';
import { COMMANDS, type Context, keyOf } from './commands.ts';
import type { Controller, Driven } from './controller.ts';
import type { FaultRule } from './faults.ts';
import {
  decodeRequest,
  encodeReply,
  isV15,
  newSession,
  openReply,
  openV15,
  pong,
  type Received,
  rakp2,
  rakp4,
  refusal,
  type Session,
  STATUS,
  sealV15,
  suiteAsked,
} from './listens.ts';
import { SerialOverLan } from './serial.socket.ts';

/** A session that nobody uses is forgotten after this. */
const IDLE_MS = 60_000;
const UNKNOWN_COMMAND = 0xc1;
const TOO_SHORT = 0xc7;
const NO_PRIVILEGE = 0xd4;

/** The peer of a session, and the last answer, which a repeated request gets again. */
interface Held extends Session {
  peer: RemoteInfo;
  last?: { readonly request: Buffer; readonly answer: Buffer };
}

/** Listens at an address. Resolves with how to end it. */
export async function listenIpmi(
  { address, port }: { readonly address: string; readonly port: number },
  controller: Controller,
  driven: Driven,
): Promise<{ readonly port: number; close(): Promise<void> }> {
  const socket = createSocket('udp4');
  const service = new IpmiService(socket, controller, driven);
  socket.on('message', (datagram, peer) => service.datagram(datagram, peer));
  await new Promise<void>((done, fail) => {
    socket.once('error', fail);
    socket.bind(port, address, done);
  });
  socket.on('error', () => {});
  return {
    port: socket.address().port,
    async close() {
      service.close();
      await new Promise<void>((done) => socket.close(done));
    },
  };
}

class IpmiService {
  readonly #socket: Socket;
  readonly #controller: Controller;
  readonly #driven: Driven;
  readonly #guid: Buffer;
  readonly #sessions = new Map<number, Held>();
  readonly #options = new Map<number, Buffer>();
  #serial: { readonly session: Held; readonly line: SerialOverLan } | undefined;

  constructor(socket: Socket, controller: Controller, driven: Driven) {
    this.#socket = socket;
    this.#controller = controller;
    this.#driven = driven;
    this.#guid = Buffer.from(controller.identity.uuid.replaceAll('-', ''), 'hex');
  }

  close(): void {
    this.#leaveConsole();
  }

  datagram(datagram: Buffer, peer: RemoteInfo): void {
    const ping = pong(datagram);
    if (ping) {
      this.#send(ping, peer);
      return;
    }
    if (isV15(datagram)) {
      const request = decodeRequest(openV15(datagram));
      if (request) this.#send(sealV15(this.#answer(request)), peer);
      return;
    }
    if (datagram.length < 16) return;
    const id = datagram.readUInt32LE(6);
    const held = this.#sessions.get(id);
    const frame = decodeFrame(datagram, held?.sealing);
    if (!frame.ok) return;
    if (id === 0) this.#setUp(frame.value, peer);
    else if (held?.sealing) this.#inSession(frame.value, Object.assign(held, { peer }));
  }

  /** The payloads that make a session, and commands that need none. */
  #setUp({ type, payload }: Framed, peer: RemoteInfo): void {
    const reply = (kind: number) => (octets: Buffer) =>
      this.#send(encodeFrame({ type: kind, session: 0, sequence: 0, payload: octets }), peer);
    if (type === PAYLOADS.message) {
      const request = decodeRequest(payload);
      if (request) reply(PAYLOADS.message)(this.#answer(request));
      return;
    }
    if (payload.length < 8) return;
    const fault = this.#controller.faults.of('login', `payload ${type.toString(16)}`);
    const send = (kind: number, octets: Buffer) =>
      misbehaving(fault, octets, (changed) => reply(kind)(changed));
    if (type === PAYLOADS.openRequest) {
      send(PAYLOADS.openAnswer, this.#open(payload, peer, fault));
      return;
    }
    const held = this.#sessions.get(payload.readUInt32LE(4));
    const kind = type === PAYLOADS.rakp1 ? PAYLOADS.rakp2 : PAYLOADS.rakp4;
    if (!held) {
      send(kind, refusal(payload, STATUS.noSession, 0));
      return;
    }
    const make = type === PAYLOADS.rakp1 ? rakp2 : rakp4;
    const answer = make(payload, held, this.#controller, this.#guid);
    if (answer[1] !== 0) this.#sessions.delete(held.ours);
    send(kind, fault?.answer === undefined ? answer : refusal(payload, fault.answer, held.theirs));
  }

  #open(payload: Buffer, peer: RemoteInfo, fault: FaultRule | undefined): Buffer {
    const now = this.#controller.now();
    for (const [id, one] of this.#sessions) if (now - one.usedAt > IDLE_MS) this.#sessions.delete(id);
    const { suites, sessions } = this.#controller.traits;
    const suite = suiteAsked(payload, suites);
    const theirs = payload.readUInt32LE(4);
    if (fault?.answer !== undefined) return refusal(payload, fault.answer, theirs);
    if (suite === undefined) return refusal(payload, STATUS.noSuite, theirs);
    if (this.#sessions.size >= sessions) return refusal(payload, STATUS.full, theirs);
    const session: Held = { ...newSession(payload, suite, now), peer };
    this.#sessions.set(session.ours, session);
    return openReply(payload, session);
  }

  #inSession({ type, payload }: Framed, held: Held): void {
    held.usedAt = this.#controller.now();
    if (type === PAYLOADS.sol) {
      if (this.#serial?.session === held) this.#serial.line.take(payload);
      return;
    }
    const request = type === PAYLOADS.message ? decodeRequest(payload) : undefined;
    if (!request) return;
    // Clients repeat a request whose answer was lost. It is not carried out twice.
    const fault = this.#faultOf(request);
    const known = held.last?.request.equals(payload) ? held.last.answer : undefined;
    const answer = known ?? this.#answer(request, held, fault);
    held.last = { request: Buffer.from(payload), answer };
    misbehaving(fault, answer, (changed) => this.#seal(PAYLOADS.message, changed, held));
    if (keyOf(request.netFn, request.command) === '06/3c') this.#end(held);
  }

  #faultOf({ netFn, command }: Received): FaultRule | undefined {
    const row = COMMANDS[keyOf(netFn, command)];
    return row && this.#controller.faults.of(row.topic, row.name);
  }

  /** Carries out a command; the answer to it. */
  #answer(request: Received, held?: Held, fault?: FaultRule): Buffer {
    const row = COMMANDS[keyOf(request.netFn, request.command)];
    if (!row || (!held && row.privilege !== 0))
      return encodeReply(request, row ? NO_PRIVILEGE : UNKNOWN_COMMAND, Buffer.alloc(0));
    const { completion, data } = this.#carryOut(row, request, held, fault);
    return encodeReply(request, completion, data);
  }

  #carryOut(
    row: (typeof COMMANDS)[string],
    request: Received,
    held: Held | undefined,
    fault: FaultRule | undefined,
  ): { readonly completion: number; readonly data: Buffer } {
    const none = Buffer.alloc(0);
    if (held && held.privilege < row.privilege) return { completion: NO_PRIVILEGE, data: none };
    if (fault?.answer !== undefined) return { completion: fault.answer, data: none };
    if (fault?.acknowledged) return { completion: 0, data: none };
    try {
      const result = row.run(request.data, this.#context(held));
      return typeof result === 'number'
        ? { completion: result, data: none }
        : { completion: 0, data: result };
    } catch {
      // A read past the end of the request.
      return { completion: TOO_SHORT, data: none };
    }
  }

  #context(held: Held | undefined): Context {
    const service = this;
    return {
      controller: this.#controller,
      guid: this.#guid,
      port: this.#socket.address().port,
      options: this.#options,
      ...(held && {
        session: {
          id: held.ours,
          get privilege() {
            return held.privilege;
          },
          set privilege(value) {
            held.privilege = value;
          },
        },
      }),
      console: {
        take: () => held !== undefined && this.#takeConsole(held),
        leave: () => this.#leaveConsole(),
        get taken() {
          return service.#serial !== undefined;
        },
      },
    };
  }

  #takeConsole(held: Held): boolean {
    const holder = this.#serial?.session;
    if (holder && holder !== held && this.#sessions.has(holder.ours)) return false;
    this.#leaveConsole();
    const line = new SerialOverLan({
      send: (payload) => this.#seal(PAYLOADS.sol, payload, held),
      type: (octets) => this.#driven.type(octets),
      listen: (listener) => this.#driven.listen(listener),
    });
    this.#serial = { session: held, line };
    return true;
  }

  #leaveConsole(): void {
    this.#serial?.line.close();
    this.#serial = undefined;
  }

  #end(held: Held): void {
    if (this.#serial?.session === held) this.#leaveConsole();
    this.#sessions.delete(held.ours);
  }

  #seal(type: number, payload: Buffer, held: Held): void {
    held.sequence++;
    const frame = { type, session: held.theirs, sequence: held.sequence, payload };
    this.#send(encodeFrame(frame, held.sealing), held.peer);
  }

  #send(datagram: Buffer, { port, address }: RemoteInfo): void {
    this.#socket.send(datagram, port, address, () => {});
  }
}

/** Sends an answer as the rule says. */
function misbehaving(fault: FaultRule | undefined, answer: Buffer, send: (answer: Buffer) => void): void {
  if (fault?.lost) return;
  let changed = answer;
  if (fault?.half) changed = answer.subarray(0, Math.floor(answer.length / 2));
  if (fault?.garbled) changed = Buffer.from(answer).fill(answer.at(-1)! ^ 0xff, answer.length - 1);
  if (fault?.delayMs === undefined) send(changed);
  else setTimeout(() => send(changed), fault.delayMs);
}
