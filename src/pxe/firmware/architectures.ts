/**
 * Client architectures of DHCP option 93 (IANA "Processor Architecture Types"), each with the boot
 * loaders that Muster hands to it. IANA's registry corrects the table that RFC 4578 printed, where
 * 7 and 9 were swapped.
 */

interface Architecture {
  /** Value of option 93. */
  readonly code: number;
  readonly name: string;
  /** Processor, given only where Muster can have images for it. */
  readonly arch?: 'x86_64' | 'aarch64';
  readonly firmware?: 'bios' | 'uefi';
  /** The firmware asks for a URL instead of a TFTP file name. */
  readonly http?: true;
  /**
   * File names in the loader directory (Debian's package ipxe, or a build of the operator's). The
   * first that is installed is used. Absent: Muster has no loader for this architecture.
   */
  readonly loaders?: readonly string[];
  /** Replaces `loaders` for an iPXE that runs from ROM and cannot fetch scripts. */
  readonly loadersFromIpxe?: readonly string[];
}

const X64 = ['ipxe.efi', 'snponly.efi'] as const;
const ARM64 = ['ipxe-arm64.efi', 'snponly-arm64.efi'] as const;
const I386 = ['ipxe-i386.efi', 'snponly-i386.efi'] as const;
const ARM32 = ['ipxe-arm32.efi', 'snponly-arm32.efi'] as const;
// undionly.kpxe drives every card that has a PXE ROM; iPXE's native driver fails on some cards (HP
// DL380p G8: danderson/netboot#63). An iPXE in ROM cannot start an UNDI loader (pixiecore's
// FirmwareX86Ipxe, tinkerbell/smee's Bootfile), so its order is reversed.
const BIOS = ['undionly.kpxe', 'ipxe.pxe'] as const;
const BIOS_FROM_IPXE = ['ipxe.pxe', 'undionly.kpxe'] as const;

/** All architectures that Muster can name. It can boot those that have `loaders`. */
export const ARCHITECTURES: readonly Architecture[] = [
  {
    code: 0,
    name: 'x86 BIOS',
    arch: 'x86_64',
    firmware: 'bios',
    loaders: BIOS,
    loadersFromIpxe: BIOS_FROM_IPXE,
  },
  { code: 1, name: 'NEC PC98' },
  { code: 2, name: 'Itanium' },
  { code: 3, name: 'DEC Alpha' },
  { code: 4, name: 'Arc x86' },
  { code: 5, name: 'Intel Lean Client' },
  { code: 6, name: 'x86 UEFI', firmware: 'uefi', loaders: I386 },
  { code: 7, name: 'x64 UEFI', arch: 'x86_64', firmware: 'uefi', loaders: X64 },
  { code: 8, name: 'XScale' },
  // Some x64 firmware sends 9, because RFC 4578 printed it that way: quirk arch-9-is-x64.
  { code: 9, name: 'EFI byte code', arch: 'x86_64', firmware: 'uefi', loaders: X64 },
  { code: 10, name: 'ARM 32-bit UEFI', firmware: 'uefi', loaders: ARM32 },
  { code: 11, name: 'ARM 64-bit UEFI', arch: 'aarch64', firmware: 'uefi', loaders: ARM64 },
  { code: 12, name: 'PowerPC Open Firmware' },
  { code: 13, name: 'PowerPC ePAPR' },
  { code: 14, name: 'POWER OPAL' },
  { code: 15, name: 'x86 UEFI HTTP', firmware: 'uefi', http: true, loaders: I386 },
  { code: 16, name: 'x64 UEFI HTTP', arch: 'x86_64', firmware: 'uefi', http: true, loaders: X64 },
  { code: 17, name: 'EFI byte code HTTP', arch: 'x86_64', firmware: 'uefi', http: true, loaders: X64 },
  { code: 18, name: 'ARM 32-bit UEFI HTTP', firmware: 'uefi', http: true, loaders: ARM32 },
  {
    code: 19,
    name: 'ARM 64-bit UEFI HTTP',
    arch: 'aarch64',
    firmware: 'uefi',
    http: true,
    loaders: ARM64,
  },
  {
    code: 20,
    name: 'x86 BIOS HTTP',
    arch: 'x86_64',
    firmware: 'bios',
    http: true,
    loaders: ['ipxe.lkrn'],
  },
  { code: 21, name: 'ARM 32-bit U-Boot' },
  { code: 22, name: 'ARM 64-bit U-Boot', arch: 'aarch64' },
  { code: 23, name: 'ARM 32-bit U-Boot HTTP', http: true },
  { code: 24, name: 'ARM 64-bit U-Boot HTTP', arch: 'aarch64', http: true },
  { code: 25, name: 'RISC-V 32-bit UEFI', firmware: 'uefi' },
  { code: 26, name: 'RISC-V 32-bit UEFI HTTP', firmware: 'uefi', http: true },
  { code: 27, name: 'RISC-V 64-bit UEFI', firmware: 'uefi' },
  { code: 28, name: 'RISC-V 64-bit UEFI HTTP', firmware: 'uefi', http: true },
  { code: 37, name: 'LoongArch 32-bit UEFI', firmware: 'uefi' },
  { code: 39, name: 'LoongArch 64-bit UEFI', firmware: 'uefi' },
  { code: 41, name: 'ARM rpiboot', arch: 'aarch64' },
];

const BY_CODE: ReadonlyMap<number, Architecture> = new Map(ARCHITECTURES.map((a) => [a.code, a]));

/** The row of an option 93 code; undefined when the code is not in the table. */
export function architecture(code: number): Architecture | undefined {
  return BY_CODE.get(code);
}

/**
 * The kinds of firmware that machines of `arch` have, each with the option 93 code with which that
 * firmware asks for a TFTP name.
 */
export function firmwareCodes(arch: 'x86_64' | 'aarch64'): ReadonlyMap<'bios' | 'uefi', number> {
  const codes = new Map<'bios' | 'uefi', number>();
  // The first code of each kind is the one that firmware sends; EFI byte code (9) comes later.
  for (const { code, firmware, ...one } of ARCHITECTURES)
    if (one.arch === arch && firmware && !one.http && !codes.has(firmware)) codes.set(firmware, code);
  return codes;
}
