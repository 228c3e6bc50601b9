/** Documents of one cluster: a network, an image, a profile, three control planes, and workers. */
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { formatIpv4, type Ipv4, ipv4 } from '../../base/ipv4.ts';
import type { MachineOrder } from './machine.socket.ts';

export const CLUSTER = 'rack';
/** The boot host's address on the machines' network. */
export const SERVER = '10.92.0.1';
/** Control planes, each with a member of etcd. */
export const MEMBERS = 3;
/** Addresses of machines begin after it; {@link MACHINE_ADDRESSES} has all of them. */
const BEFORE_FIRST = ipv4('10.92.64.0');
export const MACHINE_ADDRESSES = '10.92.64.0/18';
/** As many machines have an address there. */
export const MOST_MACHINES = 16_000;

/** Name of the n-th machine: three control planes, then workers. */
export function orderOf(n: number): MachineOrder {
  return {
    name: n < MEMBERS ? `cp${n + 1}` : `worker-${n - MEMBERS + 1}`,
    mac: (0x02_00_5c_00_00_00 + n).toString(16).padStart(12, '0').match(/../g)!.join(':'),
    address: formatIpv4((BEFORE_FIRST + n + 1) as Ipv4),
  };
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
/** The files of the image, a few octets each; large files are measured elsewhere. */
const IMAGE = ['kernel', 'initrd', 'root'] as const;

const USER = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBenchBenchBenchBenchBenchBenchBenchBenchBen ops';

/**
 * Writes the documents into directory `config`, and the image's files into the asset store in
 * `state`.
 *
 * @param stranger a machine without a document; its address is the only one of the network's pool,
 *   and the image is its discovery system, too
 */
export function writeDocuments(
  config: string,
  machines: readonly MachineOrder[],
  state: string,
  stranger?: MachineOrder,
): void {
  const assets = join(state, 'assets/sha256');
  for (const directory of [config, assets]) mkdirSync(directory, { recursive: true });
  for (const text of IMAGE) writeFileSync(join(assets, sha256(text)), text);
  // JSON is YAML.
  const texts = documentsOf(machines, stranger).map((one) =>
    JSON.stringify({ apiVersion: 'muster/v1', ...one }),
  );
  writeFileSync(join(config, 'all.yaml'), texts.map((text) => `--- ${text}\n`).join(''));
}

function documentsOf(
  machines: readonly MachineOrder[],
  stranger: MachineOrder | undefined,
): readonly object[] {
  const names = machines.map(({ name }) => name);
  const [kernel, initrd, root] = IMAGE.map((text) => ({ sha256: sha256(text) }));
  const rack = {
    ...(stranger && { discovery: { image: 'debian' } }),
    subnet: '10.92.0.0/16',
    gateway: '10.92.0.254',
    dns: [SERVER],
    dhcp: stranger
      ? // A probe would find the address in use: all are local in the machines' namespace.
        { mode: 'server', pools: [{ start: stranger.address, end: stranger.address }], probe: 'off' }
      : { mode: 'reservations' },
  };
  const debian = {
    os: 'debian',
    version: '13',
    arch: 'x86_64',
    kernel,
    initrds: [initrd],
    root,
    configFormat: 'cloud-init',
    cloudInitVersion: '25.1',
  };
  const config = {
    files: [{ path: '/etc/motd', content: 'This is ${machine.name}.\n' }],
    users: [{ name: 'ops', groups: ['sudo'], sshKeys: [USER] }],
  };
  const kubernetes = {
    version: '1.36',
    endpoint: '10.92.0.250',
    // Has room for a /24 for each machine.
    networks: { machines: ['10.92.0.0/16'], pods: ['10.128.0.0/9'] },
    controlPlanes: names.slice(0, MEMBERS),
    workers: names.slice(MEMBERS),
  };
  return [
    { kind: 'Network', metadata: { name: 'rack' }, spec: rack },
    { kind: 'Image', metadata: { name: 'debian' }, spec: debian },
    { kind: 'Profile', metadata: { name: 'node' }, spec: { image: 'debian', config } },
    { kind: 'Cluster', metadata: { name: CLUSTER }, spec: { trust: 'segment', kubernetes } },
    ...machines.map(({ name, mac, address }, n) => ({
      kind: 'Machine',
      metadata: { name },
      spec: {
        macs: [mac],
        profile: 'node',
        addresses: [address],
        ...(n < MEMBERS && { dataDisk: { path: '/dev/vdb' } }),
      },
    })),
  ];
}
