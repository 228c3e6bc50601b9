/** Reads the text of a unit of systemd. Pure. */

/** The values that a unit gives a setting, in their order; an empty one takes back those before. */
export function settings(contents: string, section: string, name: string): readonly string[] {
  let here = '';
  let found: string[] = [];
  for (const raw of contents.replace(/\\\n/g, ' ').split('\n')) {
    const line = raw.trim();
    here = /^\[([^\]]+)\]$/.exec(line)?.[1] ?? here;
    const [, key = '', value = ''] = /^([^=#;]+?)\s*=\s*(.*)$/.exec(line) ?? [];
    if (here !== section || key !== name) continue;
    found = value === '' ? [] : [...found, value];
  }
  return found;
}
