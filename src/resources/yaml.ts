/**
 * Reads YAML. Every fault has a line and a column, and the time is proportional to the length of
 * the input.
 *
 * js-yaml 5 parses into a flat list of events that point into the text, and builds values from the
 * events. Values are built at once, positions only when something is wrong, so that 10,000 machines
 * load in a fraction of a second. YAML 1.2 core schema, without merge keys and without tags beyond
 * the core ones.
 */
import {
  CORE_SCHEMA,
  constructFromEvents,
  EVENT_ID,
  type Event,
  getScalarValue,
  parseEvents,
  SCALAR_STYLE,
  type Schema,
  YAMLException,
} from 'js-yaml';
import { messageOf } from '../base/error-text.ts';
import type { Fault, SourceSpot } from '../base/errors.ts';
import { conflictAfter, endsConflict, slipIn } from './slips.ts';
import { type Written, writtenScalars } from './yaml-written.ts';

/** Limits for one text. Text beyond them is refused with E_YAML. */
export const YAML_LIMITS = {
  /** Octets of a file. 10,000 machines take about 2.4 MB. */
  bytes: 32 * 1024 * 1024,
  /** Depth of nested collections. The deepest field of a document is at 8. */
  depth: 32,
  /** Number of aliases in a document. */
  aliases: 64,
  /** Number of values that all aliases of a document together expand to. */
  aliasNodes: 10_000,
} as const;

export type Path = readonly (string | number)[];

/** One document of a text as plain values, and the positions in it. */
export interface YamlDocument {
  readonly value: unknown;
  /** Where the document begins. */
  readonly at: SourceSpot;
  /** Numbers and booleans whose text is not the written one. */
  readonly written: readonly Written[];
  /**
   * Position of the value at `path`, or of the nearest enclosing one. With `key`, the position of
   * its key.
   */
  spot(path: Path, what?: 'value' | 'key'): SourceSpot;
}

type YamlResult =
  | { readonly ok: true; readonly documents: readonly YamlDocument[] }
  | {
      readonly ok: false;
      /** The first fault. */
      readonly fault: Fault;
      /** One fault for each document that is not YAML. */
      readonly faults: readonly Fault[];
      /** The other documents of the text. */
      readonly documents: readonly YamlDocument[];
      /** The texts of the documents that are not YAML. */
      readonly broken: readonly string[];
    };

/** After this many documents that are not YAML, the rest of a text is not read. */
const MOST_BROKEN = 100;

