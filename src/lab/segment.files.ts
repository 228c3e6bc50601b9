/**
 * The rack's network: two bridges, a tap for each card, a packet capture and, if the scenario asks
 * for it, another DHCP server.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { MusterError } from '../base/errors.ts';
import { cidr } from '../base/ipv4.ts';
import { findProgram } from './namespace.files.ts';
import { must, type Running, start } from './process.files.ts';
import type { LabMachine, Scenario } from './scenario.ts';

/** The bridge that Muster serves; also the name of the interface. */
export const MAIN = 'main';
const DEAD = 'dead';
/** Where the BMCs are: the boot host alone reaches it. */
const MANAGEMENT = 'management';

/**
 * The capture's filter: all of DHCP, TFTP and ARP, and the first and last packets of TCP
 * connections, but not the images that the connections transfer.
 */
const CAPTURED = 'udp or arp or icmp or (tcp and tcp[tcpflags] & (tcp-syn|tcp-fin|tcp-rst) != 0)';

/** Makes the bridges, and Muster's address on the main one. */
export async function makeSegments(scenario: Scenario): Promise<void> {
  const { prefix } = cidr(scenario.subnet);
  for (const bridge of [MAIN, DEAD]) {
    await must('ip', 'link', 'add', bridge, 'type', 'bridge', 'forward_delay', '0');
    // A bridge has a carrier only if one of its ports has a carrier, and Muster starts before
    // machines do.
    await must('ip', 'link', 'add', `${bridge}-up`, 'type', 'veth', 'peer', 'name', `${bridge}-end`);
    // The far end is in the same namespace and must not answer ARP for the boot host.
    await must('ip', 'link', 'set', `${bridge}-end`, 'arp', 'off', 'up');
    await must('ip', 'link', 'set', `${bridge}-up`, 'master', bridge, 'up');
    await must('ip', 'link', 'set', bridge, 'up');
  }
  await must('ip', 'addr', 'add', `${scenario.bootHost}/${prefix}`, 'dev', MAIN);
  const bmcs = scenario.machines.flatMap(({ bmc }) => bmc?.address ?? []);
  if (bmcs.length === 0) return;
  await must('ip', 'link', 'add', MANAGEMENT, 'type', 'bridge');
  await must('ip', 'link', 'set', MANAGEMENT, 'up');
  for (const address of bmcs) await must('ip', 'addr', 'add', `${address}/24`, 'dev', MANAGEMENT);
}

/** Makes a tap for each card of the machine; resolves with their names, in order. */
export async function makeTaps(machine: LabMachine, number: number): Promise<string[]> {
  const taps = machine.nics.map((_, index) => `tap${number}n${index}`);
  for (const [index, tap] of taps.entries()) {
    await must('ip', 'tuntap', 'add', tap, 'mode', 'tap');
    const bridge = machine.nics[index]!.segment === 'main' ? MAIN : DEAD;
    await must('ip', 'link', 'set', tap, 'master', bridge, 'up');
  }
  return taps;
}

/**
 * Captures the main segment into `file` until the capture is stopped.
 *
 * @throws {MusterError} E_LAB_TOOL when tcpdump is missing.
 */
export async function capture(file: string, log: string): Promise<Running> {
  const program = findProgram('tcpdump');
  if (!program) throw new MusterError('E_LAB_TOOL', 'tcpdump is missing; the rack needs it');
  // -Z root: a user namespace has no other user to which tcpdump could switch.
  return await start(
    'tcpdump',
    [program, '-i', MAIN, '-U', '-n', '-Z', 'root', '-w', file, ...CAPTURED.split(' ')],
    { log },
  );
}

/** Starts an IPv6 router without routes or addresses, so that iPXE does not wait for one. */
export async function startRouter(project: string, log: string): Promise<Running> {
  return await start('router', ['perl', join(project, 'src/lab/router.pl'), MAIN], { log });
}

/**
 * Starts dnsmasq in a network namespace of its own, as the DHCP server that a site already has.
 *
 * @throws {MusterError} E_LAB_TOOL when dnsmasq is missing.
 */
export async function startDnsmasq(
  scenario: Scenario,
  places: { readonly project: string; readonly directory: string },
): Promise<Running> {
  const { dnsmasq, subnet } = scenario;
  const unpacked = join(places.project, '.cache/peers/dnsmasq-base');
  const program = existsSync(join(unpacked, 'usr/sbin/dnsmasq'))
    ? join(unpacked, 'usr/sbin/dnsmasq')
    : findProgram('dnsmasq');
  if (!program || !dnsmasq)
    throw new MusterError('E_LAB_TOOL', 'dnsmasq is missing; run scripts/packages.sh install');
  const { prefix } = cidr(subnet);
  await must('ip', 'netns', 'add', 'beside');
  await must('ip', 'link', 'add', 'beside', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', 'beside');
  await must('ip', 'link', 'set', 'beside', 'master', MAIN, 'up');
  await must('ip', '-n', 'beside', 'addr', 'add', `${dnsmasq.address}/${prefix}`, 'dev', 'eth0');
  await must('ip', '-n', 'beside', 'link', 'set', 'eth0', 'up');
  await must('ip', '-n', 'beside', 'link', 'set', 'lo', 'up');
  // --no-daemon also keeps dnsmasq from switching to another user; a user namespace has none.
  const libraries = [join(unpacked, 'usr/lib/x86_64-linux-gnu'), join(unpacked, 'lib/x86_64-linux-gnu')];
  return await start(
    'dnsmasq',
    [
      ...['ip', 'netns', 'exec', 'beside', program, '--no-daemon', '--conf-file=/dev/null'],
      ...['--no-resolv', '--no-hosts', '--port=0', '--interface=eth0', '--bind-interfaces', '--no-ping'],
      ...['--log-dhcp', '--dhcp-authoritative'],
      `--dhcp-leasefile=${join(places.directory, 'dnsmasq.leases')}`,
      `--dhcp-range=${dnsmasq.pool.start},${dnsmasq.pool.end},1h`,
    ],
    { log: join(places.directory, 'dnsmasq.log'), env: { LD_LIBRARY_PATH: libraries.join(':') } },
  );
}
