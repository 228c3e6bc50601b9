/**
 * Which boot loader firmware of each architecture gets, as a table. Names are those of files in the
 * loader directory (Debian's ipxe package, or a build of one's own); the first that is installed is
 * used.
 */

export interface LoaderChoice {
  /** Option 93 (IANA processor architecture types). */
  readonly code: number;
  readonly about: string;
  readonly files: readonly string[];
  /**
   * Instead of `files` for an iPXE that cannot fetch scripts: it cannot start an UNDI loader
   * (netboot-protocols §C.22).
   */
  readonly fromIpxe?: readonly string[];
}

const X64 = ['ipxe.efi', 'snponly.efi'] as const;
const ARM64 = ['ipxe-arm64.efi', 'snponly-arm64.efi'] as const;
const I386 = ['ipxe-i386.efi', 'snponly-i386.efi'] as const;
const ARM32 = ['ipxe-arm32.efi', 'snponly-arm32.efi'] as const;

export const LOADERS: readonly LoaderChoice[] = [
  // UNDI first: it drives every card that has a ROM (netboot-protocols §C.23).
  {
    code: 0,
    about: 'x86 BIOS',
    files: ['undionly.kpxe', 'ipxe.pxe'],
    fromIpxe: ['ipxe.pxe', 'undionly.kpxe'],
  },
  { code: 6, about: 'x86 UEFI', files: I386 },
  { code: 7, about: 'x64 UEFI', files: X64 },
  { code: 9, about: 'EFI byte code; some x64 firmware says so', files: X64 },
  { code: 10, about: 'ARM 32-bit UEFI', files: ARM32 },
  { code: 11, about: 'ARM 64-bit UEFI', files: ARM64 },
  { code: 15, about: 'x86 UEFI HTTP', files: I386 },
  { code: 16, about: 'x64 UEFI HTTP', files: X64 },
  { code: 17, about: 'EFI byte code HTTP', files: X64 },
  { code: 18, about: 'ARM 32-bit UEFI HTTP', files: ARM32 },
  { code: 19, about: 'ARM 64-bit UEFI HTTP', files: ARM64 },
  { code: 20, about: 'x86 BIOS HTTP', files: ['ipxe.lkrn'] },
];

const BY_CODE: ReadonlyMap<number, LoaderChoice> = new Map(LOADERS.map((choice) => [choice.code, choice]));

const BIOS = [0, 20];

/**
 * Whether a loader that documents demand is of a kind that this firmware can start: UEFI takes
 * `.efi` files, a BIOS anything else. A demand for a whole network does not lead those astray that
 * it was not written for.
 */
export function suits(loader: string, code: number | undefined): boolean {
  if (code === undefined || !BY_CODE.has(code)) return true;
  return loader.endsWith('.efi') !== BIOS.includes(code);
}

export type LoaderFound =
  | { readonly ok: true; readonly loader: string }
  /** No loader is known, or none of those known is installed: `wanted`. */
  | { readonly ok: false; readonly why: 'arch_unsupported' }
  | { readonly ok: false; readonly why: 'loader_missing'; readonly wanted: readonly string[] };

/**
 * The loader for an architecture. `override` (documents' `pxe.loader`) takes the place of the
 * table. An architecture that is not in the table is unsupported unless `override` says what to
 * load.
 */
export function loaderFor(
  code: number | undefined,
  options: {
    readonly installed: (name: string) => boolean;
    readonly fromIpxe?: boolean;
    readonly override?: string | undefined;
  },
): LoaderFound {
  const choice = code === undefined ? undefined : BY_CODE.get(code);
  const wanted =
    options.override !== undefined
      ? [options.override]
      : options.fromIpxe
        ? (choice?.fromIpxe ?? choice?.files)
        : choice?.files;
  if (wanted === undefined) return { ok: false, why: 'arch_unsupported' };
  const loader = wanted.find(options.installed);
  return loader === undefined ? { ok: false, why: 'loader_missing', wanted } : { ok: true, loader };
}

/** One code for each processor and kind of firmware, in the order of their frequency. */
const FAMILIES = [0, 7, 11, 6, 10];

/** The firmware that finds a loader here, by what it is called; for `muster status`. */
export function firmwareServed(installed: (name: string) => boolean): readonly string[] {
  return FAMILIES.filter((code) => loaderFor(code, { installed }).ok).map((code) => BY_CODE.get(code)!.about);
}
