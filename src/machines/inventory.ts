/**
 * What a machine is made of, as its agent reports it. It is the machine's claim: a Profile that is
 * selected by it brings no Secrets.
 *
 * The agent writes lines (src/agent/scripts/muster-inventory.sh): `cpu threads N`, `cpu model
 * TEXT`, `memory KIB`, `dmi NAME TEXT`, `disk KEY="VALUE" …` as lsblk prints it, `nic NAME MAC
 * CARRIER MBITS DRIVER`, `bmc ADDRESS`, `lldp JSON` as networkctl prints it, `missing PART TEXT`.
 */
import { z } from 'zod';
import type { Parsed } from '../base/body.ts';
import { fieldsOf, listOf, parsed, textOf } from '../base/foreign-json.ts';
import { parseIpv4 } from '../base/ipv4.ts';
import { type Mac, parseMac } from '../base/mac.ts';
import { printable } from './identity.ts';

const disk = z.strictObject({
  name: z.string().meta({ description: 'As the kernel of this boot named it.' }),
  bytes: z.int(),
  rotational: z.boolean(),
  transport: z.string().optional().meta({ description: '`nvme`, `sata`, `sas`, `usb` …' }),
  serial: z.string().optional(),
  wwn: z.string().optional(),
  model: z.string().optional(),
});
export type InventoryDisk = Parsed<z.output<typeof disk>>;

const neighbour = z.strictObject({
  system: z.string().optional(),
  chassis: z.string().optional(),
  port: z.string().optional(),
  portDescription: z.string().optional(),
});
export type Neighbour = Parsed<z.output<typeof neighbour>>;

const card = z.strictObject({
  name: z.string(),
  mac: z.string() as unknown as z.ZodType<Mac>,
  link: z.boolean(),
  mbits: z.int().optional().meta({ description: 'The speed of the link, Mbit/s.' }),
  driver: z.string().optional(),
  neighbour: neighbour.optional().meta({ description: 'What the switch says of itself by LLDP.' }),
});
export type InventoryCard = Parsed<z.output<typeof card>>;

/** The parts of an inventory, as the API shows them as well. */
export const inventoryParts = z.strictObject({
  processors: z.strictObject({ threads: z.int(), model: z.string().optional() }).optional(),
  memoryBytes: z.int().optional(),
  disks: z.array(disk),
  cards: z.array(card),
  system: z
    .strictObject({
      manufacturer: z.string().optional(),
      product: z.string().optional(),
      serial: z.string().optional(),
    })
    .optional(),
  firmware: z
    .strictObject({
      vendor: z.string().optional(),
      version: z.string().optional(),
      date: z.string().optional(),
    })
    .optional(),
  bmc: z.strictObject({ address: z.string() }).optional(),
  missing: z
    .array(z.strictObject({ part: z.string(), text: z.string() }))
    .optional()
    .meta({
      description: 'Parts that the machine could not find out, because a program that it asked did not end.',
    }),
});
export type Inventory = Parsed<z.output<typeof inventoryParts>>;

/** How many octets an inventory may have that is sent to the listener for machines. */
export const MAX_INVENTORY_OCTETS = 32 * 1024;
/** More disks, and more cards, of one machine are not kept. */
export const MAX_PARTS = 64;
const MAX_LENGTH = 64 * 1024;
const MAX_NAME = 32;
const MAX_WORDS = 96;
const MAX_MISSING = 8;

/**
 * Reads the lines of an agent. What is not understood is left out. Never throws.
 *
 * @returns undefined for a text without anything that is understood
 */
