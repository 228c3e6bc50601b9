/** Reads the text of a unit of systemd. Pure, apart from what it remembers of the last texts. */
import { setBounded } from '../base/aged.ts';

/** The settings of a unit by section and name, such as `Service` and `ExecStart`. */
export interface UnitText {
  /** Why systemd could not parse it; undefined when it can, or when it is empty. */
  readonly fault: string | undefined;
  /** The values of a setting, in their order; an empty one takes back those before. */
  of(section: string, name: string): readonly string[];
}

const memoUnits = new Map<string, UnitText>();
/** Most machines get the same units, Muster's own among them. */
const REMEMBERED = 200;

/** Reads a unit once: each check asks for several of its settings, at each boot of each machine. */
export function readUnit(contents: string): UnitText {
  const known = memoUnits.get(contents);
  if (known) return known;
  const unit = parsedUnit(contents);
  setBounded(memoUnits, contents, unit, REMEMBERED);
  return unit;
}

function parsedUnit(contents: string): UnitText {
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
  return { fault: unitFault(contents), of: (wanted, name) => found.get(`${wanted} ${name}`) ?? [] };
}

/** Why systemd could not parse a unit's text; undefined when it can, or when it is empty. */
export function unitFault(contents: string): string | undefined {
  let section = false;
  let continued = false;
  for (const [n, raw] of contents.split('\n').entries()) {
    const line = raw.trim();
    const continues = continued;
    continued = raw.endsWith('\\') && !/^[#;]/.test(line);
    if (continues || line === '' || /^[#;]/.test(line)) continue;
    if (/^\[[^\]]+\]$/.test(line)) section = true;
    else if (!section) return `line ${n + 1}: comes before the first [Section]`;
    else if (!/^[^=[\]]+=/.test(line)) return `line ${n + 1}: neither Name=value nor [Section]`;
  }
  return undefined;
}
