/**
 * Finds plain scalars that YAML reads as a number or a boolean with another text than the written
 * one: `1.10` is the number 1.1, and `0755` is 755. Pure.
 */
import { EVENT_ID, type Event, getScalarValue, SCALAR_STYLE } from 'js-yaml';

export interface Written {
  readonly path: readonly (string | number)[];
  /** The text of the scalar. */
  readonly text: string;
}

const NUMBER = /^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+)$/;
const CAPITAL_BOOLEAN = /^(?:True|TRUE|False|FALSE)$/;

/** The text of a plain scalar that becomes another text. */
function changedText(text: string, event: Event): string | undefined {
  if (event.type !== EVENT_ID.SCALAR || event.style !== SCALAR_STYLE.PLAIN || event.valueStart < 0)
    return undefined;
  const first = text.charCodeAt(event.valueStart);
  // Most scalars begin with neither "+-." or a digit, nor with T or F.
  if ((first < 0x2b || first > 0x39) && first !== 0x46 && first !== 0x54) return undefined;
  const written = text.slice(event.valueStart, event.valueEnd);
  if (NUMBER.test(written)) return String(Number(written)) === written ? undefined : written;
  return CAPITAL_BOOLEAN.test(written) ? written : undefined;
}

/** The place in a collection at which the next node is. */
interface Open {
  readonly is: 'document' | 'list' | 'mapping';
  step: string | number;
  isKey: boolean;
}

/**
 * The scalars of each document whose text changes, in the order of the text; an alias counts as the
 * scalar that it names only at its anchor. Takes a second pass only for a text that has one.
 */
export function writtenScalars(text: string, events: readonly Event[]): readonly (readonly Written[])[] {
  if (!events.some((event) => changedText(text, event) !== undefined)) return [];
  const documents: Written[][] = [];
  const open: Open[] = [];
  for (const event of events) {
    const here = open.at(-1);
    if (event.type === EVENT_ID.POP) {
      open.pop();
      next(open.at(-1));
    } else if (event.type === EVENT_ID.DOCUMENT) {
      documents.push([]);
      open.push({ is: 'document', step: '', isKey: false });
    } else if (event.type === EVENT_ID.SEQUENCE || event.type === EVENT_ID.MAPPING) {
      const is = event.type === EVENT_ID.SEQUENCE ? 'list' : 'mapping';
      open.push({ is, step: is === 'list' ? 0 : '', isKey: is === 'mapping' });
    } else if (here?.isKey === true) {
      here.step = event.type === EVENT_ID.SCALAR ? getScalarValue(text, event) : '';
      here.isKey = false;
    } else {
      const written = changedText(text, event);
      const path = open.flatMap(({ is, step }) => (is === 'document' ? [] : [step]));
      if (written !== undefined) documents.at(-1)!.push({ path, text: written });
      next(here);
    }
  }
  return documents;
}

/** Steps behind a node that has ended. */
function next(here: Open | undefined): void {
  if (here === undefined) return;
  if (here.is === 'list') here.step = Number(here.step) + 1;
  else if (here.is === 'mapping') here.isKey = !here.isKey;
}
