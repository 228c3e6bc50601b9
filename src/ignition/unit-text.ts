/** Reads the text of a unit of systemd. Pure. */

/** The settings of a unit by section and name, such as `Service` and `ExecStart`. */
export interface UnitText {
  /** The values of a setting, in their order; an empty one takes back those before. */
  of(section: string, name: string): readonly string[];
}

/** Reads a unit once: each check asks for several of its settings. */
export function readUnit(contents: string): UnitText {
  const found = new Map<string, string[]>();
  let section = '';
  for (const raw of contents.replace(/\\\n/g, ' ').split('\n')) {
    const line = raw.trim();
    if (/^\[[^\]]+\]$/.test(line)) section = line.slice(1, -1);
    const equals = line.indexOf('=');
    const name = line.slice(0, Math.max(0, equals)).trimEnd();
    if (name === '' || name.includes('#') || name.includes(';')) continue;
    const value = line.slice(equals + 1).trimStart();
    const at = `${section} ${name}`;
    if (value === '') found.delete(at);
    else found.set(at, [...(found.get(at) ?? []), value]);
  }
  return { of: (wanted, name) => found.get(`${wanted} ${name}`) ?? [] };
}
