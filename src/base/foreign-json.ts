/** Reads JSON that other programs wrote. No field is assumed to exist or to have the right type. */

/** Parses JSON; undefined when the text is not JSON. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export type Fields = Readonly<Record<string, unknown>>;
/** The fields of an object; an empty object for any other value, also for a list. */
export const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {};
export const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
