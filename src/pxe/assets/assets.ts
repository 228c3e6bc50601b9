/**
 * Files that machines fetch, found by hash or loader name. The implementation is `assets.files.ts`.
 */
import type { ImageSpec } from '../../resources/kinds.ts';

/** A file ready to be served. */
export interface ServedFile {
  /** Absolute path on this host, resolved, inside its root. */
  readonly path: string;
  readonly size: number;
  readonly modified: Date;
}

export interface AssetStore {
  /** The verified file of that hash, or undefined when it is not (completely) there. */
  find(sha256: string): ServedFile | undefined;
  /** A boot loader by the name that DHCP advertises; no path separators. */
  loader(name: string): ServedFile | undefined;
  /** Names of all loaders that are there. */
  loaders(): readonly string[];
}

/** What whoever opens the files needs besides. */
export interface OpenedAssets extends AssetStore {
  /**
   * Says that `file`, which `find` gave for that hash, was not on disk: from now on it is not
   * there, and can be added again.
   */
  lost(sha256: string, file: ServedFile): void;
}

/** Hashes of an image's files, each once. */
export function assetsOf(image: ImageSpec): readonly string[] {
  const all = [image.kernel, ...(image.initrds ?? []), ...(image.root ? [image.root] : [])];
  return [...new Set(all.map(({ sha256 }) => sha256))];
}
