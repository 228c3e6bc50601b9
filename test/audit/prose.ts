/**
 * What a machine can check of comments and pages: their width, how their sentences begin, and that
 * the files and decisions that they name exist.
 */
import path from 'node:path';

/** Columns that a line may have at most. */
export const WIDTH = { comment: 100, shell: 100, markdown: 120 } as const;

export interface ProseFault {
  readonly file: string;
  /** Counts from 1. */
  readonly line: number;
  readonly rule: 'width' | 'opening' | 'reference';
  readonly text: string;
}

interface TextLine {
  readonly line: number;
  /** The whole line, as it is in the file. */
  readonly raw: string;
  /** Without the marks of a comment. */
  readonly text: string;
}

const STRING = /'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`/;
const REGEX = /(?<=[=(,:[!&|?{};]\s*|return\s)\/(?![*/])(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\//;
const COMMENT = /\/\*[\s\S]*?\*\/|\/\/[^\n]*/;
const TOKENS = new RegExp(`(${STRING.source}|${REGEX.source})|(${COMMENT.source})`, 'g');

/** Lines of comments of TypeScript; comments inside of template texts are not seen. */
function commentsOf(code: string): TextLine[] {
  const lines = code.split('\n');
  const found: TextLine[] = [];
  for (const match of code.matchAll(TOKENS)) {
    const comment = match[2];
    if (comment === undefined) continue;
    const first = code.slice(0, match.index).split('\n').length;
    for (const [n, raw] of comment.split('\n').entries())
      found.push({
        line: first + n,
        raw: lines[first + n - 1]!,
        text: raw.replace(/^\s*(?:\/\*\*?|\*\/|\*|\/\/)\s?/, '').replace(/\s*\*\/$/, ''),
      });
  }
  return found;
}

/** Comment lines of shell and Perl. */
const hashComments = (code: string): TextLine[] =>
  code
    .split('\n')
    .map((raw, n) => ({ line: n + 1, raw, text: /^\s*#(?!!) ?(.*)$/.exec(raw)?.[1] ?? '' }))
    .filter(({ text }) => text !== '');

/** Lines of a page outside of fenced code. */
function pageLines(page: string): TextLine[] {
  let fenced = false;
  return page.split('\n').flatMap((raw, n) => {
    if (/^\s*```/.test(raw)) fenced = !fenced;
    return fenced || /^\s*```/.test(raw) ? [] : [{ line: n + 1, raw, text: raw.replace(/^[\s>#*|-]+/, '') }];
  });
}

const isShell = (file: string, text: string): boolean =>
  /\.(sh|pl)$/.test(file) || /^#!.*\b(sh|bash|perl)\b/.test(text.slice(0, 80));

/** The lines of `file` that people read as prose; none for other kinds of file. */
function proseOf(file: string, text: string): TextLine[] {
  if (/\.tsx?$/.test(file)) return commentsOf(text);
  if (file.endsWith('.md')) return pageLines(text);
  if (/\.ya?ml$/.test(file) || isShell(file, text)) return hashComments(text);
  return [];
}

/** Sentences that begin with what should come later, or with a relative pronoun. */
const OPENING = /(?:^|[.!?](?:\*\*)?\s+|^\s*(?:[-*]\s+)?)(Of|Whoever|Whose)\s/;

/**
 * Lines of a page that cannot be broken: rows of tables, links, and a line that is one piece of
 * code.
 */
const UNBREAKABLE = /^\s*\||\]\(|https?:|^\s*`[^`]*`$/;

/** Files named in a text: a path from a folder of the tree, or a bare name. */
const NAMED_PATH =
  /(?<![\w/.-])((?:src|test|scripts|systemd|profiles|lab|images|bench|docs|torture)\/[\w./-]*\.(?:ts|md|sh|pl|yaml|json|py|txt))(?![\w-])/g;
const NAMED_FILE = /(?<![\w/.$-])`?([\w-]+(?:\.[\w-]+)*\.(?:ts|sh|pl))(?![\w-])/g;
const DECISION = /\b[Dd]ecisions?[ /]+(?:0*)(\d{1,4})\b/g;
/**
 * A section of a note of ours, as in "some" + "-note §B.4"; sections of RFCs have a number instead.
 */
const LOOSE_SECTION = /\b[a-z]+-[a-z-]+(?: §|, section )[\dA-Z]/;

/**
 * Checks one file. `tracked` are the paths of all files of the tree.
 * @returns every breach of the rules above, in the order of lines.
 */
export function proseFaults(file: string, text: string, tracked: readonly string[]): ProseFault[] {
  const known = new Set(tracked);
  const names = new Set(tracked.map((one) => path.posix.basename(one)));
  const decisions = new Set(
    tracked.flatMap((one) => /^docs\/decisions\/(\d{4})-/.exec(one)?.[1] ?? []).map(Number),
  );
  const faults: ProseFault[] = [];
  const add = (line: number, rule: ProseFault['rule'], found: string): void => {
    faults.push({ file, line, rule, text: found.trim() });
  };
  const lines = proseOf(file, text);
  const before = new Map(lines.map((one) => [one.line, one.text]));
  for (const { line, raw, text: prose } of lines) {
    if (/\.tsx?$/.test(file) && raw.length > WIDTH.comment && !/https?:\/\/\S{40}/.test(raw))
      add(line, 'width', raw);
    if (file.endsWith('.md') && raw.length > WIDTH.markdown && !UNBREAKABLE.test(raw))
      add(line, 'width', raw);
    const opened = OPENING.exec(prose);
    const above = before.get(line - 1)?.trimEnd() ?? '';
    if (opened && (opened.index > 0 || above === '' || /[.!?:]$/.test(above))) add(line, 'opening', prose);
    for (const [, named] of prose.matchAll(NAMED_PATH))
      if (!known.has(named!) && !/\/[A-Z]+\.|\*|NAME/.test(named!)) add(line, 'reference', named!);
    for (const [, named] of prose.matchAll(NAMED_FILE))
      if (!names.has(named!)) add(line, 'reference', named!);
    for (const [, number] of prose.matchAll(DECISION))
      if (!decisions.has(Number(number))) add(line, 'reference', `decision ${number}`);
    if (LOOSE_SECTION.test(prose)) add(line, 'reference', prose);
  }
  if (isShell(file, text))
    for (const [n, raw] of text.split('\n').entries()) if (raw.length > WIDTH.shell) add(n + 1, 'width', raw);
  return faults.sort((a, b) => a.line - b.line);
}
