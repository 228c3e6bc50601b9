/**
 * cloud-init's network-config, version 2 (netplan's format), and the kernel argument that carries
 * it.
 */
import { gzipSync } from 'node:zlib';
import type { Mac } from '../base/mac.ts';
import type { Plain } from '../base/yaml-text.ts';
import type { NodeConfig, NodeInterface } from '../resources/nodeconfig.ts';
import { interfaceName } from './whole.ts';

type Fields = { [key: string]: Plain | undefined };

/**
 * The network part of a configuration. Without one, only the interface that booted asks DHCP, so
 * that a machine does not wait for a dead or foreign segment on another port.
 */
export function networkConfig(
  network: NodeConfig['network'],
  bootMac: Mac,
): { readonly [key: string]: Plain } {
  const interfaces = network?.interfaces ?? [{ mac: bootMac }];
  const ethernets: { [name: string]: Plain } = {};
  for (const [n, one] of interfaces.entries()) ethernets[interfaceName(one, n)] = ethernet(one) as Plain;
  return { version: 2, ethernets };
}

function ethernet(one: NodeInterface): Fields {
  const addresses = one.addresses ?? [];
  const routes = [
    ...(one.gateway === undefined ? [] : [{ to: '0.0.0.0/0', via: one.gateway }]),
    ...(one.gateway6 === undefined ? [] : [{ to: '::/0', via: one.gateway6 }]),
    ...(one.routes ?? []),
  ];
  const nameservers = {
    ...(one.nameservers && { addresses: one.nameservers }),
    ...(one.search && { search: one.search }),
  };
  return {
    ...(one.mac && { match: { macaddress: one.mac } }),
    ...(one.mac && one.name !== undefined && { 'set-name': one.name }),
    dhcp4: one.dhcp4 ?? addresses.length === 0,
    ...(one.acceptRa !== undefined && { 'accept-ra': one.acceptRa }),
    ...(addresses.length > 0 && { addresses }),
    ...(routes.length > 0 && { routes }),
    ...(Object.keys(nameservers).length > 0 && { nameservers }),
    ...(one.mtu !== undefined && { mtu: one.mtu }),
    ...(one.optional && { optional: true }),
  };
}

/**
 * An x86 kernel takes 2048 characters in all (COMMAND_LINE_SIZE); the arguments of image, profile
 * and Muster need some 700 of them.
 */
const MAX_ARGUMENT = 1200;

/**
 * `network-config=`: the document in base64, compressed when that is shorter. cloud-init reads it
 * in its first stage, before any network, and prefers it to every other source
 * (cloudinit/net/cmdline.py, stages.py). Undefined when too long.
 */
export function networkArgument(config: Plain): string | undefined {
  const json = Buffer.from(JSON.stringify(config));
  const packed = json.length > 300 ? gzipSync(json, { level: 9 }) : json;
  const encoded = (packed.length < json.length ? packed : json).toString('base64');
  return encoded.length > MAX_ARGUMENT ? undefined : `network-config=${encoded}`;
}

/**
 * Whether {@link networkArgument} returns an argument. Compresses only when the uncompressed length
 * does not decide.
 */
export const fitsArgument = (config: Plain): boolean =>
  JSON.stringify(config).length < (MAX_ARGUMENT * 3) / 4 - 8 || networkArgument(config) !== undefined;
