/**
 * BMCs that are recognised by their DHCP packets, in memory. A packet may claim to be of one, so
 * these are shown to people, and lead Muster nowhere.
 */
import { setBounded } from '../base/aged.ts';
import type { Clock } from '../base/clock.ts';
import type { Millis } from '../base/duration.ts';
import type { Mac } from '../base/mac.ts';
import type { Metrics } from '../base/metrics.ts';

interface BmcClass {
  /** How the vendor class (option 60) begins. */
  readonly begins: string;
  readonly vendor: string;
  readonly source: string;
}

/**
 * Vendor classes of BMCs alone. The MAC prefixes of makers are no sign: their machines' own cards
 * have them too. AMI and Supermicro send no class that is known (source of the second row).
 */
export const BMC_CLASSES: readonly BmcClass[] = [
  {
    begins: 'iDRAC',
    vendor: 'Dell iDRAC',
    source: 'Dell, iDRAC9 User\'s Guide: "DHCP options"',
  },
  {
    begins: 'CPQRIB',
    vendor: 'HPE iLO',
    source: 'NVIDIA/infra-controller: crates/machine-a-tron, vendor_class_for',
  },
  {
    begins: 'NVIDIA/BF/BMC',
    vendor: 'NVIDIA BlueField',
    source: 'NVIDIA/infra-controller: crates/machine-a-tron, vendor_class_for',
  },
];

/** The BMCs of one vendor class; undefined: none that is known. */
const vendorOf = (vendorClass: string): string | undefined =>
  BMC_CLASSES.find(({ begins }) => vendorClass.startsWith(begins))?.vendor;

/** A client of DHCP that says it is a BMC. */
export interface Sighting {
  readonly mac: Mac;
  readonly vendor: string;
  /** The Network on which it asked. */
  readonly network: string;
  readonly at: Millis;
}

export interface Sightings {
  /** Takes what a packet says of its client. */
  saw(client: { readonly mac: Mac; readonly vendorClass?: string }, network: string): void;
  list(): readonly Sighting[];
}

/** A site has fewer BMCs in one hall. One more takes the place of the one that was first seen. */
const MOST = 4096;

export function openSightings({
  clock,
  metrics,
}: {
  readonly clock: Pick<Clock, 'now'>;
  readonly metrics: Pick<Metrics, 'add'>;
}): Sightings {
  const seen = new Map<Mac, Sighting>();
  return {
    saw({ mac, vendorClass }, network) {
      const vendor = vendorClass === undefined ? undefined : vendorOf(vendorClass);
      if (vendor === undefined) return;
      if (seen.size >= MOST && !seen.has(mac)) metrics.add('muster_table_dropped_total', { table: 'bmcs' });
      setBounded(seen, mac, { mac, vendor, network, at: clock.now() }, MOST);
    },
    list: () => [...seen.values()],
  };
}
