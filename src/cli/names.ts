/** Names of kinds, as an operator may type them: plural, singular or short, in any case. */
import { MusterError } from '../base/errors.ts';
import { didYouMean } from '../base/suggest.ts';
import { type Kind, PLURAL } from '../resources/kinds.ts';

/** Short names of kinds, like kubectl's `po` and `svc`. */
const SHORT_NAMES: Readonly<Record<Kind, string>> = {
  Network: 'net',
  Image: 'img',
  Cluster: 'cl',
  Profile: 'prof',
  Machine: 'm',
  Webhook: 'wh',
};

/** Lists that `get` prints and that are not documents. */
export const OTHER_LISTS = {
  leases: ['lease'],
  events: ['event', 'ev'],
  inventory: ['inv'],
  names: ['name'],
} as const;
export type OtherList = keyof typeof OTHER_LISTS;

const KIND_BY_NAME = new Map<string, Kind>(
  (Object.keys(PLURAL) as Kind[]).flatMap((kind) =>
    [kind.toLowerCase(), PLURAL[kind], SHORT_NAMES[kind]].map((name): [string, Kind] => [name, kind]),
  ),
);

/** The kind that `text` names; undefined when it names none. */
export function kindNamed(text: string): Kind | undefined {
  return KIND_BY_NAME.get(text.toLowerCase());
}

/**
 * Like {@link kindNamed}, but throws. `others` are further names that would have been valid.
 *
 * @throws {MusterError} E_USAGE, with a suggestion or the list of kinds.
 */
export function kindOf(text: string, others: readonly string[] = []): Kind {
  const kind = kindNamed(text);
  if (/^secrets?$/i.test(text))
    throw new MusterError('E_USAGE', 'Secrets are no documents; `muster secret ls` lists them');
  const all = `; there are ${[...Object.values(PLURAL), ...others].join(', ')}`;
  if (!kind)
    throw new MusterError(
      'E_USAGE',
      `"${text}" is not a kind${didYouMean(text, [...KIND_BY_NAME.keys(), ...others]) || all}`,
    );
  return kind;
}

/** The other list that `text` names; undefined when it names none. */
export function otherListNamed(text: string): OtherList | undefined {
  const plain = text.toLowerCase();
  return (Object.keys(OTHER_LISTS) as OtherList[]).find(
    (list) => list === plain || (OTHER_LISTS[list] as readonly string[]).includes(plain),
  );
}

/** A kind, and names of its documents; an empty list of names means all. */
export interface Asked {
  readonly kind: string;
  readonly names: readonly string[];
}

/**
 * Reads the words of `get`: `all`, `KIND,KIND…`, `KIND/NAME…` of any kinds, or the words of {@link
 * kindAndNames}.
 *
 * @throws {MusterError} E_USAGE when the words have another form.
 */
export function askedFor(words: readonly string[]): readonly Asked[] {
  const [first = '', ...rest] = words;
  if (first.includes('/')) {
    const byKind = Map.groupBy(words, (word) => {
      const kind = word.split('/')[0]!;
      return kindNamed(kind) ?? kind;
    });
    return [...byKind.values()].map(kindAndNames);
  }
  const kinds = first === 'all' ? Object.values(PLURAL) : first.split(',').filter((kind) => kind !== '');
  if (kinds.length < 2) return [kindAndNames(words)];
  return kinds.map((kind) => ({ kind, names: rest }));
}

/**
 * Reads `KIND NAME…`, `KIND/NAME…` or `KIND`.
 *
 * @throws {MusterError} E_USAGE when kinds are mixed, or a name is missing after the slash.
 */
export function kindAndNames(words: readonly string[]): {
  readonly kind: string;
  readonly names: readonly string[];
} {
  const [first = '', ...rest] = words;
  if (!first.includes('/')) return { kind: first, names: rest };
  const pairs = words.map((word) => word.split('/'));
  if (pairs.some((pair) => pair.length !== 2 || !pair[0] || !pair[1]))
    throw new MusterError('E_USAGE', 'write KIND NAME… or KIND/NAME…');
  const kinds = new Set(pairs.map((pair) => kindNamed(pair[0]!) ?? pair[0]!));
  if (kinds.size > 1) throw new MusterError('E_USAGE', 'name only one kind in a command');
  return { kind: pairs[0]![0]!, names: pairs.map((pair) => pair[1]!) };
}
