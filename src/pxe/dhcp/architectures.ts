/**
 * Client architectures of option 93: IANA's "Processor Architecture Types", which correct RFC
 * 4578's table (7 and 9 swapped there).
 */

export interface Architecture {
  readonly code: number;
  readonly name: string;
  /** Only where Muster has images for it. */
  readonly arch?: 'x86_64' | 'aarch64';
  readonly firmware?: 'bios' | 'uefi';
  /** The firmware asks for a URL, not for a TFTP name. */
  readonly http?: true;
}

export const ARCHITECTURES: readonly Architecture[] = [
  { code: 0, name: 'x86 BIOS', arch: 'x86_64', firmware: 'bios' },
  { code: 1, name: 'NEC PC98' },
  { code: 2, name: 'Itanium' },
  { code: 3, name: 'DEC Alpha' },
  { code: 4, name: 'Arc x86' },
  { code: 5, name: 'Intel Lean Client' },
  { code: 6, name: 'x86 UEFI', firmware: 'uefi' },
  { code: 7, name: 'x64 UEFI', arch: 'x86_64', firmware: 'uefi' },
  { code: 8, name: 'XScale' },
  { code: 9, name: 'EFI byte code', arch: 'x86_64', firmware: 'uefi' },
  { code: 10, name: 'ARM 32-bit UEFI', firmware: 'uefi' },
  { code: 11, name: 'ARM 64-bit UEFI', arch: 'aarch64', firmware: 'uefi' },
  { code: 12, name: 'PowerPC Open Firmware' },
  { code: 13, name: 'PowerPC ePAPR' },
  { code: 14, name: 'POWER OPAL' },
  { code: 15, name: 'x86 UEFI HTTP', firmware: 'uefi', http: true },
  { code: 16, name: 'x64 UEFI HTTP', arch: 'x86_64', firmware: 'uefi', http: true },
  { code: 17, name: 'EFI byte code HTTP', arch: 'x86_64', firmware: 'uefi', http: true },
  { code: 18, name: 'ARM 32-bit UEFI HTTP', firmware: 'uefi', http: true },
  { code: 19, name: 'ARM 64-bit UEFI HTTP', arch: 'aarch64', firmware: 'uefi', http: true },
  { code: 20, name: 'x86 BIOS HTTP', arch: 'x86_64', firmware: 'bios', http: true },
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

export function architecture(code: number): Architecture | undefined {
  return BY_CODE.get(code);
}

/**
 * Kinds of firmware that machines of `arch` have, each with the code by which it asks for a TFTP
 * name.
 */
export function firmwareCodes(arch: 'x86_64' | 'aarch64'): ReadonlyMap<'bios' | 'uefi', number> {
  const codes = new Map<'bios' | 'uefi', number>();
  // The first is what firmware sends; EFI byte code comes after it.
  for (const { code, firmware, ...one } of ARCHITECTURES)
    if (one.arch === arch && firmware && !one.http && !codes.has(firmware)) codes.set(firmware, code);
  return codes;
}
