/** Names of users by uid, from /etc/passwd. */
import { readFileSync, statSync } from 'node:fs';

/** A file of users that is larger than this is not read: it is not what passwd(5) describes. */
const MAX_OCTETS = 4 * 1024 * 1024;
const MAX_USERS = 20_000;
/** `NAME:x:UID:…`, with a name that contains no control characters. */
const LINE = /^([^:\x00-\x1f\x7f]{1,64}):[^:]*:([0-9]{1,10}):/;

/**
 * Returns a function that looks up the name of a uid; undefined when the file has none. The file is
 * read again only after it has changed. Users of a directory service that are not in the file have
 * no name here: asking for one would mean to wait for another program in each request.
 */
export function openUserNames(file = '/etc/passwd'): (uid: number) => string | undefined {
  let version = '';
  let names: ReadonlyMap<number, string> = new Map();
  return (uid) => {
    try {
      const { mtimeMs, ino, size } = statSync(file);
      const found = `${mtimeMs} ${ino} ${size}`;
      if (found !== version) {
        names = size > MAX_OCTETS ? new Map() : readNames(readFileSync(file, 'utf8'));
        version = found;
      }
    } catch {
      return undefined;
    }
    return names.get(uid);
  };
}

/** The names in a text in the format of passwd(5); the first line of a uid counts, as in libc. */
export function readNames(text: string): ReadonlyMap<number, string> {
  const names = new Map<number, string>();
  for (const line of text.split('\n')) {
    const [, name, digits] = LINE.exec(line) ?? [];
    if (name === undefined || names.has(Number(digits))) continue;
    names.set(Number(digits), name);
    if (names.size >= MAX_USERS) break;
  }
  return names;
}
