/** Views that are fetched when somebody opens them, so that the first load stays small. */
import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Loading, ProblemNote } from './note.tsx';

/**
 * Returns a component that fetches another one when it is shown first.
 *
 * @param what what is being loaded, for people
 * @example
 * late('accounts', () => import('./access.tsx').then(({ AccessView }) => AccessView))
 */
export function late(what: string, load: () => Promise<ComponentType>): ComponentType {
  let known: ComponentType | undefined;
  return function Late() {
    const [View, setView] = useState<ComponentType | undefined>(() => known);
    const [error, setError] = useState<unknown>(undefined);
    useEffect(() => {
      if (known === undefined)
        load().then((loaded) => {
          known = loaded;
          setView(() => loaded);
        }, setError);
    }, []);
    if (View) return <View />;
    return error === undefined ? <Loading what={what} /> : <ProblemNote error={error} />;
  };
}
