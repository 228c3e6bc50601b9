/**
 * Templates of `muster get -o jsonpath=TEMPLATE`, as kubectl has them: text, and between braces
 * paths, texts in quotes, and `range PATH` … `end`. Pure.
 */
import { MusterError } from '../../base/errors.ts';

/** What a step of a path leads to, from the values that the steps before led to. */
type Step = (value: unknown) => readonly unknown[];

type Node =
  | { readonly text: string }
  | { readonly path: readonly Step[] }
  | { readonly range: readonly Step[]; readonly body: readonly Node[] };

/**
 * Reads a template, for example `{range .items[*]}{.metadata.name}{"\n"}{end}`, and returns what
 * fills it with a value. Values that are not there are empty, several are separated by a space, and
 * those that are no texts are JSON.
 *
 * @throws {MusterError} E_USAGE for what is no template, or is not known here
 */
export function jsonPath(template: string): (value: unknown) => string {
  // kubectl takes a path without braces too.
  const text = template.includes('{') ? template : `{${template.replace(/^\$?\.?/, '.')}}`;
  const nodes = nodesIn(partsOf(text));
  return (value) => filled(nodes, value);
}

const wrong = (why: string): never => {
  throw new MusterError('E_USAGE', `-o jsonpath: ${why}`);
};

/** Splits at braces: texts are at even places. Braces between quotes or in filters are no end. */
function partsOf(template: string): readonly string[] {
  const parts: string[] = [];
  let rest = template;
  for (;;) {
    const open = rest.indexOf('{');
    if (open < 0) return [...parts, rest];
    const [inside] = /^(?:[^{}"']|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')*\}/s.exec(rest.slice(open + 1)) ?? [];
    if (inside === undefined) return wrong(`"${rest.slice(open, open + 40)}" has no closing brace`);
    parts.push(rest.slice(0, open), inside.slice(0, -1).trim());
    rest = rest.slice(open + 1 + inside.length);
  }
}

function nodesIn(parts: readonly string[]): readonly Node[] {
  const open: { readonly range: readonly Step[]; readonly body: Node[] }[] = [{ range: [], body: [] }];
  for (const [n, part] of parts.entries()) {
    const { body } = open.at(-1)!;
    const range = /^range\s+(.*)$/s.exec(part)?.[1];
    if (n % 2 === 0) body.push({ text: part });
    else if (range !== undefined) open.push({ range: stepsOf(range), body: [] });
    else if (part === 'end') {
      const ended = open.pop()!;
      if (open.length === 0) return wrong('{end} without {range}');
      open.at(-1)!.body.push(ended);
    } else if (/^["']/.test(part)) body.push({ text: quoted(part) });
    else body.push({ path: stepsOf(part) });
  }
  return open.length > 1 ? wrong('{range} without {end}') : open[0]!.body;
}

/** A text in quotes of either kind, with the escapes of JSON. */
function quoted(text: string): string {
  const plain = text.startsWith("'")
    ? text.slice(1, -1).replace(/\\'/g, "'").replace(/"/g, '\\"')
    : undefined;
  try {
    return String(JSON.parse(plain === undefined ? text : `"${plain}"`));
  } catch {
    return wrong(`${text} is no text in quotes`);
  }
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null;

/** A field by its name: no list has one, and what every object inherits is none. */
const field =
  (name: string): Step =>
  (value) =>
    isObject(value) && !Array.isArray(value) && Object.hasOwn(value, name) ? [value[name]] : [];

const every: Step = (value) => (isObject(value) ? Object.values(value) : []);

/** The forms of a step at the beginning of a path. */
const FORMS: readonly (readonly [RegExp, (...groups: readonly string[]) => Step])[] = [
  [/^\.\.|^\[\?\(\s*@\.\.|^\[[^\]]*,/, () => wrong('`..` and several indices are not known here')],
  [/^\.?\[\*\]|^\.\*/, () => every],
  [/^\.?\[(-?\d+)\]/, (n) => (value) => (Array.isArray(value) ? [value.at(Number(n))] : [])],
  [
    /^\.?\[(-?\d*):(-?\d*)\]/,
    (from = '', to = '') =>
      (value) =>
        Array.isArray(value) ? value.slice(Number(from), to === '' ? undefined : Number(to)) : [],
  ],
  [/^\.?\[('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]/, (name) => field(quoted(name!))],
  [
    /^\.?\[\?\(\s*@([^=!<>]*?)\s*(?:(==|!=)\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[\w.-]+)\s*)?\)\]/,
    (path = '', operator, word) => {
      const steps = stepsOf(path);
      const fits = (value: unknown): boolean => {
        const found = walked(steps, value);
        if (operator === undefined) return found.length > 0;
        const wanted = /^["']/.test(word!) ? quoted(word!) : word;
        return found.some((one) => textOf(one) === wanted) === (operator === '==');
      };
      return (value) => every(value).filter(fits);
    },
  ],
  // A dot in a name is written `\.`, as in labels.
  [/^\.((?:[\w/-]|\\.)+)/, (name) => field(name!.replace(/\\(.)/g, '$1'))],
];

function stepsOf(path: string): readonly Step[] {
  const steps: Step[] = [];
  let rest = path.replace(/^[$@]/, '');
  while (rest !== '' && rest !== '.') {
    const form = FORMS.find(([pattern]) => pattern.test(rest));
    if (form === undefined) return wrong(`"${rest.slice(0, 40)}" is no step of a path`);
    const [whole, ...groups] = form[0].exec(rest)!;
    steps.push(form[1](...groups));
    rest = rest.slice(whole.length);
  }
  return steps;
}

const walked = (steps: readonly Step[], value: unknown): readonly unknown[] =>
  steps.reduce<readonly unknown[]>(
    (values, step) => values.flatMap(step).filter((one) => one !== undefined),
    [value],
  );

const textOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));

function filled(nodes: readonly Node[], value: unknown): string {
  return nodes
    .map((node) => {
      if ('text' in node) return node.text;
      if ('path' in node) return walked(node.path, value).map(textOf).join(' ');
      return walked(node.range, value)
        .map((one) => filled(node.body, one))
        .join('');
    })
    .join('');
}
