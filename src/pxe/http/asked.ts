/**
 * Reads what a machine says about itself over HTTP: the script's query and the report's form. Pure.
 */
import { type Mac, parseMac } from '../../base/mac.ts';
import { MAX_MACS, readIdentity } from '../../machines/identity.ts';
import type { Identity, MachineReport } from '../../machines/machine.ts';
import { MAX_DETAIL } from '../../machines/reports.ts';
import { fields, fieldsOf } from './target.ts';

/** Characters of a failed boot's log that are kept, its last ones. */
export const MAX_LOG_TAIL = 16 * 1024;

/** What a script's query says about the machine. */
export interface Asked {
  readonly identity: Identity;
  readonly bootMac: Mac | undefined;
  readonly arch?: 'x86_64' | 'aarch64';
  readonly firmware?: 'bios' | 'uefi';
}

/** Query parameters of the first script (QUESTIONS in `../script/script.ts`). */
const KEYS = ['mac', 'macs', 'uuid', 'arch', 'platform', 'serial', 'manufacturer', 'product', 'asset'];

/**
 * iPXE's `${buildarch}`. Its BIOS builds say i386 on any processor, so i386 is not in the table.
 */
const ARCH: Readonly<Record<string, Asked['arch']>> = { x86_64: 'x86_64', arm64: 'aarch64' };
/** iPXE's `${platform}`. */
const FIRMWARE: Readonly<Record<string, Asked['firmware']>> = { pcbios: 'bios', efi: 'uefi' };

/** Reads the query of the script route. Missing and malformed values are left out. Never throws. */
export function askedBy(query: string): Asked {
  const given = fieldsOf(query, KEYS);
  const bootMac = hardwareAddress(given.get('mac') ?? '');
  const macs = new Set<Mac>();
  if (bootMac) macs.add(bootMac);
  for (const text of (given.get('macs') ?? '').split(',').slice(0, MAX_MACS)) {
    const mac = text === '' ? undefined : hardwareAddress(text);
    if (mac) macs.add(mac);
  }
  const uuid = given.get('uuid') ?? '';
  const arch = ARCH[given.get('arch') ?? ''];
  const firmware = FIRMWARE[given.get('platform') ?? ''];
  return {
    bootMac,
    identity: readIdentity({
      macs: [...macs],
      uuid: saysNothing(uuid) ? undefined : uuid,
      serial: given.get('serial'),
      manufacturer: given.get('manufacturer'),
      product: given.get('product'),
      assetTag: given.get('asset'),
    }),
    ...(arch ? { arch } : {}),
    ...(firmware ? { firmware } : {}),
  };
}

/** The hardware address in `text`, if it is a unicast address and not all zero. */
function hardwareAddress(text: string): Mac | undefined {
  const mac = parseMac(text);
  return mac === undefined || mac === '00:00:00:00:00:00' || (Number.parseInt(mac.slice(0, 2), 16) & 1) === 1
    ? undefined
    : mac;
}

/** Boards without a UUID say all zero or all one. */
function saysNothing(uuid: string): boolean {
  return /^(0|-)*$|^(f|-)*$/i.test(uuid);
}

const STEPS = new Set<string>(['kernel', 'configured', 'ready', 'failed'] satisfies MachineReport['step'][]);

/**
 * Reads a report's form; returns what is wrong with it as text. Long values are cut: the detail at
 * its end, the log at its beginning.
 */
export function reportIn(body: string): MachineReport | string {
  const given = fields(body, { form: true });
  const step = given.get('step') ?? '';
  if (!STEPS.has(step)) return `step must be one of ${[...STEPS].join(', ')}`;
  const detail = given
    .get('detail')
    ?.replace(/[\x00-\x08\x0b-\x1f\x7f]/g, ' ')
    .trim()
    .slice(0, MAX_DETAIL);
  const log = step === 'failed' ? given.get('log')?.replaceAll('\0', '') : undefined;
  return {
    step: step as MachineReport['step'],
    ...(detail ? { detail } : {}),
    ...(log ? { logTail: log.slice(-MAX_LOG_TAIL) } : {}),
  };
}
