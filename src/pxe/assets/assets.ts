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

/**
 * The files of an image, each with its part: `kernel`, `initrd` (of several `initrd0` and so on),
 * `root`, `disk`, `pieces`.
 */
export function partsOf({ kernel, initrds = [], root, disk, pieces }: ImageSpec) {
  const all: readonly (readonly [part: string, asset: Asset | undefined])[] = [
    ['kernel', kernel],
    ...initrds.map((asset, n) => [initrds.length > 1 ? `initrd${n}` : 'initrd', asset] as const),
    ...([
      ['root', root],
      ['disk', disk],
      ['pieces', pieces],
    ] as const),
  ];
  return all.flatMap(([part, asset]) => (asset === undefined ? [] : [{ part, sha256: asset.sha256 }]));
}

/** The hashes of an image's files, each once. */
export const assetsOf = (image: ImageSpec): readonly string[] => [
  ...new Set(partsOf(image).map(({ sha256 }) => sha256)),
];

/** An Image of a whole disk. */
export type DiskImage = ImageSpec & { readonly disk: Asset; readonly pieces: Asset };

/** Whether an Image is that of a whole disk. */
export const isDiskImage = (image: ImageSpec | undefined): image is DiskImage =>
  image?.disk !== undefined && image.pieces !== undefined;
