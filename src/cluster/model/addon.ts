/** An add-on as a Cluster names it, with every list present. */

/** A file of objects, identified by its hash; `url` or `file` only says where it can be fetched. */
export interface AddonManifest {
  readonly url?: string | undefined;
  /** Relative to the file of the Cluster. */
  readonly file?: string | undefined;
  readonly sha256: string;
}

/** Selects the objects that a patch changes: every given field has to match. */
export interface PatchTarget {
  readonly apiVersion?: string | undefined;
  readonly kind?: string | undefined;
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
}

/** One operation of a JSON Patch (RFC 6902). */
export interface PatchOperation {
  readonly op: 'add' | 'remove' | 'replace' | 'move' | 'copy' | 'test';
  readonly path: string;
  readonly from?: string | undefined;
  readonly value?: unknown;
}

export interface AddonPatch {
  readonly target: PatchTarget;
  /** A JSON Merge Patch (RFC 7386). */
  readonly merge?: unknown;
  readonly json?: readonly PatchOperation[] | undefined;
  /** The selected objects are left out. */
  readonly remove?: true | undefined;
}

export interface Addon {
  readonly name: string;
  readonly manifests: readonly AddonManifest[];
  /** Objects written in the Cluster itself; they come after those of the manifests. */
  readonly objects: readonly unknown[];
  readonly patches: readonly AddonPatch[];
  /**
   * Images that its objects name in places that are not searched for images: arguments,
   * environment variables, resources of an operator.
   */
  readonly images: readonly string[];
}
