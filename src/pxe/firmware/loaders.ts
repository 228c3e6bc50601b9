/**
 * Which boot loader a client gets: the first of its `loaders` in {@link ARCHITECTURES} that is
 * installed.
 */
import { ARCHITECTURES, architecture } from './architectures.ts';

/**
 * Whether this firmware can start a loader that a document demands: UEFI takes `.efi` files, a BIOS
 * anything else. With this check, `pxe.loader` of a whole network does not affect firmware of the
 * other kind. Every loader suits an unknown architecture.
 */
export function suits(loader: string, code: number | undefined): boolean {
  const row = code === undefined ? undefined : architecture(code);
  if (row?.loaders === undefined) return true;
  return loader.endsWith('.efi') === (row.firmware === 'uefi');
}

type LoaderFound =
  | { readonly ok: true; readonly loader: string }
  /** No loader is known for this architecture. */
  | { readonly ok: false; readonly why: 'arch_unsupported' }
  /** None of the `wanted` loaders is installed. */
  | { readonly ok: false; readonly why: 'loader_missing'; readonly wanted: readonly string[] };

/**
 * The loader for an option 93 code. `override` (`pxe.loader` of a document) replaces the table's
 * loaders. An architecture without loaders is unsupported unless there is an override. `fromIpxe`:
 * the client is an iPXE in ROM. `leaves`: the loader only leaves to the disk (quirk
 * `ipxe-never-exits`).
 */
export function loaderFor(
  code: number | undefined,
  options: {
    readonly installed: (name: string) => boolean;
    readonly fromIpxe?: boolean;
    readonly override?: string | undefined;
    readonly leaves?: boolean;
  },
): LoaderFound {
  const row = code === undefined ? undefined : architecture(code);
  const wanted =
    options.override !== undefined
      ? [options.override]
      : options.fromIpxe
        ? (row?.loadersFromIpxe ?? row?.loaders)
        : row?.loaders;
  if (wanted === undefined) return { ok: false, why: 'arch_unsupported' };
  const there = wanted.filter(options.installed);
  const loader = (options.leaves && there.find((name) => name.startsWith('snponly'))) || there[0];
  return loader === undefined ? { ok: false, why: 'loader_missing', wanted } : { ok: true, loader };
}

/** One code for each pair of processor and firmware, the most frequent first. */
const MOST_FREQUENT = [0, 7, 11, 6, 10];

/** Names of the firmware for which a loader is installed; for `muster status`. */
export function firmwareServed(installed: (name: string) => boolean): readonly string[] {
  return MOST_FREQUENT.filter((code) => loaderFor(code, { installed }).ok).map(
    (code) => architecture(code)!.name,
  );
}

/**
 * Loaders for Secure Boot by the names that firmware and shim ask for, each with the name of
 * Debian's file (packages shim-signed and grub-efi-amd64-signed, -arm64-signed). shim asks for GRUB
 * beside itself.
 */
export const SIGNED_LOADERS: Readonly<Record<string, string>> = {
  'shimx64.efi': 'shimx64.efi.signed',
  'grubx64.efi': 'grubnetx64.efi.signed',
  'shimaa64.efi': 'shimaa64.efi.signed',
  'grubaa64.efi': 'grubnetaa64.efi.signed',
};

/** Names of all loaders in the table, each once. */
export function loaderNames(): readonly string[] {
  return [
    ...new Set(ARCHITECTURES.flatMap((row) => [...(row.loaders ?? []), ...(row.loadersFromIpxe ?? [])])),
  ];
}
