/**
 * UUIDs, serials and addresses that firmware gives to many machines: no evidence of identity. Each
 * entry names where it was seen. A new one is a line in a table.
 */
import type { Mac } from '../base/mac.ts';

interface Placeholder {
  readonly value: string;
  readonly source: string;
}

/** UUIDs, lower case, first three fields in either byte order (recognition compares both). */
export const PLACEHOLDER_UUIDS: readonly Placeholder[] = [
  { value: '00000000-0000-0000-0000-000000000000', source: 'SMBIOS §7.2.1: not present' },
  { value: 'ffffffff-ffff-ffff-ffff-ffffffffffff', source: 'SMBIOS §7.2.1: not set' },
  {
    value: '03000200-0400-0500-0006-000700080009',
    source: 'AMI default on several mainboards: oshi/oshi#2417, osquery/osquery#4374',
  },
  { value: '03020100-0504-0706-0809-0a0b0c0d0e0f', source: 'ascending octets: osquery/osquery#4374' },
  { value: '10000000-0000-8000-0040-000000000000', source: 'osquery/osquery#4374' },
  { value: 'fefefefe-fefe-fefe-fefe-fefefefefefe', source: 'osquery/osquery#8887' },
  { value: '8a95d198-7f46-11e5-bf8b-08002704d48e', source: 'SolidRun LX2160A: SolidRun/lx2160a_uefi#4' },
  {
    value: '11111111-2222-3333-4444-555555555555',
    source: 'typed in by assemblers; in several bad-UUID lists',
  },
  { value: '12345678-1234-5678-90ab-cddeefaabbcc', source: 'unprogrammed boards; in several bad-UUID lists' },
];

/**
 * Serials in the form that {@link import('./identity.ts').serialKey} gives: upper case, single
 * blanks, no dots at the end.
 */
export const PLACEHOLDER_SERIALS: readonly Placeholder[] = [
  { value: 'TO BE FILLED BY O.E.M', source: 'AMI default, Quanta, ASRock' },
  { value: 'TO BE FILLED BY OEM', source: 'spelling variant of the AMI default' },
  { value: 'DEFAULT STRING', source: 'MSI and others: fusioninventory-for-glpi#2823' },
  { value: 'DEFAULT SERIAL', source: 'fleetdm/fleet#27470' },
  {
    value: 'SYSTEM SERIAL NUMBER',
    source: 'ASUS and others: fleetdm/fleet#27470, OCSInventory-ocsreports#1440',
  },
  { value: 'CHASSIS SERIAL NUMBER', source: 'ASUS' },
  { value: 'BASE BOARD SERIAL NUMBER', source: 'ASUS' },
  { value: 'SERIAL NUMBER', source: 'field name left in place' },
  { value: 'SYSTEM PRODUCT NAME', source: 'field name left in place' },
  { value: 'NOT SPECIFIED', source: 'dmidecode for an absent string; KVM: fusioninventory-for-glpi#1455' },
  { value: 'NOT APPLICABLE', source: 'dmidecode wording, copied by firmware' },
  { value: 'NOT AVAILABLE', source: 'firmware wording' },
  { value: 'NONE', source: 'firmware wording' },
  { value: 'N/A', source: 'firmware wording' },
  { value: 'NA', source: 'firmware wording' },
  { value: 'OEM', source: 'firmware wording' },
  { value: 'O.E.M', source: 'firmware wording' },
  { value: 'INVALID', source: 'firmware wording' },
  { value: 'UNKNOWN', source: 'firmware wording' },
  { value: 'EMPTY', source: 'firmware wording' },
  { value: 'STANDARD', source: 'firmware wording' },
];

/**
 * Contains the serials that only count: 0123456789, 123456789. Serials that repeat one character
 * (00000000, `.`) are found by a pattern (glpi#978).
 */
const COUNTING = '01234567890123456789';

/**
 * Whether a serial (in {@link import('./identity.ts').serialKey}'s form) does not identify a
 * machine.
 */
export function isPlaceholderSerial(serial: string): boolean {
  if (serial.length < 3) return true;
  if (/^(.)\1*$/.test(serial.replace(/[ .-]/g, '') || '.')) return true;
  return COUNTING.includes(serial) || SERIALS.has(serial);
}

const SERIALS: ReadonlySet<string> = new Set(PLACEHOLDER_SERIALS.map((entry) => entry.value));

/**
 * Hardware addresses that every machine of a model has: network interfaces that the BMC shows to
 * the host over USB, and docking adapters. (metal3-docs#595: DuplicateNodeOnLookup; OpenShift
 * ignores all USB interfaces, ironic-agent-image#195.)
 */
export const SHARED_MACS: readonly Placeholder[] = [
  {
    value: 'be:3a:f2:b6:05:9f',
    source: 'USB interface of Insyde BMCs: the same in many published hardware inventories',
  },
  {
    value: '00:a0:c6:00:00:00',
    source: 'Qualcomm USB firmware default (Linux qmi_wwan.c; GLPI ships it as invalid)',
  },
  { value: '00:11:22:33:44:55', source: 'example address left in NIC EEPROMs' },
];

const SHARED: ReadonlySet<string> = new Set(SHARED_MACS.map((entry) => entry.value));

/**
 * Whether a hardware address can tell machines apart: unicast, not all zero, not known to be
 * shared.
 */
export function isUsableMac(mac: Mac): boolean {
  const first = Number.parseInt(mac.slice(0, 2), 16);
  return (first & 1) === 0 && mac !== '00:00:00:00:00:00' && !SHARED.has(mac);
}

/** Prefixes of locally administered addresses that hypervisors hand out like assigned ones. */
const STEADY_LOCAL_PREFIXES = ['52:54:00' /* QEMU, libvirt */];

/**
 * Whether the address may change at the next boot: the locally administered bit is set and no
 * hypervisor is known to keep it. USB gadgets and macvlans draw a random one (IEEE 802 §8.4;
 * sipeed/NanoKVM#828). Not evidence unless written in a document or booted from.
 */
export function isFleetingMac(mac: Mac): boolean {
  const first = Number.parseInt(mac.slice(0, 2), 16);
  return (first & 2) !== 0 && !STEADY_LOCAL_PREFIXES.includes(mac.slice(0, 8));
}
