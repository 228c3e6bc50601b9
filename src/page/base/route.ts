/**
 * Where the page is: `#/machines/node-1?tab=facts`. It is kept behind the #, so that every address
 * of the page is one file of the server, and is never sent to it.
 */

export interface Place {
  /** The words between the slashes, unescaped. */
  readonly path: readonly string[];
  readonly query: Readonly<Record<string, string>>;
}

export function readPlace(hash: string): Place {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  return {
    path: path
      .split('/')
      .filter((word) => word !== '')
      .map(unescaped),
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

/** Text that nobody escaped stays as it is. */
function unescaped(word: string): string {
  try {
    return decodeURIComponent(word);
  } catch {
    return word;
  }
}

/** The address of a place within the page; empty values are left out. */
export function writePlace(
  path: readonly string[],
  query: Readonly<Record<string, string | undefined>> = {},
): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  const text = new URLSearchParams(given as [string, string][]).toString();
  return `#/${path.map(encodeURIComponent).join('/')}${text === '' ? '' : `?${text}`}`;
}
