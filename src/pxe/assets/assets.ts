/** Files that machines fetch, found by hash or loader name. The implementation is `assets.files.ts`. */

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
