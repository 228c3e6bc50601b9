/** Prints what machines report of their parts. */
import type { Answer } from '../../api/operations.ts';
import { type Column, sizeText } from '../output.ts';
import { timeText } from '../times.ts';

type InventoryView = Answer<'GET /v1/inventory'>['items'][number];

const diskText = ({ name, bytes, serial, model, transport }: InventoryView['disks'][number]): string =>
  [name, sizeText(bytes), transport, model, serial && `serial ${serial}`].filter(Boolean).join(', ');

function cardText({ name, mac, link, mbits, driver, neighbour }: InventoryView['cards'][number]): string {
  const speed = mbits === undefined ? '' : ` at ${mbits} Mbit/s`;
  const other =
    neighbour && [neighbour.system ?? neighbour.chassis, neighbour.port].filter(Boolean).join(' port ');
  return [name, mac, link ? `link${speed}` : 'no link', driver, other && `on ${other}`]
    .filter(Boolean)
    .join(', ');
}

export const INVENTORY_COLUMNS: readonly Column<InventoryView>[] = [
  { heading: 'MACHINE', cell: ({ machine }) => machine },
  { heading: 'FROM', cell: ({ from }) => from },
  { heading: 'CPUS', cell: ({ processors }) => (processors ? String(processors.threads) : undefined) },
  {
    heading: 'MEMORY',
    cell: ({ memoryBytes }) => (memoryBytes === undefined ? undefined : sizeText(memoryBytes)),
  },
  {
    heading: 'DISKS',
    cell: ({ disks }) =>
      disks.map(({ name, bytes }) => `${name}:${sizeText(bytes).replace(' ', '')}`).join(' '),
  },
  { heading: 'LINKS', cell: ({ cards }) => `${cards.filter(({ link }) => link).length}/${cards.length}` },
  { heading: 'PRODUCT', cell: ({ system }) => system?.product },
  { heading: 'SERIAL', wide: true, cell: ({ system }) => system?.serial },
  { heading: 'FIRMWARE', wide: true, cell: ({ firmware }) => firmware?.version },
  { heading: 'BMC', wide: true, cell: ({ bmc }) => bmc?.address },
  { heading: 'CHANGED', wide: true, cell: ({ changedAt }) => timeText(changedAt) },
];

/** Everything about one machine, a line for each part. */
export function inventoryText(view: InventoryView): string {
  const { machine, changedAt, from, system, firmware, processors, memoryBytes, bmc, disks, cards } = view;
  const { missing = [] } = view;
  const rows: readonly (readonly [string, string | undefined])[] = [
    [
      'system',
      [system?.manufacturer, system?.product, system?.serial && `serial ${system.serial}`]
        .filter(Boolean)
        .join(', '),
    ],
    ['firmware', [firmware?.vendor, firmware?.version, firmware?.date].filter(Boolean).join(', ')],
    ['processors', processors && [`${processors.threads}`, processors.model].filter(Boolean).join(' × ')],
    ['memory', memoryBytes === undefined ? undefined : sizeText(memoryBytes)],
    ['bmc', bmc?.address],
    ...disks.map((disk) => ['disk', diskText(disk)] as const),
    ...cards.map((card) => ['card', cardText(card)] as const),
    ...missing.map(({ part, text }) => ['missing', `${part}: ${text}`] as const),
  ];
  const lines = rows.filter(([, text]) => text).map(([name, text]) => `  ${name.padEnd(10)}  ${text}`);
  const claim =
    from === 'discovery'
      ? ['  It said so over plain HTTP, in the discovery system; nobody has confirmed it.']
      : [];
  const since = `${machine}, as it reports itself since ${timeText(changedAt)}`;
  return [since, ...claim, ...lines, ''].join('\n');
}
