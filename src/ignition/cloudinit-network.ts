/**
 * cloud-init's network-config, version 2 (netplan's format), and the kernel argument that carries
 * it.
 */
import { gzipSync } from 'node:zlib';
import type { Mac } from '../base/mac.ts';
import type { Plain } from '../base/yaml-text.ts';
import { isMade, type NodeInterface } from '../resources/node-network.ts';
import type { CloudInitBehaviour } from './cloudinit-versions.ts';
import { gatewayOnLink, linkName } from './links.ts';

type Fields = { [key: string]: Plain | undefined };

type Interfaces = readonly NodeInterface[];

/**
 * The network part of a configuration. Without one, only the interface that booted asks DHCP, so
 * that a machine does not wait for a dead or foreign segment on another port.
 */
export function networkConfig(
  interfaces: Interfaces | undefined,
  bootMac: Mac,
  behaviour: CloudInitBehaviour,
): { readonly [key: string]: Plain } {
  const ethernets: { [name: string]: Plain } = {};
  for (const [n, one] of (interfaces ?? [{ mac: bootMac }]).entries())
    ethernets[linkName(one, n)] = ethernet(one, behaviour) as Plain;
  return { version: 2, ethernets };
}

/**
 * Whether Muster has to write the files of networkd itself, because this version's renderer for
 * networkd drops something that the interfaces say.
 */
export const needsOwnFiles = (interfaces: Interfaces, behaviour: CloudInitBehaviour): boolean =>
  interfaces.some(
    (one) =>
      isMade(one) ||
      OWN_FIELDS.some((field) => one[field] !== undefined) ||
      (!behaviour.rendersAcceptRa && one.acceptRa !== undefined) ||
      [one.gateway, one.gateway6].some((gateway) => gateway !== undefined && gatewayOnLink(one, gateway)) ||
      one.routes?.some(
        (route) => route.via === undefined || ROUTE_FIELDS.some((field) => route[field] !== undefined),
      ),
  );

/** Fields that cloud-init has no word for, or that its renderer for networkd passes over. */
const OWN_FIELDS = ['dhcp6', 'fromDhcp', 'fromRa', 'linkLocal', 'metric', 'rules'] as const;
const ROUTE_FIELDS = ['onLink', 'metric', 'table', 'source'] as const;

/**
 * The network with which a machine fetches its configuration when Muster writes the files of the
 * final one: only the interface that booted asks DHCP, as its firmware did, also where it becomes
 * a member of a bond. cloud-init gives interfaces their names already here.
 */
export function bootNetwork(interfaces: Interfaces, bootMac: Mac): Interfaces {
  const renamed = interfaces.flatMap(({ mac, name, ...one }) =>
    mac !== undefined && name !== undefined && !isMade(one) ? [{ mac, name }] : [],
  );
  const booted = renamed.find(({ mac }) => mac === bootMac);
  return [
    { ...(booted ?? { mac: bootMac }), dhcp4: true },
    ...renamed.filter((one) => one !== booted).map((one) => ({ ...one, dhcp4: false, optional: true })),
  ];
}

function ethernet(one: NodeInterface, behaviour: CloudInitBehaviour): Fields {
  const addresses = one.addresses ?? [];
  const routes = [
    ...(one.gateway === undefined ? [] : [{ to: '0.0.0.0/0', via: one.gateway }]),
    ...(one.gateway6 === undefined ? [] : [{ to: '::/0', via: one.gateway6 }]),
    ...(one.routes ?? []).map(({ to, via }) => ({ to, via: via! })),
  ].flatMap((route) => (route.to === '::/0' ? halves(route, behaviour) : [route]));
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

/** All of IPv6 as one route, or as two halves where cloud-init would make `::/64` of it. */
const halves = (route: { to: string; via: string }, { defaultRouteIpv6 }: CloudInitBehaviour) =>
  defaultRouteIpv6 ? [route] : ['::/1', '8000::/1'].map((to) => ({ ...route, to }));

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