/** Decodes UTF-8. Returns a fault when the octets are not UTF-8 or too many. */
export function decodeText(
  bytes: Uint8Array,
  file: string,
): { readonly ok: true; readonly text: string } | { readonly ok: false; readonly fault: Fault } {
  if (bytes.length > YAML_LIMITS.bytes) {
    const message = `${bytes.length} octets; at most ${YAML_LIMITS.bytes} are read. Split the file.`;
    return { ok: false, fault: { code: 'E_YAML', message, at: { file, line: 1, column: 1 } } };
  }
  try {
    return { ok: true, text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch {
    const good = new TextDecoder('utf-8').decode(bytes);
    const at = new Lines(file, good).spot(Math.max(0, good.indexOf('\ufffd')));
    return { ok: false, fault: { code: 'E_YAML', message: 'not UTF-8; save the file as UTF-8', at } };
  }
}

/**
 * Reads all documents of `text`, without empty ones. A document that is not YAML does not hide the
 * others. Never throws. Takes time proportional to the length of the text.
 *
 * @param schema The tags that values may have.
 */
export function readYaml(text: string, file: string, schema: Schema = CORE_SCHEMA): YamlResult {
  const lines = new Lines(file, text);
  if (text.length > YAML_LIMITS.bytes) {
    const fault = yamlFault(new Refused('the text is too long; split the file', 0), lines, text, 0);
    return { ok: false, fault, faults: [fault], documents: [], broken: [] };
  }
  const documents: YamlDocument[] = [];
  const faults: Fault[] = [];
  const broken: string[] = [];
  let inConflict = false;
  for (const [from, to] of chunks(text)) {
    const chunk = text.slice(from, to);
    try {
      for (const { value, root, written } of readChunk(chunk, file, schema)) {
        if (value === null || value === undefined) continue;
        documents.push({
          value,
          written,
          get at() {
            return lines.spot(from + root.start);
          },
          // Parses again: positions are needed only when something is wrong, and keeping the events
          // would cost more memory than everything else.
          spot: (path, what = 'value') => {
            const events = parseEvents(chunk, { filename: file, maxDepth: YAML_LIMITS.depth });
            return lines.spot(from + find(chunk, events, root.index, path, what));
          },
        });
      }
    } catch (error) {
      broken.push(chunk);
      // A conflict of a merge can reach over several documents. It is one fault.
      if (!(inConflict && endsConflict(chunk))) {
        const slip = slipIn(chunk);
        const found = slip ? new Refused(slip.message, slip.offset) : error;
        faults.push(yamlFault(found, lines, chunk, from));
      }
      if (broken.length >= MOST_BROKEN) break;
    }
    inConflict = conflictAfter(chunk, inConflict);
  }
  const [fault] = faults;
  return fault === undefined ? { ok: true, documents } : { ok: false, fault, faults, documents, broken };
}

/**
 * Splits a text into pieces that can be parsed one by one. A line that begins with `---` always
 * begins a document (YAML 1.2.2, section 9.1.2, c-forbidden), together with the directives before
 * it, which affect only that document. Parsed as one piece, the events of 10,000 machines cost the
 * garbage collector more time than the parser takes.
 */
function chunks(text: string): readonly (readonly [number, number])[] {
  const cuts: [number, number][] = [];
  let from = 0;
  for (const { index } of text.matchAll(/^(?:%[^\n]*\n(?:[ \t]*(?:#[^\n]*)?\n)*)*---(?=\s)/gm)) {
    if (index > from) cuts.push([from, index]);
    from = index;
  }
  cuts.push([from, text.length]);
  return cuts;
}

/**
 * Parses the documents of a piece. `root` is the root node of each: index of its event and offset
 * in the piece.
 */
function readChunk(chunk: string, file: string, schema: Schema) {
  const events = parseEvents(chunk, { filename: file, maxDepth: YAML_LIMITS.depth });
  refuseAliasBombs(chunk, events);
  const values = constructFromEvents(events, {
    source: chunk,
    filename: file,
    schema,
    maxAliases: YAML_LIMITS.aliases,
  });
  const written = writtenScalars(chunk, events);
  const found: (Pick<YamlDocument, 'value' | 'written'> & { root: { index: number; start: number } })[] = [];
  for (let n = 0; n < events.length && found.length < values.length; n++)
    if (events[n]!.type === EVENT_ID.DOCUMENT)
      found.push({
        value: values[found.length],
        written: written[found.length] ?? [],
        root: { index: n + 1, start: startOf(events[n + 1]!) },
      });
  return found;
}

class Refused extends Error {
  readonly offset: number;
  constructor(message: string, offset: number) {
    super(message);
    this.offset = offset;
  }
}

/** `from`: the offset of the piece in the whole text. */
function yamlFault(error: unknown, lines: Lines, chunk: string, from: number): Fault {
  if (error instanceof YAMLException && error.mark) {
    const reason = error.reason.replace(/ \(.*\)$/s, '');
    // What is missing at the end of a document is reported at its last line with a text.
    const last = Math.max(0, chunk.trimEnd().length - 1);
    // So is what is not closed: the parser notices at the next line that is indented less.
    const isOpen = reason === 'deficient indentation';
    const seen = isOpen ? chunk.slice(0, error.mark.position).trimEnd().length - 1 : error.mark.position;
    const at = lines.spot(from + Math.max(0, Math.min(seen, last)));
    return { code: 'E_YAML', message: hintOf(reason), at };
  }
  const offset = error instanceof Refused ? error.offset : 0;
  const message = messageOf(error);
  return { code: 'E_YAML', message, at: lines.spot(from + offset) };
}

function hintOf(reason: string): string {
  const [, alias] = /^unidentified alias "(.*)"$/s.exec(reason) ?? [];
  if (alias !== undefined)
    return `no anchor "&${alias}" comes before this alias in the same document; an anchor of another document is not known here, so write the value out`;
  return YAML_HINTS[reason] ?? reason;
}

/** Clearer texts for some messages of the parser. */
const YAML_HINTS: Readonly<Record<string, string>> = {
  'duplicated mapping key': 'this key is listed twice in the same mapping; keep one',
  'tab characters must not be used in indentation': 'tabs indent this line; YAML takes only blanks',
  'null byte is not allowed in input': 'a NUL octet; this is not a text file',
  'deficient indentation':
    'indented too little, or something opened above with a quote, "[" or "{" is not closed',
  'bad indentation of a mapping entry': 'bad indentation, or a text with ": " or " #" that needs quotes',
  'unexpected end of the stream within a flow collection':
    'the document ends here, and a "[" or "{" that was opened above is not closed',
  'unexpected end of the stream within a double quoted scalar':
    'the document ends here, and a text that began with " is not closed',
  'unexpected end of the stream within a single quoted scalar':
    "the document ends here, and a text that began with ' is not closed",
  'nesting exceeded maxDepth': `nested more than ${YAML_LIMITS.depth} levels deep, which no document is`,
};

/**
 * An alias costs nothing until the value is walked, and then as much as everything that it expands
 * to: nine levels of nine aliases are 387 million values. Counts the values that every anchor
 * expands to, and refuses aliases that contain themselves or together exceed the limit.
 */
function refuseAliasBombs(text: string, events: readonly Event[]): void {
  if (!events.some((event) => event.type === EVENT_ID.ALIAS)) return;
  const open: { anchor: string; size: number }[] = [];
  const sizes = new Map<string, number>();
  let expanded = 0;
  const add = (size: number) => {
    const parent = open.at(-1);
    if (parent) parent.size += size;
  };
  for (const event of events) {
    if (event.type === EVENT_ID.DOCUMENT) {
      sizes.clear();
      expanded = 0;
      open.push({ anchor: '', size: 0 });
    } else if (event.type === EVENT_ID.ALIAS) {
      const name = text.slice(event.anchorStart, event.anchorEnd);
      if (open.some((node) => node.anchor === name))
        throw new Refused(`alias "${name}" contains itself`, event.anchorStart - 1);
      const size = sizes.get(name) ?? 1;
      expanded += size;
      if (expanded > YAML_LIMITS.aliasNodes)
        throw new Refused(
          `the aliases expand to more than ${YAML_LIMITS.aliasNodes} values`,
          event.anchorStart - 1,
        );
      add(size);
    } else if (event.type === EVENT_ID.POP) {
      const closed = open.pop()!;
      if (closed.anchor) sizes.set(closed.anchor, closed.size);
      add(closed.size);
    } else {
      const anchor = event.anchorStart < 0 ? '' : text.slice(event.anchorStart, event.anchorEnd);
      if (event.type === EVENT_ID.SCALAR) {
        if (anchor) sizes.set(anchor, 1);
        add(1);
      } else open.push({ anchor, size: 1 });
    }
  }
}

/**
 * Offset of the node at `path` below the node at `root`, or of the last node on the path that
 * exists.
 */
function find(
  text: string,
  events: readonly Event[],
  root: number,
  path: Path,
  what: 'value' | 'key',
): number {
  let node = root;
  let offset = startOf(events[node]!);
  for (let step = 0; step < path.length; step++) {
    const event = events[node]!;
    const last = step === path.length - 1;
    if (event.type === EVENT_ID.SEQUENCE) {
      let child = node + 1;
      for (let n = 0; n < Number(path[step]) && events[child]?.type !== EVENT_ID.POP; n++)
        child = after(events, child);
      if (events[child] === undefined || events[child]!.type === EVENT_ID.POP) return offset;
      node = child;
      offset = startOf(events[node]!);
    } else if (event.type === EVENT_ID.MAPPING) {
      const key = findKey(text, events, node, String(path[step]));
      if (key < 0) return offset;
      node = after(events, key);
      const value = events[node]!;
      offset = startOf(
        (last && what === 'key') || isBlockText(value) || isEmpty(value) ? events[key]! : value,
      );
    } else return offset;
  }
  return offset;
}

function findKey(text: string, events: readonly Event[], mapping: number, name: string): number {
  for (let at = mapping + 1; at < events.length && events[at]!.type !== EVENT_ID.POP; ) {
    const key = events[at]!;
    if (key.type === EVENT_ID.SCALAR && getScalarValue(text, key) === name) return at;
    at = after(events, after(events, at));
  }
  return -1;
}

/** Index of the event that follows the node at `at`. */
function after(events: readonly Event[], at: number): number {
  let depth = 0;
  for (let i = at; i < events.length; i++) {
    const type = events[i]!.type;
    if (type === EVENT_ID.MAPPING || type === EVENT_ID.SEQUENCE) depth++;
    else if (type === EVENT_ID.POP) depth--;
    if (depth <= 0) return i + 1;
  }
  return events.length;
}

function isBlockText(event: Event): boolean {
  return (
    event.type === EVENT_ID.SCALAR &&
    (event.style === SCALAR_STYLE.LITERAL_BLOCK || event.style === SCALAR_STYLE.FOLDED_BLOCK)
  );
}

const isEmpty = (event: Event): boolean => event.type === EVENT_ID.SCALAR && event.valueStart < 0;

function startOf(event: Event): number {
  if (event.type === EVENT_ID.DOCUMENT || event.type === EVENT_ID.POP) return 0;
  if (event.type === EVENT_ID.ALIAS) return Math.max(0, event.anchorStart - 1);
  if (event.tagStart >= 0) return event.tagStart;
  if (event.anchorStart >= 0) return event.anchorStart - 1;
  if (event.type !== EVENT_ID.SCALAR) return Math.max(0, event.start);
  const quoted = event.style === SCALAR_STYLE.SINGLE_QUOTED || event.style === SCALAR_STYLE.DOUBLE_QUOTED;
  return Math.max(0, quoted ? event.valueStart - 1 : event.valueStart);
}

/**
 * Converts offsets to lines and columns, counted from 1; columns count UTF-16 units. The table of
 * lines is built at the first use.
 */
class Lines {
  readonly #file: string;
  readonly #text: string;
  #starts: readonly number[] | undefined;

  constructor(file: string, text: string) {
    this.#file = file;
    this.#text = text;
  }

  spot(offset: number): SourceSpot {
    this.#starts ??= lineStarts(this.#text);
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#starts[middle]! <= offset) low = middle;
      else high = middle - 1;
    }
    return { file: this.#file, line: low + 1, column: offset - this.#starts[low]! + 1 };
  }
}

function lineStarts(text: string): number[] {
  const starts = [0];
  for (const found of text.matchAll(/\r\n|\n|\r/g)) starts.push(found.index + found[0].length);
  return starts;
}
