/**
 * The binaries and container images that this boot host serves to cluster machines, with their
 * URLs.
 */
import type { ArtifactBook } from '../artifacts/book.ts';
import { contains, formatIpv4, parseIpv4 } from '../base/ipv4.ts';
import { binaryLines, NO_SUPPLIES, type SuppliesFor } from '../cluster/plan/supplies.ts';
import type { Roster } from '../machines/roster.ts';
import { machinePath } from './http/routes.ts';
import type { ServedNetwork } from './network.ts';

interface SuppliesDeps {
  readonly networks: () => readonly ServedNetwork[];
  readonly roster: Pick<Roster, 'get'>;
  readonly book: Pick<ArtifactBook, 'binary' | 'image'>;
  /** Port of the agents' listener, which also serves the registry. */
  readonly agentPort: () => number | undefined;
}

/**
 * Returns what a machine is supplied with. A machine without an address on a served network gets
 * nothing, because no address is known at which it could reach this host.
 */
export function createSupplies({ networks, roster, book, agentPort }: SuppliesDeps): SuppliesFor {
  return (resolved, machine) => {
    const addresses = machine.addresses.flatMap((text) => parseIpv4(text) ?? []);
    const network = networks().find(({ subnet }) => addresses.some((address) => contains(subnet, address)));
    if (network === undefined) return NO_SUPPLIES;
    const host = formatIpv4(network.serverAddress);
    const port = agentPort();
    const arch = roster.get(machine.name)?.status.seen?.arch ?? 'x86_64';
    const urlOf = (sha256: string, name: string) =>
      `http://${host}:${network.httpPort}${machinePath('asset', { sha256, name })}`;
    return {
      binaries: binaryLines({ resolved, machine, arch, book, urlOf }),
      mirrors: port === undefined ? [] : [`https://${host}:${port}`],
      // Only digests of images that the machine can fetch from here.
      digestOf: (reference) => (port === undefined ? undefined : book.image(reference)?.digest),
    };
  };
}
