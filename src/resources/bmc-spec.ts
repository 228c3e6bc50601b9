/** The setting `bmc` of a Machine, and what Profiles and Networks say of several BMCs. */
import { z } from 'zod';
import { parseDuration } from '../base/duration.ts';
import { certificates } from './certificate-text.ts';
import { domainName, duration, ipText, mac } from './fields.ts';
import { secretReference } from './secret-spec.ts';

/** How Muster speaks with a BMC. */
export const BMC_PROTOCOLS = ['auto', 'redfish', 'ipmi'] as const;

const sha256 = z
  .string()
  .overwrite((text) => text.replaceAll(':', '').toLowerCase())
  .regex(/^[0-9a-f]{64}$/, 'not the SHA-256 of a certificate: 64 hexadecimal digits, also with colons');

const credentials = z
  .strictObject({
    user: z
      .string()
      .regex(/^[\x21-9;-~]{1,64}$/, 'not a user name: printable characters without blanks and ":"')
      .meta({ description: 'The user; IPMI takes at most 16 characters.' }),
    password: secretReference.meta({
      description:
        'The Secret that holds the password; IPMI takes at most 20 octets. Only the boot host uses it.',
    }),
    managed: z.enum(['beside', 'alone']).optional().meta({
      description:
        'With this log-in Muster makes an account `muster` of its own on each BMC, with a random password that only its vault has, and logs in by that from then on. beside: this account stays as it is. alone: it is switched off (docs/power.md).',
    }),
  })
  .meta({ description: 'How Muster logs in.' });

const protocol = z.enum(BMC_PROTOCOLS).meta({
  description:
    'auto (default): Redfish if the BMC has it, else IPMI; what worked is remembered. redfish, ipmi: only this one.',
});

const certificate = z
  .strictObject({
    sha256: sha256.optional().meta({ description: 'The SHA-256 of the certificate (DER), in hexadecimal.' }),
    ca: certificates.optional().meta({
      description:
        'CA certificates (PEM), of which one signed it for the `name` of the BMC, else for its address.',
    }),
  })
  .refine(
    ({ sha256: one, ca }) => (one === undefined) !== (ca === undefined),
    'name the certificate by `sha256`, or its CA by `ca`',
  )
  .meta({
    description:
      'Which certificate the BMC shows for Redfish. Absent: the first one that Muster sees counts from then on (docs/power.md).',
  });

/** What the BMCs of several machines have in common. */
const common = z.strictObject({
  protocol: protocol.optional(),
  credentials: credentials.optional(),
  certificate: certificate.optional(),
  managedCertificate: z.literal(true).optional().meta({
    description:
      "Muster's CA signs the certificate of each BMC, and again before it ends, by Redfish. `certificate` is then what a BMC shows before (docs/power.md).",
  }),
  console: z.enum(['sol', 'redfish', 'none']).optional().meta({
    description:
      'sol: the boot host holds the serial console (serial over LAN of IPMI), keeps what it prints from the first octet of the firmware, and lets operators type. redfish: the same by a websocket, where the Redfish of the BMC names one, and of OpenBMC. none (default): nobody holds it.',
  }),
});

export const profileBmc = common.meta({
  description: 'What the BMCs of its machines have in common; `bmc` of a Machine wins, by field.',
});

export const networkBmc = common.meta({
  description:
    'What the BMCs whose addresses are in the subnet have in common; `bmc` of Profiles and Machines wins, by field.',
});

/** Why a BMC that is named by its MAC address alone gets no password without a certificate. */
export const NO_CERTIFICATE =
  'whoever takes the lease of `mac` could pose as the BMC: name its `certificate` in the Machine, its Profile or the Network';
/** Why a port needs to know what listens there. */
export const NO_PROTOCOL =
  'a port is of one protocol: write `protocol` as well, in the Machine, its Profile or the Network of the BMC';
/** Why it is asked by Redfish alone. */
export const NO_IPMI =
  'IPMI shows no certificate, so whoever takes the lease of `mac` could pose as the BMC; write `address`';

export const machineBmc = z
  .strictObject({
    address: ipText.optional().meta({
      description: 'The address of the BMC. Names are not taken: nothing is looked up.',
    }),
    mac: mac.optional().meta({
      description:
        'The MAC address of the BMC, instead of `address`: it is where Muster leased that MAC an address, else where the agent of the machine says. Anybody on its segment can take such a lease, so this needs `certificate`, and Redfish (docs/power.md).',
    }),
    name: domainName.optional().meta({
      description:
        'The DNS name in its certificate, where a CA signed it. Nothing looks it up. Default: its address.',
    }),
    port: z.int().min(1).max(65_535).optional().meta({
      description:
        'Its port, of the `protocol` that is named here, in the Profile or in the Network. Default: 443 for Redfish, 623 for IPMI.',
    }),
    system: z
      .string()
      .regex(
        /^[A-Za-z0-9._-]{1,64}$/,
        'not the id of a system, as the BMC lists it below /redfish/v1/Systems',
      )
      .optional()
      .meta({ description: 'The id of the machine in Redfish, where one BMC has several.' }),
    ...common.shape,
  })
  .superRefine(({ address, mac: hardware, protocol: by = 'auto', system, console }, context) => {
    const refuse = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message });
    const isByMac = hardware !== undefined;
    if (isByMac === (address !== undefined))
      context.addIssue({ code: 'custom', message: 'write `address`, or `mac` for one with a lease' });
    if (isByMac && by === 'ipmi') refuse('protocol', NO_IPMI);
    if (isByMac && console === 'sol') refuse('console', NO_IPMI);
    if (system !== undefined && console === 'sol')
      refuse(
        'console',
        'serial over LAN names no system, so it may be that of another machine; write `redfish`, or leave it out',
      );
    if (system !== undefined && by === 'ipmi') refuse('system', 'IPMI knows one system alone; leave it out');
  })
  .meta({ description: 'The BMC that powers the machine, which is how `muster power` reaches it.' });

export type MachineBmc = z.output<typeof machineBmc>;
/** What Profiles and Networks say. */
export type SharedBmc = z.output<typeof common>;

/** What Muster may do by itself with the power of a Profile's machines. */
export const profilePower = z
  .strictObject({
    recover: z
      .strictObject({
        after: duration
          .refine((text) => (parseDuration(text) ?? 0) >= 60_000, 'too short: a system may be quiet for 1m')
          .optional()
          .meta({ description: 'How long nothing is heard of it before. Default: 10m; at least 1m.' }),
        perHour: z.int().min(1).max(6).optional().meta({
          description: 'How often one machine is restarted in an hour. Default: 2.',
        }),
        silentAtMost: z.int().min(1).max(100).optional().meta({
          description:
            'With more silent machines than this none is restarted: a switch has failed, or the power. Default: 3.',
        }),
      })
      .optional()
      .meta({
        description:
          'A machine that reported ready, and of which neither agent nor network answers, is switched off and on again by its BMC. Absent: an operator decides.',
      }),
  })
  .meta({ description: 'What Muster does by itself with the power of its machines.' });
