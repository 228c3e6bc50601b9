/** The present place as a signal, and how to move. */
import { signal } from '@preact/signals';
import { type Place, readPlace, writePlace } from './route.ts';

export const place = signal<Place>(readPlace(location.hash));

addEventListener('hashchange', () => {
  place.value = readPlace(location.hash);
});

export function go(path: readonly string[], query: Record<string, string | undefined> = {}): void {
  location.hash = writePlace(path, query);
}

/** Changes parts of the query, e.g. a filter. The history gets no step for each letter. */
export function setQuery(change: Readonly<Record<string, string | undefined>>): void {
  const { path, query } = place.peek();
  history.replaceState(null, '', writePlace(path, { ...query, ...change }));
  place.value = readPlace(location.hash);
}
