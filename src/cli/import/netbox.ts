/**
 * Machines from NetBox: what its REST API says of devices, their interfaces and addresses. The
 * fields are those of its serializers (`dcim/api`) from 3.5 to 4.5. Pure.
 */
import { z } from 'zod';
import { parseMac } from '../../base/mac.ts';
import type { Draft } from './csv.ts';

const named = z.looseObject({ name: z.string(), slug: z.string().optional() }).nullish();
const address = z.looseObject({ address: z.string() }).nullish();

/** A device: `/api/dcim/devices/`. */
export const netboxDevice = z.looseObject({
  id: z.int(),
  name: z.string().nullable(),
  serial: z.string().nullish(),
  site: named,
  location: named,
  rack: named,
  position: z.number().nullish(),
  status: z.looseObject({ value: z.string() }).nullish(),
  primary_ip4: address,
  oob_ip: address,
});
export type NetboxDevice = z.output<typeof netboxDevice>;

const macAddress = z.looseObject({ mac_address: z.string() });

/** An interface: `/api/dcim/interfaces/`. Since 4.2 it may have several hardware addresses. */
export const netboxInterface = z.looseObject({
  id: z.int(),
  device: z.looseObject({ id: z.int() }),
  name: z.string(),
  type: z.looseObject({ value: z.string() }).nullish(),
  mgmt_only: z.boolean().nullish(),
  mac_address: z.string().nullish(),
  mac_addresses: z.array(macAddress).nullish(),
});
export type NetboxInterface = z.output<typeof netboxInterface>;

/** Interfaces that are not cards. */
const MADE = new Set(['virtual', 'bridge', 'lag']);

/** NetBox writes addresses with the length of their network. */
const plain = (text: string): string => text.replace(/\/.*$/, '');

const macsOf = ({ mac_address, mac_addresses }: NetboxInterface): readonly string[] =>
  [...(mac_address ? [mac_address] : []), ...(mac_addresses ?? []).map((one) => one.mac_address)].flatMap(
    (text) => parseMac(text) ?? [],
  );

interface Options {
  /** Takes the address of the BMC over. */
  readonly bmc: boolean;
  readonly profile?: string;
}

/**
 * Makes Machine documents. Devices without a name, without a hardware address, or that are being
 * decommissioned make none; each is a note. The labels `site`, `room`, `rack` and `unit` are those
 * by which the page draws racks, and `netbox` is the number of the device.
 */
export function machinesFromNetbox(
  devices: readonly NetboxDevice[],
  interfaces: readonly NetboxInterface[],
  { bmc, profile }: Options,
): { readonly documents: readonly Draft[]; readonly notes: readonly string[] } {
  const cards = Map.groupBy(
    interfaces.filter(({ mgmt_only, type }) => !mgmt_only && !MADE.has(type?.value ?? '')),
    ({ device }) => device.id,
  );
  const notes: string[] = [];
  const documents = devices.flatMap((device): readonly Draft[] => {
    const called = device.name === null ? `device ${device.id}` : device.name;
    const macs = [...new Set((cards.get(device.id) ?? []).flatMap(macsOf))];
    const why =
      device.name === null
        ? 'it has no name'
        : device.status?.value === 'decommissioning'
          ? 'it is being decommissioned'
          : macs.length === 0
            ? 'no interface of it has a hardware address'
            : undefined;
    if (why !== undefined || device.name === null) {
      notes.push(`${called} makes no Machine: ${why}`);
      return [];
    }
    const name = device.name.toLowerCase();
    const { site, location, rack, position, serial, primary_ip4, oob_ip } = device;
    const labels = {
      netbox: String(device.id),
      ...(site && { site: site.slug ?? site.name }),
      ...(location && { room: location.slug ?? location.name }),
      ...(rack && { rack: rack.name }),
      ...(position != null && { unit: String(position) }),
    };
    return [
      {
        apiVersion: 'muster/v1',
        kind: 'Machine',
        metadata: { name, labels },
        spec: {
          macs,
          ...(serial && { serial }),
          ...(profile !== undefined && { profile }),
          ...(primary_ip4 && { addresses: [plain(primary_ip4.address)] }),
          ...(bmc && oob_ip && { bmc: { address: plain(oob_ip.address) } }),
        },
      },
    ];
  });
  return { documents, notes };
}

/** A Machine as the server has it. */
interface Present {
  readonly metadata: {
    readonly name: string;
    readonly labels?: Readonly<Record<string, string>> | undefined;
  };
  readonly spec?: object | undefined;
}

/**
 * Lays what NetBox says over the documents that the server has: fields and labels that NetBox does
 * not know stay. A device that was renamed keeps its document, found by the label `netbox`.
 */
export function overPresent(
  documents: readonly Draft[],
  present: readonly Present[],
): { readonly documents: readonly Draft[]; readonly notes: readonly string[] } {
  const written = present.filter(({ spec }) => spec !== undefined);
  const byName = new Map(written.map((one) => [one.metadata.name, one]));
  const byDevice = new Map(
    written.flatMap((one) => {
      const id = one.metadata.labels?.netbox;
      return id === undefined ? [] : [[id, one] as const];
    }),
  );
  const notes: string[] = [];
  const known = new Set<string | undefined>();
  const merged = documents.map((draft): Draft => {
    const id = draft.metadata.labels?.netbox;
    known.add(id);
    const before = (id === undefined ? undefined : byDevice.get(id)) ?? byName.get(draft.metadata.name);
    if (before === undefined) return draft;
    const { name } = before.metadata;
    if (name !== draft.metadata.name)
      notes.push(`${draft.metadata.name} is Machine ${name} here, and keeps this name`);
    const { bmc = {}, ...spec } = before.spec as { readonly bmc?: object };
    const said = draft.spec as { readonly bmc?: object };
    const both = { ...bmc, ...said.bmc };
    return {
      ...draft,
      metadata: { name, labels: { ...before.metadata.labels, ...draft.metadata.labels } },
      spec: { ...spec, ...said, ...(Object.keys(both).length > 0 && { bmc: both }) },
    };
  });
  for (const [id, { metadata }] of byDevice)
    if (!known.has(id))
      notes.push(`Machine ${metadata.name} is device ${id}, which is not among those that NetBox listed`);
  return { documents: merged, notes };
}