export function readInventory(text: string): Inventory | undefined {
  if (text.length > MAX_LENGTH) return undefined;
  const lines = text.split('\n').map((line) => {
    const [kind = ''] = line.split(' ', 1);
    return { kind, rest: line.slice(kind.length + 1).trim() };
  });
  const of = (kind: string): readonly string[] =>
    lines.filter((line) => line.kind === kind).map(({ rest }) => rest);
  const named = (kind: string, name: string): string | undefined =>
    words(
      of(kind)
        .find((rest) => rest.startsWith(`${name} `))
        ?.slice(name.length + 1),
    );
  const threads = whole(named('cpu', 'threads'));
  const model = named('cpu', 'model');
  const memory = whole(of('memory')[0]);
  const system = present({
    manufacturer: named('dmi', 'sys_vendor'),
    product: named('dmi', 'product_name'),
    serial: named('dmi', 'product_serial'),
  });
  const firmware = present({
    vendor: named('dmi', 'bios_vendor'),
    version: named('dmi', 'bios_version'),
    date: named('dmi', 'bios_date'),
  });
  const bmc = of('bmc')[0];
  const missing = of('missing').slice(0, MAX_MISSING).flatMap(missingOf);
  const neighbours = neighboursOf(of('lldp')[0] ?? '');
  const inventory: Inventory = {
    ...(threads !== undefined && { processors: { threads, ...(model !== undefined && { model }) } }),
    ...(memory !== undefined && { memoryBytes: memory * 1024 }),
    disks: of('disk').flatMap(diskOf).slice(0, MAX_PARTS),
    cards: of('nic')
      .flatMap((rest) => cardOf(rest, neighbours))
      .slice(0, MAX_PARTS),
    ...(system && { system }),
    ...(firmware && { firmware }),
    ...(bmc !== undefined && parseIpv4(bmc) !== undefined && bmc !== '0.0.0.0' && { bmc: { address: bmc } }),
    ...(missing.length > 0 && { missing }),
  };
  const empty = inventory.disks.length === 0 && inventory.cards.length === 0;
  return empty && Object.keys(inventory).length === 2 ? undefined : inventory;
}

/** A text for people; undefined when there is none. */
function words(text: string | undefined, length = MAX_WORDS): string | undefined {
  const kept = printable(text ?? '', length).trim();
  return kept === '' ? undefined : kept;
}

function whole(text: string | undefined): number | undefined {
  return /^[0-9]{1,15}$/.test(text ?? '') ? Number(text) : undefined;
}

/** The fields that are there; undefined when none is. */
function present<T extends Readonly<Record<string, string | undefined>>>(
  fields: T,
): { readonly [K in keyof T]?: string } | undefined {
  const kept = Object.entries(fields).filter(([, value]) => value !== undefined);
  return kept.length === 0 ? undefined : (Object.fromEntries(kept) as { readonly [K in keyof T]?: string });
}

function diskOf(rest: string): readonly InventoryDisk[] {
  const fields = new Map(
    [...rest.matchAll(/([A-Z]{1,16})="([^"]{0,256})"/g)].map(([, key, value]) => [key, value]),
  );
  const name = words(fields.get('NAME'), MAX_NAME);
  const bytes = whole(fields.get('SIZE'));
  // Drives without a medium, and memory that the kernel compresses.
  if (name === undefined || bytes === undefined || bytes === 0 || name.startsWith('zram')) return [];
  const more = present({
    transport: words(fields.get('TRAN'), MAX_NAME),
    serial: words(fields.get('SERIAL')),
    wwn: words(fields.get('WWN')),
    model: words(fields.get('MODEL')),
  });
  return [{ name, bytes, rotational: fields.get('ROTA') === '1', ...more }];
}

function missingOf(rest: string): readonly { readonly part: string; readonly text: string }[] {
  const [given = ''] = rest.split(' ', 1);
  const part = words(given, MAX_NAME);
  const text = words(rest.slice(given.length));
  return part === undefined || text === undefined ? [] : [{ part, text }];
}

function cardOf(rest: string, neighbours: ReadonlyMap<string, Neighbour>): readonly InventoryCard[] {
  const [given, address = '', carrier, speed, driver] = rest.split(' ');
  const name = words(given, MAX_NAME);
  const mac = parseMac(address);
  if (name === undefined || mac === undefined) return [];
  const mbits = whole(speed) || undefined;
  const more = present({ driver: words(driver, MAX_NAME) });
  const neighbour = neighbours.get(name);
  return [
    {
      name,
      mac,
      link: carrier === '1',
      ...(mbits !== undefined && { mbits }),
      ...more,
      ...(neighbour && { neighbour }),
    },
  ];
}

/** The first neighbour of each card, from networkctl's JSON. */
function neighboursOf(json: string): ReadonlyMap<string, Neighbour> {
  const found = new Map<string, Neighbour>();
  for (const card of listOf(fieldsOf(parsed(json)).Neighbors).slice(0, MAX_PARTS)) {
    const { InterfaceName, Neighbors } = fieldsOf(card);
    const [first] = listOf(Neighbors);
    const { SystemName, ChassisID, PortID, PortDescription } = fieldsOf(first);
    const neighbour = present({
      system: words(textOf(SystemName)),
      chassis: words(textOf(ChassisID)),
      port: words(textOf(PortID)),
      portDescription: words(textOf(PortDescription)),
    });
    if (neighbour) found.set(textOf(InterfaceName), neighbour);
  }
  return found;
}
