/**
 * The BMC's side of datagrams and of the set-up of sessions (IPMI 2.0, sections 13.6, 13.8 and
 * 13.17 to 13.33). Pure, except for the random octets.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Sealing } from '../../bmc/ipmi/packet.ts';
import { SUITES, type Suite, sealingOf } from '../../bmc/ipmi/session.ts';
import type { Controller } from './controller.ts';

/** A command as it arrived. */
export interface Received {
  readonly netFn: number;
  readonly command: number;
  readonly data: Buffer;
  /** What the answer repeats: address and number of whoever asks. */
  readonly from: number;
  readonly lun: number;
  readonly sequence: number;
}

const sum = (octets: Uint8Array): number => -octets.reduce((total, one) => total + one, 0) & 0xff;

export function decodeRequest(payload: Buffer): Received | undefined {
  if (payload.length < 7 || sum(payload.subarray(0, 3)) !== 0 || sum(payload.subarray(3)) !== 0)
    return undefined;
  return {
    netFn: payload[1]! >> 2,
    from: payload[3]!,
    lun: payload[4]! & 0x03,
    sequence: payload[4]! >> 2,
    command: payload[5]!,
    data: payload.subarray(6, -1),
  };
}

export function encodeReply(request: Received, completion: number, data: Buffer): Buffer {
  const head = Buffer.from([request.from, ((request.netFn | 1) << 2) | request.lun]);
  const own = Buffer.from([0x20, request.sequence << 2, request.command, completion]);
  const body = Buffer.concat([own, data]);
  return Buffer.concat([head, Buffer.from([sum(head)]), body, Buffer.from([sum(body)])]);
}

/** The header of IPMI 1.5 without a session, in which clients ask what a BMC can. */
const V15_HEADER = Buffer.from([0x06, 0x00, 0xff, 0x07, 0, 0, 0, 0, 0, 0, 0, 0, 0]);

export const isV15 = (datagram: Buffer): boolean =>
  datagram.length > V15_HEADER.length + 1 && datagram[3] === 0x07 && datagram[4] === 0x00;
export const openV15 = (datagram: Buffer): Buffer => datagram.subarray(14, 14 + datagram[13]!);
export const sealV15 = (payload: Buffer): Buffer =>
  Buffer.concat([V15_HEADER, Buffer.from([payload.length]), payload]);

/** The answer to a presence ping of ASF; undefined for other datagrams. */
export function pong(datagram: Buffer): Buffer | undefined {
  if (datagram.length < 12 || datagram[3] !== 0x06 || datagram[8] !== 0x80) return undefined;
  const answer = Buffer.from('0600ff06000011be40000010000011be00000000810000000000000000', 'hex').subarray(
    0,
    28,
  );
  answer[9] = datagram[9]!;
  return answer;
}

/** A session of which the keys are agreed, or are being agreed. */
export interface Session {
  /** The ids of both ends. */
  readonly ours: number;
  readonly theirs: number;
  readonly suite: Suite;
  readonly random: Buffer;
  /** What RAKP message 1 said. */
  asked?: { readonly random: Buffer; readonly role: number; readonly name: string };
  /** From RAKP message 3 on. */
  sealing?: Sealing;
  privilege: number;
  usedAt: number;
  sequence: number;
}

export const STATUS = { full: 0x01, noSession: 0x02, noUser: 0x0d, wrong: 0x0f, noSuite: 0x11 } as const;

const id = (value: number): Buffer => {
  const octets = Buffer.alloc(4);
  octets.writeUInt32LE(value);
  return octets;
};

/** Which suite an open request asks for; undefined for one that we do not have. */
export function suiteAsked(payload: Buffer, has: readonly Suite[]): Suite | undefined {
  if (payload.length < 32) return undefined;
  const [authentication, integrity, secrecy] = [12, 20, 28].map((at) => payload[at]! & 0x3f);
  return has.find((suite) => {
    const one = SUITES[suite];
    return one.authentication === authentication && one.integrity === integrity && secrecy === 1;
  });
}

