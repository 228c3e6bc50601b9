/** Wires the listeners that machines use before they have a system: DHCP, TFTP and HTTP. */
import type { InheritedSocket } from '../base/inherited.ts';
import { parseIpv4 } from '../base/ipv4.ts';
import type { Standing } from '../base/limits.server.ts';
import type { ServeOptions } from '../cli/serve/options.ts';
import { render } from '../ignition/render.ts';
import { createAddressOwners } from '../pxe/address-owners.ts';
import { createBootService } from '../pxe/decide/boot-service.ts';
import { startDhcp } from '../pxe/dhcp/dhcp.socket.ts';
import { createGate, createNoteRefusal } from '../pxe/gate.ts';
import { startMachineHttp } from '../pxe/http/machines.server.ts';
import { createKnownAddresses } from '../pxe/known-addresses.ts';
import { followNetworks } from '../pxe/live-networks.ts';
import { startTftp } from '../pxe/tftp/tftp.socket.ts';
import type { Common } from './common.ts';
import type { State } from './state.ts';

/** What the boot service and its listeners use of the state; neither the PKI nor the tokens. */
type BootState = Pick<
  State,
  | 'catalog'
  | 'memberships'
  | 'roster'
  | 'assets'
  | 'events'
  | 'agents'
  | 'consoles'
  | 'leases'
  | 'store'
  | 'releases'
  | 'sightings'
>;

export type Boot = ReturnType<typeof createBoot>;

interface MachineListeners {
  readonly httpPort: number;
  /** How many files and answers are under way. */
  readonly active: () => number;
  readonly closeDhcp: CloseListener;
}

/** Ends a listener; requests under way are answered first. */
export type CloseListener = () => Promise<void>;

/**
 * Makes the boot service. Its listeners open only when `listen` is called: scripts and
 * configurations name the agents' listener, which has to start before.
 */
export function createBoot(
  options: ServeOptions,
  { clock, log, metrics, signal, systemCalls, outside }: Common,
  state: BootState,
  closing: AsyncDisposableStack,
) {
  const { catalog, memberships, roster, assets, events, agents, consoles, leases, store, releases } = state;
  const { sockets } = outside;
  const io = outside.openDatagrams({ env: process.env, log, metrics });
  const networks = followNetworks({
    catalog,
    addresses: outside.addresses,
    interfaces: interfacesOf(sockets),
    preferred: options.bootAddresses.map(({ address }) => address),
    indexOf: outside.indexOf,
    httpPort: options.httpPort,
    ...{ clock, log, signal },
  });
  const known = createKnownAddresses({
    own: () => outside.addresses().map(({ address }) => address),
    catalog,
    clock,
  });
  const gate = createGate({
    networks: networks.served,
    outsiders: known,
    note: createNoteRefusal({ metrics, log, clock }),
  });
  const { subjectOf, standing, leasedAddresses, leaseHolder } = createAddressOwners({
    networks: networks.served,
    leases,
    roster,
    clock,
  });
  /** What the agents' listener asks about addresses, and tells of them. */
  const agentPeers = {
    admits: (address: string): boolean => gate.admits('redeem', address),
    /** Agents also speak from addresses outside of the served subnets. */
    standing(text: string): Standing {
      const [found, address] = [standing(text), parseIpv4(text)];
      if (found !== 'stranger' || address === undefined) return found;
      return known.isAgent(address) || known.isDocumented(address) ? 'machine' : found;
    },
    heard: known.heard,
  };
  const service = createBootService({
    catalog,
    memberships,
    roster,
    assets,
    readAsset: (sha256, at, octets) => assets.octets(sha256, at, octets),
    networks: networks.served,
    render,
    events,
    metrics,
    clock,
    agents,
    consoles,
    leasedAddresses,
    leaseHolder,
    neighbour: outside.neighbour,
    inventories: agents.inventories,
    dataDiskOf: (machine) => releases.of(agents.agentCluster(machine) ?? '')?.machines.get(machine)?.dataDisk,
  });
  closing.defer(() => service.close());

  /** Starts HTTP, TFTP and DHCP. */
  const listen = async (opened: (close: CloseListener) => void): Promise<MachineListeners> => {
    // HTTP starts first, because DHCP replies contain its port.
    const http = await startMachineHttp({
      networks: networks.served,
      boot: service,
      assets,
      events,
      subjectOf,
      admits: (address) => gate.admits('http', address),
      standing,
      cached: systemCalls,
      clock,
      log,
      metrics,
      listen: httpListener(sockets, options.httpPort),
    });
    opened(() => http.close());
    const tftp = await startTftp({
      networks: networks.served,
      assets,
      events,
      subjectOf,
      admits: (address, via) => gate.admits('tftp', address, via),
      clock,
      log,
      metrics,
      signal,
      sockets: tftpSockets(sockets),
      datagrams: io,
    });
    opened(() => tftp.stopped);
    const dhcp = await startDhcp({
      networks: networks.served,
      boot: service,
      leases,
      saw: state.sightings.saw,
      store,
      events,
      clock,
      log,
      metrics,
      sockets,
      datagrams: io.datagrams,
    });
    const active = () => http.active() + tftp.active();
    return { httpPort: http.port, active, closeDhcp: () => dhcp.close() };
  };
  return { service, networks, gate, agentPeers, sockets: sockets.map(({ name }) => name), listen };
}

/** The listening TCP socket that the process inherited, or a port to listen on. */
function httpListener(sockets: readonly InheritedSocket[], port: number) {
  const inherited = sockets.find(({ name }) => name === 'http');
  return inherited ? { fd: inherited.fd } : { host: '0.0.0.0', port };
}

/** Names of the interfaces with inherited sockets: a socket `dhcp-eth1` gives `eth1`. */
function interfacesOf(sockets: readonly InheritedSocket[]): readonly string[] {
  return sockets.flatMap(({ name }) => (name.startsWith('dhcp-') ? [name.slice('dhcp-'.length)] : []));
}

function tftpSockets(sockets: readonly InheritedSocket[]) {
  return sockets.flatMap(({ fd, name }) =>
    name.startsWith('tftp-') ? [{ fd, interface: name.slice('tftp-'.length) }] : [],
  );
}
