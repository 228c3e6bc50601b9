/** Tabs, which are links: the address says which one is open. */
import { place } from '../base/place.ts';
import { writePlace } from '../base/route.ts';

interface TabsProps {
  readonly label: string;
  /** Key and text of each tab; the first is open when the address names none. */
  readonly tabs: readonly (readonly [string, string])[];
}

export function Tabs({ label, tabs }: TabsProps) {
  const open = openTab(tabs);
  return (
    <nav class="tabs" aria-label={label}>
      <ul>
        {tabs.map(([key, text]) => (
          <li key={key}>
            <a
              href={hrefOf(key === tabs[0]![0] ? undefined : key)}
              aria-current={key === open ? 'page' : undefined}
            >
              {text}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

export const openTab = (tabs: TabsProps['tabs']): string =>
  tabs.find(([key]) => key === place.value.query.tab)?.[0] ?? tabs[0]![0];

const hrefOf = (tab: string | undefined): string => writePlace(place.value.path, { tab });
