/**
 * The differences between versions of cloud-init that a boot server must know, from the sources of
 * 22.4.2 (Debian 12) and 25.1.4 (Debian 13) and from cloud-init's issue threads. The newest row
 * that is not newer than the image's version applies.
 *
 * The same in all of them: NoCloud fetches meta-data, user-data and vendor-data (not in every
 * version in this order) without a timeout, and repeats each request up to ten times, a second
 * apart; 404 and 503 count alike. Without meta-data or user-data the machine then boots
 * unconfigured, with instance-id `iid-datasource-none`; a missing vendor-data costs eleven seconds.
 * Therefore all four documents are always served, and the boot script waits until they can be.
 */
export interface CloudInitBehaviour {
  /** The first version with this behaviour. */
  readonly since: string;
  /**
   * Name of the data source on the kernel command line. Before 24.x the name alone says whether the
   * source needs the network: with `nocloud` and a URL, 22.4 takes it for local, and the network
   * stage ends without doing its work (cloudinit/cmd/main.py: "Exiting. datasource in local mode").
   */
  readonly source: 'nocloud-net' | 'nocloud';
  /** Whether network-config is fetched from the URL too (canonical/cloud-init#5603: since 24.3). */
  readonly fetchesNetworkConfig: boolean;
  /**
   * Whether a route to `::/0` becomes one; in older versions it becomes `::/64`
   * (canonical/cloud-init#4600).
   */
  readonly defaultRouteIpv6: boolean;
  /** Whether its renderer for networkd writes `accept-ra` without DHCPv6. */
  readonly rendersAcceptRa: boolean;
  /** Which distribution has the version, and what follows; for readers of this table. */
  readonly note: string;
}

export const CLOUD_INIT_VERSIONS: readonly CloudInitBehaviour[] = [
  {
    since: '22.1',
    source: 'nocloud-net',
    fetchesNetworkConfig: false,
    defaultRouteIpv6: false,
    rendersAcceptRa: false,
    note: 'Debian 12 has 22.4.2. Network configuration only by kernel argument or from a file.',
  },
  {
    since: '23.1',
    source: 'nocloud-net',
    fetchesNetworkConfig: false,
    defaultRouteIpv6: true,
    rendersAcceptRa: false,
    note: 'A default route of IPv6 is written as one.',
  },
  {
    since: '24.3',
    source: 'nocloud',
    fetchesNetworkConfig: true,
    defaultRouteIpv6: true,
    rendersAcceptRa: true,
    note: 'Debian 13 has 25.1.4. network-config is fetched in the network stage: when the network is already up.',
  },
];

/** Assumed when the image names no version. */
const ASSUMED = '22.4';

/** How `version` (e.g. `22.4.2`) behaves; a version older than all rows gets the oldest row. */
export function behaviourOf(version: string = ASSUMED): CloudInitBehaviour {
  const wanted = numbers(version);
  return (
    CLOUD_INIT_VERSIONS.findLast((row) => compare(numbers(row.since), wanted) <= 0) ?? CLOUD_INIT_VERSIONS[0]!
  );
}

const numbers = (version: string): readonly number[] =>
  version.split('.').map((part) => Number.parseInt(part, 10) || 0);

function compare(a: readonly number[], b: readonly number[]): number {
  for (let n = 0; n < Math.max(a.length, b.length); n++) {
    const difference = (a[n] ?? 0) - (b[n] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
