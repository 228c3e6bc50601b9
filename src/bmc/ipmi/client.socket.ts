/** A session of IPMI 2.0 with one BMC, over UDP. */
import { randomBytes } from 'node:crypto';
import { createSocket, type Socket } from 'node:dgram';
import { isIPv6 } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { type Bmc, type BmcConsole, BmcFault, type BmcFaultCode, type ConsoleUse, inTime } from '../bmc.ts';
import { quirksOfNumber } from '../quirks.ts';
import {
  bootIn,
  type Command,
  chassisControl,
  chassisIdentify,
  chassisStatus,
  closeSession,
  deviceId,
  getBoot,
  keepFlags,
  manufacturerIn,
  powerIn,
  setBoot,
  setPrivilege,
} from './commands.ts';
import {
  type Answer,
  COMPLETIONS,
  decodeAnswer,
  decodeFrame,
  encodeFrame,
  encodeRequest,
  type Framed,
  PAYLOADS,
  type Sealing,
} from './packet.ts';
import {
  ADMINISTRATOR,
  type Exchange,
  MAX_PASSWORD,
  openRequest,
  rakp1,
  rakp3,
  readOpenAnswer,
  readRakp2,
  readRakp4,
  SUITES,
  type Suite,
  sealingOf,
  sessionKey,
} from './session.ts';
import { activateSol, deactivateSol, HELD_ELSEWHERE, roomIn, SolLine } from './sol.ts';
import { setUser, switchUserOff } from './users.ts';
import { shownBy } from './views.ts';

export interface IpmiAccess {
  readonly address: string;
  /** 623 by default. */
  readonly port?: number;
  readonly user: string;
  readonly password: string;
  /** The suites that may be used, in their order; both by default, 17 first. */
  readonly suites?: readonly Suite[];
}

/** While a console is open, the BMC is asked this often whether it is there. */
const ALIVE_MS = 20_000;
/** BMCs answer within milliseconds, or after a pause of their own. */
const WAIT_MS = 1000;
const TRIES = 4;
/** A BMC that is busy is asked again after this. */
const BUSY_MS = 500;
const BUSY = new Set([0xc0, 0xc3, 0xd0]);

/** Opens a session. @throws {BmcFault} when the BMC does not answer, or refuses */
export async function openIpmi(access: IpmiAccess): Promise<Bmc> {
  if (Buffer.byteLength(access.password) > MAX_PASSWORD)
    throw new BmcFault('refused', `a password of IPMI has at most ${MAX_PASSWORD} octets`);
  const isSix = isIPv6(access.address);
  // The address is one: nothing is looked up, so that no name leads elsewhere.
  const socket = createSocket({
    type: isSix ? 'udp6' : 'udp4',
    lookup: (host, _options, done) => done(null, host, isSix ? 6 : 4),
  });
  try {
    await new Promise<void>((done, fail) => {
      socket.once('error', fail);
      // A connected socket takes datagrams of the BMC alone.
      socket.connect(access.port ?? 623, access.address, done);
    });
    socket.on('error', () => {});
    const [first, ...others] = access.suites ?? (Object.keys(SUITES).map(Number) as Suite[]).toReversed();
    return await openWith(socket, access, first!, others);
  } catch (error) {
    socket.close();
    throw error instanceof BmcFault ? error : new BmcFault('unreachable', String(error));
  }
}

async function openWith(
  socket: Socket,
  access: IpmiAccess,
  suite: Suite,
  others: readonly Suite[],
): Promise<Bmc> {
  const { user, password } = access;
  const ours = (randomBytes(4).readUInt32LE() | 1) >>> 0;
  const exchange: Exchange = { suite, user, password, ours, random: randomBytes(16) };
  const link = new Link(socket, ours);
  const opened = readOpenAnswer(
    await link.exchange(PAYLOADS.openRequest, PAYLOADS.openAnswer, openRequest(exchange)),
    exchange,
  );
  if (!opened.ok) {
    const [next, ...rest] = others;
    if (next !== undefined && opened.code !== 0x01) return openWith(socket, access, next, rest);
    throw new BmcFault(opened.code === 0x01 ? 'sessions-exhausted' : 'refused', opened.why);
  }
  const theirs = opened.value;
  const part = readRakp2(
    await link.exchange(PAYLOADS.rakp1, PAYLOADS.rakp2, rakp1(exchange, theirs)),
    exchange,
    theirs,
  );
  if (!part.ok) throw new BmcFault(faultOf(part.code), part.why);
  const key = sessionKey(exchange, part.value);
  const last = readRakp4(
    await link.exchange(PAYLOADS.rakp3, PAYLOADS.rakp4, rakp3(exchange, theirs, part.value)),
    exchange,
    theirs,
    part.value,
    key,
  );
  if (!last.ok) throw new BmcFault('code' in last ? faultOf(last.code) : 'password', last.why);
  link.begin({ theirs, sealing: sealingOf(suite, key) });
  const session = new IpmiSession(link, theirs);
  await session.command(setPrivilege(ADMINISTRATOR));
  return session;
}

