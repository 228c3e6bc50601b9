/** Texts about the parts that a machine reports. Pure. */
import type { InventoryView } from '../../api/operations/inventory.ts';

type Disk = InventoryView['disks'][number];
type Card = InventoryView['cards'][number];

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** A size with three digits and its unit: `1.82 TiB`. */
export function sizeText(bytes: number): string {
  const step = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${Number((bytes / 1024 ** step).toPrecision(3))} ${UNITS[step]}`;
}

const listed = (...words: readonly (string | false | undefined)[]): string =>
  words.filter(Boolean).join(', ');

export const diskText = ({ bytes, rotational, transport, model, serial }: Disk): string =>
  listed(
    sizeText(bytes),
    rotational && 'rotating',
    transport,
    model,
    serial !== undefined && `serial ${serial}`,
  );

/** The parts that a machine reports, for a list of facts. */
export const partFacts = ({ processors, memoryBytes, firmware, bmc, disks, cards }: InventoryView) =>
  [
    ['Processors', processors && [processors.threads, processors.model].filter(Boolean).join(' × ')],
    ['Memory', memoryBytes && sizeText(memoryBytes)],
    ['Firmware', Object.values(firmware ?? {}).join(', ')],
    ['BMC', bmc?.address],
    ...disks.map((disk) => [`Disk ${disk.name}`, diskText(disk)] as const),
    ...cards.map((card) => [`Card ${card.name}`, cardText(card)] as const),
  ] as const;

/** Where an inventory comes from, when that is worth a warning. */
export const PLAIN_CLAIM =
  'What follows came from the discovery system over plain HTTP: whoever is on the segment may have written it.';

/** The switch port that LLDP names: `tor-1 port Ethernet7`. */
function neighbourText({ neighbour }: Card): string | undefined {
  if (neighbour === undefined) return undefined;
  const port = neighbour.port ?? neighbour.portDescription;
  return [neighbour.system ?? neighbour.chassis, port && `port ${port}`].filter(Boolean).join(' ');
}

export function cardText(card: Card): string {
  const { mac, link, mbits, driver } = card;
  const neighbour = neighbourText(card);
  const speed =
    mbits === undefined ? '' : mbits >= 1000 ? ` at ${mbits / 1000} Gbit/s` : ` at ${mbits} Mbit/s`;
  return listed(mac, link ? `link${speed}` : 'no link', neighbour && `on ${neighbour}`, driver);
}
