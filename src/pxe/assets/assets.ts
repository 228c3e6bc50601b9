/** Files that machines fetch, found by hash or by loader name; implemented by `assets.files.ts`. */
import type { ImageSpec } from '../../resources/kinds.ts';

/** A file that can be served. */
export interface ServedFile {
  /** Absolute path on this host, with links resolved. */
  readonly path: string;
  readonly size: number;
  readonly modified: Date;
}

export interface AssetStore {
  /** The verified file with that hash; undefined when it is missing or incomplete. */
  find(sha256: string): ServedFile | undefined;
  /** A boot loader by the name that DHCP advertises. */
  loader(name: string): ServedFile | undefined;
  /** Names of all loaders. */
  loaders(): readonly string[];
}

/** An asset store for servers that open the files. */
export interface OpenedAssets extends AssetStore {
  /**
   * Reports that `file`, which `find` returned for that hash, is not on disk. From then on `find`
   * returns undefined for it.
   */
  lost(sha256: string, file: ServedFile): void;
}

/** The hashes of an image's files, each once. */
export function assetsOf(image: ImageSpec): readonly string[] {
  const all = [image.kernel, ...(image.initrds ?? []), ...(image.root ? [image.root] : [])];
  return [...new Set(all.map(({ sha256 }) => sha256))];
}
