/** The present place as a signal, and how to move. */
import { signal } from '@preact/signals';
import { after } from './clock.ts';
import { type Place, readPlace, writePlace } from './route.ts';

export const place = signal<Place>(readPlace(location.hash));

addEventListener('hashchange', () => {
  place.value = readPlace(location.hash);
});

export function go(path: readonly string[], query: Record<string, string | undefined> = {}): void {
  unwritten = undefined;
  location.hash = writePlace(path, query);
}

/** What the browser's address will be; undefined when it is that already. */
let unwritten: string | undefined;
/** A browser takes milliseconds to write its address, so that is done after the page is drawn. */
const WRITE_AFTER_MS = 50;

/** Changes parts of the query, e.g. a filter. The history gets no step for each letter. */
export function setQuery(change: Readonly<Record<string, string | undefined>>): void {
  const { path, query } = place.peek();
  const waits = unwritten !== undefined;
  unwritten = writePlace(path, { ...query, ...change });
  place.value = readPlace(unwritten);
  if (waits) return;
  const from = location.hash;
  after(WRITE_AFTER_MS, () => {
    // Somebody may have moved on meanwhile.
    if (unwritten !== undefined && location.hash === from) history.replaceState(null, '', unwritten);
    unwritten = undefined;
  });
}
