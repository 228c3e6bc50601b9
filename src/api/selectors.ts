/** Selects items of a list by labels and by fields, as in `rack=a,role!=db`. Pure. */
import { MusterError } from '../base/errors.ts';

interface Labelled {
  readonly metadata: { readonly labels?: Readonly<Record<string, string>> | undefined };
}

interface Term {
  readonly key: string;
  readonly value: string;
  readonly equal: boolean;
}

/** @throws {MusterError} E_USAGE; `source` names the parameter or flag in the message */
function termsOf(text: string, source: string): readonly Term[] {
  return text.split(',').map((part) => {
    const found = /^([^=!\s]+)(==?|!=)([^=!\s]*)$/.exec(part);
    if (found === null)
      throw new MusterError(
        'E_USAGE',
        `${source} ${text}: write key=value or key!=value, several separated by commas`,
      );
    return { key: found[1]!, value: found[3]!, equal: found[2] !== '!=' };
  });
}

/**
 * Makes a filter for labels such as `a=b,c!=d`.
 *
 * @throws {MusterError} E_USAGE when the selector is malformed
 */
export function byLabels(selector: string | undefined, source: string): (item: Labelled) => boolean {
  if (selector === undefined) return () => true;
  const terms = termsOf(selector, source);
  return ({ metadata }) =>
    terms.every(({ key, value, equal }) => (metadata.labels?.[key] === value) === equal);
}

/**
 * Makes a filter for fields such as `status.phase=ready,spec.profile!=worker`. A list fits when one
 * of its values does; an absent field is equal to nothing.
 *
 * @throws {MusterError} E_USAGE when the selector is malformed
 */
export function byFields(selector: string | undefined, source: string): (item: object) => boolean {
  if (selector === undefined) return () => true;
  const terms = termsOf(selector, source).map(({ key, ...term }) => ({ path: key.split('.'), ...term }));
  return (item) => terms.every(({ path, value, equal }) => has(item, path, value) === equal);
}

function has(item: unknown, path: readonly string[], value: string): boolean {
  if (Array.isArray(item)) return item.some((one) => has(one, path, value));
  const [first, ...rest] = path;
  if (first === undefined) return item !== undefined && typeof item !== 'object' && String(item) === value;
  if (typeof item !== 'object' || item === null || !Object.hasOwn(item, first)) return false;
  return has((item as Record<string, unknown>)[first], rest, value);
}
