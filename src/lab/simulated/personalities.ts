/** Kinds of firmware that simulated machines have: what they say, fetch, and repeat when. */
import { MusterError } from '../../base/errors.ts';
import { suggest } from '../../base/suggest.ts';
import { OPTION } from '../../pxe/dhcp/options.ts';

export interface Personality {
  readonly about: string;
  /** Code of option 93 (`src/pxe/firmware/architectures.ts`). */
  readonly code: number;
  readonly asks: 'PXEClient' | 'HTTPClient' | 'iPXE';
  /** Waits before each retransmission of DHCP, and at last before it gives up, ms. */
  readonly dhcpMs: readonly number[];
  /** Whether it asks port 4011 for its file after the ACK. */
  readonly bootServer: boolean;
  /** How it fetches its loader by TFTP; undefined: by HTTP, or not at all. */
  readonly tftp?: TftpClient;
}

export interface TftpClient {
  readonly blockSize: number;
  readonly window: number;
  /** Asks for the size first and ends that transfer with an error (quirk tftp-probe). */
  readonly probes: boolean;
  readonly timeoutMs: number;
  /** Packets in a row without an answer after which it gives up. */
  readonly attempts: number;
}

/** PXE 2.1 §2.2.1 and EDK2's PxeBcDhcp4: four attempts, each twice as long. */
const PXE_MS = [4000, 8000, 16_000, 32_000];
/** iPXE: DHCP_DISC_START_TIMEOUT_SEC and DHCP_DISC_END_TIMEOUT_SEC of its config/dhcp.h. */
const IPXE_MS = [1000, 2000, 4000, 8000, 10_000];

export const PERSONALITIES = {
  bios: {
    about: 'BIOS with a PXE ROM: blocks of 1,456 octets, one at a time',
    code: 0,
    asks: 'PXEClient',
    dhcpMs: PXE_MS,
    bootServer: false,
    tftp: { blockSize: 1456, window: 1, probes: true, timeoutMs: 4000, attempts: 6 },
  },
  uefi: {
    about: 'UEFI (EDK2): asks for the size, then windows of four blocks',
    code: 7,
    asks: 'PXEClient',
    dhcpMs: PXE_MS,
    bootServer: false,
    tftp: { blockSize: 1468, window: 4, probes: true, timeoutMs: 4000, attempts: 6 },
  },
  'uefi-4011': {
    about: 'the same, and asks port 4011 for its file',
    code: 7,
    asks: 'PXEClient',
    dhcpMs: PXE_MS,
    bootServer: true,
    tftp: { blockSize: 1468, window: 4, probes: true, timeoutMs: 4000, attempts: 6 },
  },
  'uefi-http': {
    about: 'UEFI HTTP boot: fetches its loader by HTTP',
    code: 16,
    asks: 'HTTPClient',
    dhcpMs: PXE_MS,
    bootServer: false,
  },
  ipxe: {
    about: 'iPXE in the ROM of the card: needs no loader',
    code: 7,
    asks: 'iPXE',
    dhcpMs: IPXE_MS,
    bootServer: false,
  },
} as const satisfies Record<string, Personality>;
export type PersonalityName = keyof typeof PERSONALITIES;

/** A rack as it may be: most machines are UEFI, some are old, some have newer ways. */
export const DEFAULT_MIX = 'uefi=5,bios=2,uefi-4011=1,uefi-http=1,ipxe=1';

const text = (value: string): Buffer => Buffer.from(value, 'latin1');

/** The options by which the firmware identifies itself. */
export function saysOf({ code, asks }: Personality): readonly (readonly [number, Buffer])[] {
  const architecture = Buffer.from([0, code]);
  const kind = `Arch:${String(code).padStart(5, '0')}:UNDI:003016`;
  const says: (readonly [number, Buffer])[] = [
    [OPTION.vendorClass, text(`${asks === 'HTTPClient' ? asks : 'PXEClient'}:${kind}`)],
    [OPTION.architecture, architecture],
    [OPTION.networkInterface, Buffer.from([1, 3, 16])],
  ];
  if (asks !== 'iPXE') return says;
  // Its features include HTTP; its version is 1.21.1.
  const features = Buffer.from([0x13, 1, 1, 0xeb, 3, 1, 21, 1]);
  return [...says, [OPTION.userClass, text('iPXE')], [OPTION.ipxe, features]];
}

/**
 * Reads a mix such as `uefi=3,bios=1`: names and shares.
 * @throws {MusterError} E_USAGE when a name or share is wrong.
 */
export function readMix(mix: string): ReadonlyMap<PersonalityName, number> {
  const shares = new Map<PersonalityName, number>();
  for (const part of mix.split(',')) {
    const [name = '', share = '1'] = part.trim().split('=');
    if (!Object.hasOwn(PERSONALITIES, name)) {
      const meant = suggest(name, Object.keys(PERSONALITIES));
      const names = Object.keys(PERSONALITIES).join(', ');
      const hint = meant === undefined ? `there are: ${names}` : `did you mean ${meant}?`;
      throw new MusterError('E_USAGE', `--firmware: there is no firmware "${name}"; ${hint}`);
    }
    if (!/^[1-9][0-9]{0,3}$/.test(share))
      throw new MusterError(
        'E_USAGE',
        `--firmware: the share "${share}" of ${name} is not a number from 1 to 9999`,
      );
    shares.set(name as PersonalityName, (shares.get(name as PersonalityName) ?? 0) + Number(share));
  }
  return shares;
}

/**
 * The personality of each of `count` machines: the shares alternate, so that any hundred are alike.
 */
export function assign(shares: ReadonlyMap<PersonalityName, number>, count: number): PersonalityName[] {
  const all = [...shares.values()].reduce((sum, share) => sum + share, 0);
  const owed = [...shares].map(([name, share]) => ({ name, share, has: 0 }));
  return Array.from({ length: count }, (_, n) => {
    // The one that is furthest behind its share.
    const next = owed.reduce((best, one) => {
      const behind = ({ share, has }: { share: number; has: number }) => ((n + 1) * share) / all - has;
      return behind(one) > behind(best) ? one : best;
    });
    next.has++;
    return next.name;
  });
}
