/** Range requests with one range (RFC 9110 §14). Pure. */

type RangeAnswer =
  /** There is no range, or it is ignored: the whole file, 200. */
  | { readonly kind: 'whole' }
  /** From octet `first` to octet `last`, both included: 206. */
  | { readonly kind: 'part'; readonly first: number; readonly last: number }
  /** The range is outside the file: 416. */
  | { readonly kind: 'unsatisfiable' };

/**
 * Which octets of a file of `size` octets a Range header asks for. Several ranges, other units and
 * malformed headers are ignored, as the RFC allows; the client then gets the whole file.
 */
export function selectRange(header: string | undefined, size: number): RangeAnswer {
  const found = header === undefined ? null : /^bytes=([0-9]{0,15})-([0-9]{0,15})$/.exec(header.trim());
  if (!found) return { kind: 'whole' };
  const [, from, to] = found as unknown as [string, string, string];
  if (from === '' && to === '') return { kind: 'whole' };
  if (from === '') {
    const wanted = Number(to);
    if (wanted === 0 || size === 0) return { kind: 'unsatisfiable' };
    return { kind: 'part', first: Math.max(size - wanted, 0), last: size - 1 };
  }
  const first = Number(from);
  if (to !== '' && Number(to) < first) return { kind: 'whole' };
  if (first >= size) return { kind: 'unsatisfiable' };
  return { kind: 'part', first, last: to === '' ? size - 1 : Math.min(Number(to), size - 1) };
}
