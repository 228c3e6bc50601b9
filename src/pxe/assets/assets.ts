/** Files that machines fetch, found by hash or by loader name; implemented by `assets.files.ts`. */
import type { Asset, ImageSpec } from '../../resources/kinds.ts';

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
  const { kernel, initrds = [], root, disk, pieces } = image;
  const all = [kernel, ...initrds, root, disk, pieces].filter((asset) => asset !== undefined);
  return [...new Set(all.map(({ sha256 }) => sha256))];
}

/** An Image of a whole disk. */
export type DiskImage = ImageSpec & { readonly disk: Asset; readonly pieces: Asset };

/** Whether an Image is that of a whole disk. */
export const isDiskImage = (image: ImageSpec | undefined): image is DiskImage =>
  image?.disk !== undefined && image.pieces !== undefined;