export function openReply(payload: Buffer, session: Session): Buffer {
  const { authentication, integrity } = SUITES[session.suite];
  const of = (type: number, algorithm: number) => Buffer.from([type, 0, 0, 8, algorithm, 0, 0, 0]);
  return Buffer.concat([
    Buffer.from([payload[0]!, 0, 4, 0]),
    id(session.theirs),
    id(session.ours),
    ...[of(0, authentication), of(1, integrity), of(2, 1)],
  ]);
}

/** A refusal of any payload of the set-up. */
export const refusal = (payload: Buffer, status: number, theirs: number): Buffer =>
  Buffer.concat([Buffer.from([payload[0] ?? 0, status, 0, 0]), id(theirs)]);

const hmac = (suite: Suite, key: Uint8Array, ...octets: readonly Uint8Array[]): Buffer =>
  createHmac(SUITES[suite].hash, key).update(Buffer.concat(octets)).digest();
/** A password has 20 octets; a longer one is cut off by clients. */
const keyOf = (password: string): Buffer => Buffer.from(password, 'utf8').subarray(0, 20);

/** RAKP message 1 → message 2. */
export function rakp2(payload: Buffer, session: Session, controller: Controller, guid: Buffer): Buffer {
  if (payload.length < 28) return refusal(payload, STATUS.noSession, session.theirs);
  const [role, length] = [payload[24]!, payload[27]!];
  const name = payload.subarray(28, 28 + length);
  const random = Buffer.from(payload.subarray(8, 24));
  session.asked = { random, role, name: name.toString('utf8') };
  const account = controller.account(session.asked.name);
  if (!account) return refusal(payload, STATUS.noUser, session.theirs);
  // A client with a wrong password sees it now and says nothing: it counts until message 3.
  controller.noteLogin(session.asked.name, false);
  const said = [id(session.theirs), id(session.ours), random, session.random, guid];
  const proof = hmac(session.suite, keyOf(account.password), ...said, Buffer.from([role, length]), name);
  const head = Buffer.concat([Buffer.from([payload[0]!, 0, 0, 0]), id(session.theirs)]);
  return Buffer.concat([head, session.random, guid, proof]);
}

/** RAKP message 3 → message 4. The session has its keys when its password was right. */
export function rakp4(payload: Buffer, session: Session, controller: Controller, guid: Buffer): Buffer {
  const { asked, suite } = session;
  const account = asked && controller.accountNamed(asked.name);
  if (!account || payload.length < 8) return refusal(payload, STATUS.noSession, session.theirs);
  const key = keyOf(account.password);
  const name = Buffer.from(asked.name, 'utf8');
  const tail = Buffer.from([asked.role, name.length]);
  const proof = hmac(suite, key, session.random, id(session.theirs), tail, name);
  const shown = payload.subarray(8, 8 + proof.length);
  const right = payload[1] === 0 && shown.length === proof.length && timingSafeEqual(shown, proof);
  if (!right) return refusal(payload, STATUS.wrong, session.theirs);
  controller.noteLogin(asked.name, true);
  const secret = hmac(suite, key, asked.random, session.random, tail, name);
  session.sealing = sealingOf(suite, secret);
  const code = hmac(suite, secret, asked.random, id(session.ours), guid);
  const head = Buffer.concat([Buffer.from([payload[0]!, 0, 0, 0]), id(session.theirs)]);
  return Buffer.concat([head, code.subarray(0, SUITES[suite].codeLength)]);
}

export const newSession = (payload: Buffer, suite: Suite, now: number): Session => ({
  ours: (randomBytes(4).readUInt32LE() | 1) >>> 0,
  theirs: payload.readUInt32LE(4),
  suite,
  random: randomBytes(16),
  privilege: 2,
  usedAt: now,
  sequence: 0,
});
