/** The commands of IPMI that Muster uses, and what their answers say (sections 22 and 28). Pure. */

import type { BootOnce, BootTarget, PowerOrder, PowerState } from '../bmc.ts';
import type { QuirkCode } from '../quirks.ts';

/** A command: network function, number, and its data. */
export interface Command {
  readonly netFn: number;
  readonly command: number;
  readonly data: Buffer;
}

const CHASSIS = 0x00;
const APPLICATION = 0x06;
const of = (netFn: number, command: number, ...data: readonly number[]): Command => ({
  netFn,
  command,
  data: Buffer.from(data),
});

/** Asks what the BMC is; octets 7 to 9 of the answer are its manufacturer's number. */
export const deviceId = of(APPLICATION, 0x01);
export const manufacturerIn = (data: Buffer): number => (data.length < 9 ? 0 : data.readUIntLE(6, 3));

/** Session commands: the privilege that was asked for counts from here on; the end of a session. */
export const setPrivilege = (level: number): Command => of(APPLICATION, 0x3b, level);
export const closeSession = (session: number): Command => {
  const data = Buffer.alloc(4);
  data.writeUInt32LE(session);
  return { netFn: APPLICATION, command: 0x3c, data };
};

export const chassisStatus = of(CHASSIS, 0x01);
/** The first octet of the answer: bit 0 is the power. */
export const powerIn = (data: Buffer): PowerState =>
  data.length < 3 ? 'unknown' : data[0]! & 0x01 ? 'on' : 'off';

/** Numbers of the command Chassis Control (table 28-4). */
const CONTROLS: Readonly<Record<PowerOrder, number>> = {
  off: 0x00,
  on: 0x01,
  cycle: 0x02,
  reset: 0x03,
  'shut-down': 0x05,
};
export const chassisControl = (order: PowerOrder): Command => of(CHASSIS, 0x02, CONTROLS[order]);

/** Lights the lamp for up to 255 seconds. */
export const chassisIdentify = (seconds: number): Command =>
  of(CHASSIS, 0x04, Math.min(255, Math.max(0, seconds)));

/** The boot device of the boot flags, parameter 5, in bits 2 to 5 (table 28-14). */
const DEVICES: Readonly<Record<IpmiTarget, number>> = { none: 0, network: 1, disk: 2, setup: 6 };
/** The flags have no device for a boot by HTTP. */
export type IpmiTarget = Exclude<BootTarget, 'http'>;
/** The disk of some manufacturers, where the machine boots by UEFI. */
const OTHER_DISK = 9;
const FLAGS = 5;
const VALID = 0x80;
const PERSISTENT = 0x40;
const UEFI = 0x20;

/**
 * Which parts of the boot options a BMC must not clear by itself (parameter 3): without it some
 * forget the device when the machine takes longer than a minute to start.
 */
export const keepFlags = of(CHASSIS, 0x08, 0x03, 0x1f);
export function setBoot(
  target: IpmiTarget,
  { uefi }: { readonly uefi: boolean },
  quirks: ReadonlySet<QuirkCode> = new Set(),
): Command {
  const isOther = uefi && target === 'disk' && quirks.has('disk-by-another-number');
  const device = isOther ? OTHER_DISK : DEVICES[target];
  return of(
    CHASSIS,
    0x08,
    ...[FLAGS, target === 'none' ? 0 : VALID | (uefi ? UEFI : 0), device << 2, 0, 0, 0],
  );
}
export const getBoot = of(CHASSIS, 0x09, FLAGS, 0, 0);

/** The boot flags in an answer; undefined where it has none. */
export function bootIn(data: Buffer): BootOnce | undefined {
  // Version, number of the parameter, and its five octets.
  if (data.length < 4 || (data[1]! & 0x7f) !== FLAGS) return undefined;
  const [flags, device] = [data[2]!, (data[3]! >> 2) & 0x0f];
  const named = (Object.keys(DEVICES) as IpmiTarget[]).find((target) => DEVICES[target] === device);
  const found = device === OTHER_DISK ? 'disk' : (named ?? 'other');
  const target = (flags & VALID) === 0 ? 'none' : found;
  return { target, uefi: (flags & UEFI) !== 0, persistent: (flags & PERSISTENT) !== 0 };
}

/** The channel that a command comes by, whichever number it has: boards number them differently. */
const THIS_CHANNEL = 0x0e;
/** The access of a user by IPMI, and the changes of it (sections 22.26 to 22.31). */
export const userAccess = (id: number): Command => of(APPLICATION, 0x44, THIS_CHANNEL, id);
/** How many users a BMC has room for. */
export const usersIn = (data: Buffer): number => (data[0] ?? 0) & 0x3f;
export const userName = (id: number): Command => of(APPLICATION, 0x46, id);
export const nameIn = (data: Buffer): string => data.toString('latin1').replace(/\0.*$/s, '');
/** A field of 16 octets. */
const field = (text: string): Buffer => Buffer.concat([Buffer.from(text), Buffer.alloc(16)]).subarray(0, 16);
export const setUserName = (id: number, name: string): Command => ({
  netFn: APPLICATION,
  command: 0x45,
  data: Buffer.concat([Buffer.from([id]), field(name)]),
});
export const setUserPassword = (id: number, password: string): Command => ({
  netFn: APPLICATION,
  command: 0x47,
  data: Buffer.concat([Buffer.from([id, 2]), field(password)]),
});
export const enableUser = (id: number, enabled: boolean): Command => ({
  netFn: APPLICATION,
  command: 0x47,
  data: Buffer.concat([Buffer.from([id, enabled ? 1 : 0]), field('')]),
});
/** Lets a user in by messages of IPMI, as an administrator. */
export const setUserAccess = (id: number): Command => of(APPLICATION, 0x43, 0x90 | THIS_CHANNEL, id, 4, 0);
/** Lets a user have the serial console. */
export const setUserConsole = (id: number): Command => of(APPLICATION, 0x4c, THIS_CHANNEL, id, 2, 0, 0, 0);
