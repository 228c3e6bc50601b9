/** Parts of a list that is too long to be done at once. */

/** Yields the items in their order, `most` at a time; the last part may be shorter. */
export function* inParts<T>(all: readonly T[], most: number): Generator<readonly T[]> {
  for (let at = 0; at < all.length; at += most) yield all.slice(at, at + most);
}