function faultOf(code: number | undefined): BmcFaultCode {
  if (code === 0x01) return 'sessions-exhausted';
  return code === 0x0d || code === 0x0f ? 'password' : 'refused';
}

/** Sends payloads and waits for the answers that fit. */
class Link {
  readonly #socket: Socket;
  /** Our id of the session. */
  readonly #ours: number;
  #session: { readonly theirs: number; readonly sealing: Sealing } | undefined;
  #sequence = 0;
  /** The number of the last answer: one that came before is not believed again. */
  #heard = 0;

  constructor(socket: Socket, ours: number) {
    this.#socket = socket;
    this.#ours = ours;
  }

  begin(session: { readonly theirs: number; readonly sealing: Sealing }): void {
    this.#session = session;
  }

  /** One payload of the set-up and the answer to it. */
  exchange(type: number, wanted: number, payload: Buffer): Promise<Buffer> {
    const fits = ({ type: found, payload: answer }: Framed): Buffer | undefined =>
      found === wanted && (answer.length < 8 || answer.readUInt32LE(4) === this.#ours) ? answer : undefined;
    return this.#ask(() => encodeFrame({ type, session: 0, sequence: 0, payload }), fits);
  }

  /** One command of the session and its answer. `sequence` is new for each command. */
  command({ netFn, command, data }: Command, sequence: number): Promise<Answer> {
    const { theirs, sealing } = this.#session!;
    const payload = encodeRequest(netFn, command, data, sequence);
    const datagram = (): Buffer => {
      this.#sequence = (this.#sequence % 0xffff_ffff) + 1;
      return encodeFrame(
        { type: PAYLOADS.message, session: theirs, sequence: this.#sequence, payload },
        sealing,
      );
    };
    return this.#ask(datagram, (frame) => {
      if (frame.type !== PAYLOADS.message || frame.session !== this.#ours) return undefined;
      if (frame.sequence <= this.#heard) return undefined;
      this.#heard = frame.sequence;
      const answer = decodeAnswer(frame.payload);
      if (!answer.ok || answer.value.netFn !== netFn + 1) return undefined;
      const { value } = answer;
      return value.command === command && value.sequence === (sequence & 0x3f) ? value : undefined;
    });
  }

  /** Sends a packet of the serial line. */
  sendSol(payload: Buffer): void {
    const { theirs, sealing } = this.#session!;
    this.#sequence = (this.#sequence % 0xffff_ffff) + 1;
    const frame = { type: PAYLOADS.sol, session: theirs, sequence: this.#sequence, payload };
    this.#socket.send(encodeFrame(frame, sealing), () => {});
  }

  /** Calls back with packets of the serial line; the returned function ends that. */
  listenSol(take: (payload: Buffer) => void): () => void {
    let newest = 0;
    const read = (received: Buffer): void => {
      const frame = decodeFrame(received, this.#session?.sealing);
      if (!frame.ok || frame.value.type !== PAYLOADS.sol || frame.value.session !== this.#ours) return;
      // A packet that was heard before is a copy that somebody sends again.
      if (frame.value.sequence <= newest) return;
      newest = frame.value.sequence;
      take(frame.value.payload);
    };
    this.#socket.on('message', read);
    return () => this.#socket.off('message', read);
  }

  async #ask<T>(datagram: () => Buffer, fits: (frame: Framed) => T | undefined): Promise<T> {
    const sealing = this.#session?.sealing;
    for (let attempt = 0; attempt < TRIES; attempt++) {
      const found = await new Promise<T | undefined>((done) => {
        const take = (received: Buffer): void => {
          const frame = decodeFrame(received, sealing);
          const fitting = frame.ok ? fits(frame.value) : undefined;
          if (fitting !== undefined) end(fitting);
        };
        const end = (value: T | undefined): void => {
          clearTimeout(timer);
          this.#socket.off('message', take);
          done(value);
        };
        const timer = globalThis.setTimeout(() => end(undefined), WAIT_MS);
        this.#socket.on('message', take);
        this.#socket.send(datagram(), (error) => error && end(undefined));
      });
      if (found !== undefined) return found;
    }
    throw new BmcFault('unreachable', `it did not answer ${TRIES} times within ${WAIT_MS} ms`);
  }

  close(): void {
    this.#socket.close();
  }
}

class IpmiSession implements Bmc {
  readonly protocol = 'ipmi';
  readonly #link: Link;
  readonly #id: number;
  #sequence = 0;
  /** Commands follow each other: BMCs mix up answers to several. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(link: Link, id: number) {
    this.#link = link;
    this.#id = id;
  }

  /** @throws {BmcFault} when it does not answer, or with a completion code */
  command(command: Command): Promise<Buffer> {
    return this.#inTurn(() => this.#carryOut(command));
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#last.then(work);
    this.#last = next.catch(() => {});
    return next;
  }

  #once(command: Command): Promise<Answer> {
    this.#sequence = (this.#sequence + 1) & 0x3f;
    return this.#link.command(command, this.#sequence);
  }

  async #carryOut(command: Command): Promise<Buffer> {
    for (let attempt = 0; ; attempt++) {
      const { completion, data } = await this.#once(command);
      if (completion === 0) return data;
      if (BUSY.has(completion) && attempt < TRIES) {
        await setTimeout(BUSY_MS);
        continue;
      }
      const says = COMPLETIONS[completion] ?? `completion code 0x${completion.toString(16)}`;
      throw new BmcFault(BUSY.has(completion) ? 'busy' : 'refused', says);
    }
  }

  async power() {
    return powerIn(await this.command(chassisStatus));
  }

  async order(order: Parameters<Bmc['order']>[0]) {
    await this.command(chassisControl(order));
  }

  async boot() {
    const found = bootIn(await this.command(getBoot));
    if (!found) throw new BmcFault('not-understood', 'its boot options are not understood');
    return found;
  }

  async bootOnce(target: Parameters<Bmc['bootOnce']>[0], how: { readonly uefi: boolean }) {
    if (target === 'http') throw new BmcFault('refused', 'IPMI has no boot by HTTP; Redfish has');
    // Not every BMC has this parameter, and none needs it.
    await this.command(keepFlags).catch(() => {});
    const quirks = await this.command(deviceId).then(
      (data) => quirksOfNumber(manufacturerIn(data)),
      () => undefined,
    );
    await this.command(setBoot(target, how, quirks));
  }

  async identify(seconds: number) {
    await this.command(chassisIdentify(seconds));
  }

  show(view: Parameters<Bmc['show']>[0]) {
    return shownBy(
      view,
      inTime((command: Command) => this.command(command), performance.now.bind(performance)),
    );
  }

  async console({ printed, ended, take = false }: ConsoleUse): Promise<BmcConsole> {
    const { completion, data } = await this.#line(take);
    const room = completion === 0 ? roomIn(data) : undefined;
    if (room === undefined)
      throw completion === HELD_ELSEWHERE
        ? new BmcFault('busy', 'another session has the console')
        : new BmcFault('refused', `no console: completion code 0x${completion.toString(16)}`);
    const stop = (): void => {
      clearInterval(asking);
      unlisten();
      line.close();
    };
    const over = (): void => {
      stop();
      ended();
    };
    const line = new SolLine(
      {
        send: (payload) => this.#link.sendSol(payload),
        printed,
        ended: over,
        after(milliseconds, call) {
          const timer = globalThis.setTimeout(call, milliseconds);
          return () => clearTimeout(timer);
        },
      },
      room,
    );
    const unlisten = this.#link.listenSol((payload) => line.take(payload));
    // A BMC forgets a session that asks nothing for a minute, and says nothing when it restarts.
    const asking = setInterval(() => this.power().catch(over), ALIVE_MS);
    return {
      type: (octets) => line.type(octets),
      close: async () => {
        stop();
        await this.command(deactivateSol).catch(() => {});
      },
    };
  }

  /** Asks for the serial line; takes it from another session if it may. */
  async #line(take: boolean): Promise<Answer> {
    const asked = (): Promise<Answer> => this.#inTurn(() => this.#once(activateSol));
    const first = await asked();
    if (first.completion !== HELD_ELSEWHERE || !take) return first;
    await this.command(deactivateSol);
    return asked();
  }

  setAccount(login: Parameters<Bmc['setAccount']>[0]) {
    return setUser((command) => this.command(command), login);
  }

  switchOff(user: string) {
    return switchUserOff((command) => this.command(command), user);
  }

  async close() {
    await this.command(closeSession(this.#id)).catch(() => {});
    this.#link.close();
  }
}
