/** The schema of Network documents. */
import { z } from 'zod';
import { networkBmc } from './bmc-spec.ts';
import { dhcpOptions } from './dhcp-options.ts';
import { cidrText, domainName, duration, ipv4Text, loaderName, name, trust } from './fields.ts';
import { namesSpec } from './names-spec.ts';
import { vendorTpm } from './tpm-spec.ts';

/** How a reply to PXE firmware is built (src/pxe/dhcp/README.md). */
export const pxeOptions = z.strictObject({
  style: z.enum(['bypass', 'binl']).optional().meta({
    description:
      'bypass (default): the offer names the boot file (option 43, discovery control 8). binl: no option 43; the firmware asks port 4011 for the boot file.',
  }),
  loader: loaderName.optional().meta({
    description:
      'File name of the first loader, replacing the one that the architecture selects, e.g. "snponly.efi". The file is in a loader directory; write no path.',
  }),
});

export const networkSpec = z.strictObject({
  subnet: cidrText.meta({ description: 'The IPv4 subnet, host bits zero, e.g. "10.77.0.0/24".' }),
  interface: z.string().optional().meta({
    description:
      'The network interface of the boot host on this segment. Default: the one that has an address inside the subnet.',
  }),
  address: ipv4Text.optional().meta({
    description: "Muster's own address on this network. Default: the interface's address inside the subnet.",
  }),
  dhcp: z
    .strictObject({
      mode: z.enum(['server', 'reservations', 'proxy', 'off']).meta({
        description:
          'server: gives addresses from pools and reservations. reservations: gives addresses only to machines whose document names one. proxy: another server gives addresses, Muster adds the boot file (ports 67 and 4011). off: no DHCP.',
      }),
      pools: z
        .array(
          z.strictObject({
            start: ipv4Text.meta({ description: 'First address of the range.' }),
            end: ipv4Text.meta({ description: 'Last address of the range.' }),
            options: dhcpOptions.optional().meta({
              description:
                'DHCP options of your own for addresses of this range; they win over those of the network.',
            }),
          }),
        )
        .optional()
        .meta({ description: 'Ranges of addresses to lease, both ends included. Only in mode server.' }),
      options: dhcpOptions.optional().meta({
        description:
          'DHCP options of your own, by number or name. Options that have a field here (gateway, dns, domain, ntp, mtu) or that Muster sets itself are refused.',
      }),
      leaseTime: duration.optional().meta({ description: 'Lease time of a running system. Default 1h.' }),
      bootLeaseTime: duration
        .optional()
        .meta({ description: 'Lease time while firmware or a boot loader runs. Default 2m.' }),
      probe: z.enum(['on', 'off']).optional().meta({
        description:
          'Check in advance by ARP that no host uses the addresses that will be offered next. Default on.',
      }),
      authoritative: z.boolean().optional().meta({
        description:
          'Answer with a DHCPNAK when a client asks for an address that belongs to another network or that it does not hold. Default true.',
      }),
      relays: z.array(ipv4Text).optional().meta({
        description:
          'Addresses of relay agents that may relay for this network: what they write into giaddr, and what they send from. Not needed for a relay agent that uses one address inside the subnet for both, unless Muster itself is attached to the subnet.',
      }),
    })
    .meta({ description: 'How Muster answers DHCP on this network.' }),
  gateway: ipv4Text.optional().meta({ description: 'Address of the default gateway of the machines.' }),
  dns: z.array(ipv4Text).optional().meta({ description: 'Addresses of the DNS servers.' }),
  ntp: z.array(ipv4Text).optional().meta({ description: 'Addresses of the NTP servers.' }),
  names: namesSpec.optional().meta({
    description: 'Where the machines of this network are registered by name (docs/networks.md).',
  }),
  domain: domainName.optional().meta({ description: 'DNS domain of the machines.' }),
  trust: trust.optional(),
  tpm: vendorTpm.optional(),
  mtu: z.int().min(576).max(9216).optional().meta({ description: 'MTU of the segment in octets.' }),
  pxe: pxeOptions
    .optional()
    .meta({ description: 'How Muster builds replies to PXE firmware on this network.' }),
  bmc: networkBmc.optional(),
  discovery: z
    .strictObject({
      image: name.meta({
        description:
          'The Image that unknown machines boot; `muster image build discovery` makes one. It runs from RAM, writes to no disk, reports what the machine is made of, and waits.',
      }),
    })
    .optional()
    .meta({
      description:
        'What machines boot that no document knows. Default: nothing; they are held by their loader until they are accepted.',
    }),
  vendorClasses: z
    .array(
      z.strictObject({
        prefix: z
          .string()
          .min(1)
          .meta({ description: 'Beginning of the vendor class, e.g. "PXEClient:Arch:00007".' }),
        pxe: pxeOptions.meta({ description: 'Replaces the `pxe` of the network for these clients.' }),
      }),
    )
    .optional()
    .meta({
      description:
        'Overrides of `pxe` for clients whose vendor class (option 60) begins with `prefix`; the longest prefix wins.',
    }),
});
