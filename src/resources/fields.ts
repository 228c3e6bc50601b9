/** Field types that several kinds share. Each checks a text; its message says how to write it. */
import { z } from 'zod';
import { parseDuration } from '../base/duration.ts';
import { formatIp, parseIp, parseIpNetwork } from '../base/ip.ts';
import { parseCidr, parseIpv4 } from '../base/ipv4.ts';
import { kernelArgumentFault } from '../base/kernel-argument.ts';
import { parseMac } from '../base/mac.ts';

/** A DNS label, because names of documents are also host names and path segments. */
export const name = z
  .string()
  .max(63)
  .regex(
    /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/,
    'use lower-case letters, digits and dashes, at most 63, e.g. "node-1"',
  )
  .meta({ description: 'Lower-case letters, digits and dashes; at most 63.' });

/** Names that mean each machine itself (RFC 6761, section 6.3). */
const isLocalhost = (text: string): boolean => /^(.+\.)?localhost$|^localhost\./i.test(text);
const LOCALHOST = 'this name means each machine itself; write one of its own, e.g. "node-1"';

/**
 * The name of a machine, which is also its host name and the name of its Node: one DNS label or
 * several with dots between them. It is the value of the label kubernetes.io/hostname, which has at
 * most 63 characters.
 */
export const machineName = z
  .string()
  .max(63)
  .regex(
    /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/,
    'use lower-case letters, digits and dashes, and dots between labels, at most 63, e.g. "node-1" or "node-1.lab.example"',
  )
  .refine(
    (text) => !/^[0-9]+(\.[0-9]+)*$/.test(text) || !text.includes('.'),
    'digits with dots look like an address; use a name, e.g. "node-1.lab.example"',
  )
  .refine((text) => !isLocalhost(text), LOCALHOST)
  .meta({
    description: 'Lower-case letters, digits and dashes, also with dots as a domain name; at most 63.',
  });

export const ipv4Text = z
  .string()
  .refine((text) => parseIpv4(text) !== undefined, 'not an IPv4 address; write it like "10.77.0.10"')
  .meta({ description: 'An IPv4 address.', format: 'ipv4' });

/** Stored in canonical form (RFC 5952), so that equal addresses are equal texts. */
export const ipText = z
  .string()
  .refine(
    (text) => parseIp(text) !== undefined,
    'not an address; write it like "10.77.0.10" or "fd00:77::10"',
  )
  .overwrite((text) => {
    const address = parseIp(text);
    return address === undefined ? text : formatIp(address);
  })
  .meta({ description: 'An IPv4 or IPv6 address.' });

export const ipv6Text = z
  .string()
  .refine((text) => parseIp(text)?.family === 6, 'not an IPv6 address; write it like "fd00:77::1"')
  .meta({ description: 'An IPv6 address.', format: 'ipv6' });

export const cidrText = z
  .string()
  .refine(
    (text) => parseCidr(text) !== undefined,
    'not an IPv4 network with its host bits zero; write it like "10.77.0.0/24"',
  )
  .meta({ description: 'An IPv4 network, host bits zero.' });

export const networkText = z
  .string()
  .refine(
    (text) => parseIpNetwork(text) !== undefined,
    'not a network with its host bits zero; write it like "10.244.0.0/16" or "fd00:10:244::/56"',
  )
  .meta({ description: 'An IPv4 or IPv6 network, host bits zero.' });

/** An address with its prefix length, for an interface; host bits may be set. */
export const interfaceAddress = z
  .string()
  .refine((text) => {
    const [address, prefix, more] = text.split('/');
    const family = parseIp(address ?? '')?.family;
    if (family === undefined || more !== undefined || !/^(0|[1-9][0-9]{0,2})$/.test(prefix ?? ''))
      return false;
    return Number(prefix) <= (family === 4 ? 32 : 128);
  }, 'not an address with prefix length; write it like "10.77.0.10/24" or "fd00:77::10/64"')
  .meta({ description: 'An IPv4 or IPv6 address with prefix length.' });

/**
 * What a machine has to show before it gets a certificate of its own, from weakest to strictest;
 * TRUST_COSTS says what each tier costs and prevents.
 */
export const TRUST_TIERS = ['segment', 'approved', 'tpm'] as const;

/** What each tier costs and prevents, in a sentence for whoever has to choose one. */
export const TRUST_COSTS: Readonly<Record<(typeof TRUST_TIERS)[number], string>> = {
  segment:
    "costs nothing, and anybody on the machines' network who forges a hardware address can become a control plane with the keys of the cluster",
  approved:
    'costs an operator a look at the console of each machine, once for each key (`muster machine approve`), and nobody else on the network becomes a machine',
  tpm: 'costs a TPM 2.0 in each machine and one look at its first boot, and not even a copy of a disk becomes a machine',
};

/** Which of several documents counts is decided in trust.ts. */
export const trust = z.enum(TRUST_TIERS).meta({
  description:
    'What a machine has to show before it gets its certificate, and with it the secrets of its cluster. segment: the ticket of its boot, from the hardware that took its lease. approved: an operator also confirms the code on its console (`muster machine approve`), once for each key. tpm: its TPM 2.0 opens what was sealed to it. The strictest of Network, Cluster, Profile and Machine counts. A Cluster with `kubernetes` has to name one; machines of no cluster have segment.',
});

/** Accepts any usual notation; stored in canonical form. */
export const mac = z
  .string()
  .refine(
    (text) => parseMac(text) !== undefined,
    'not a MAC address; write it like "52:54:00:aa:00:01", quoted',
  )
  .overwrite((text) => parseMac(text) ?? text)
  .meta({ description: 'A MAC address in any usual notation. Quote it.' });

export const uuid = z
  .string()
  .regex(
    /^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$/,
    'not a UUID; write it like "4c4c4544-0042-3510-8051-b7c04f4d3532"',
  )
  .overwrite((text) => text.toLowerCase())
  .meta({ description: 'SMBIOS UUID of the machine.', format: 'uuid' });

export const sha256 = z
  .string()
  .regex(/^[0-9a-f]{64}$/, 'not a SHA-256; write 64 lower-case hexadecimal digits')
  .meta({ description: 'SHA-256, 64 lower-case hexadecimal digits.' });

export const duration = z
  .string()
  .refine(
    (text) => parseDuration(text) !== undefined,
    'not a duration; write a number and a unit, e.g. "90s", "1h30m"',
  )
  .meta({ description: 'A duration with unit: ms, s, m, h, d.' });

/** A string, because YAML 1.2 reads the unquoted 0644 as the decimal number 644. */
export const fileMode = z
  .string({
    error:
      'a file mode must be a quoted string: "0644" (unquoted, YAML 1.2 reads 0644 as the decimal number 644)',
  })
  .regex(/^0?[0-7]{3,4}$/, 'not a file mode; write it octal and quoted, e.g. "0644"')
  .meta({ description: 'File mode, octal, quoted: "0644".' });

/**
 * A line break ends the search of `.*`, so `..` is searched for with a class that has them all.
 */
const ABSOLUTE = /^\/(?!([\s\S]*\/)?\.\.(\/|$))[^\0-\x1f\x7f\u2028\u2029]*$/;
const path = z.string().max(4095).regex(ABSOLUTE, 'not an absolute path without ".." and control characters');

/** The path without `//`, `/./` and a slash at its end: Ignition refuses these, others differ. */
const cleanPath = (text: string): string =>
  `/${text
    .split('/')
    .filter((part) => part !== '' && part !== '.')
    .join('/')}`;

/** Stored in its simplest form, so that equal paths are equal texts. */
export const absolutePath = path.overwrite(cleanPath).meta({ description: 'An absolute path.' });

/** The path of a file on a machine: file systems of the kernel have none of ours. */
export const filePath = path
  .refine((text) => !/\/\.?$/.test(text), 'a path that ends with "/" is a directory; name the file in it')
  .refine(
    (text) => !/^\/(proc|sys|dev)(\/|$)/.test(cleanPath(text)),
    'the kernel fills this directory; a file cannot be written here (settings of the kernel belong into /etc/sysctl.d or /etc/tmpfiles.d)',
  )
  .overwrite(cleanPath)
  .meta({ description: 'The absolute path of a file.' });

/** A URL as it is written: a parser would drop line breaks and tabs, and make another one. */
export const urlOf = (protocol: RegExp, error: string) =>
  z
    .string()
    .refine((text) => /^[!-~]+$/.test(text) && protocol.test(URL.parse(text)?.protocol ?? ''), error)
    .meta({ format: 'uri' });

/**
 * Names that a boot loader may have. The name must fit into DHCP's file field, and firmware
 * requests it; loader directories have no subdirectories.
 */
export const LOADER_NAME = /^[A-Za-z0-9_][A-Za-z0-9._+-]{0,126}$/;

export const loaderName = z
  .string()
  .regex(
    LOADER_NAME,
    'not the name of a file in a loader directory; write it without a path, like "snponly.efi"',
  );

export const metadata = z.strictObject({
  name,
  labels: z
    .record(z.string(), z.string())
    .optional()
    .meta({ description: 'Labels of your choice, for selectors and display.' }),
  annotations: z
    .record(z.string(), z.string())
    .optional()
    .meta({ description: 'Notes of your choice; Muster does not read them.' }),
});

/** The metadata of a Machine, whose name may be a domain name. */
export const machineMetadata = metadata.extend({ name: machineName });

/**
 * One kernel argument. Line breaks are refused, because they would end the line of the boot script.
 */
export const kernelArgument = z
  .string()
  .superRefine((text, context) => {
    const message = kernelArgumentFault(text);
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  })
  .meta({
    description: 'One kernel argument, e.g. "console=ttyS0".',
    // Editors check this pattern.
    pattern: '^[\\x21-\\x7e]([\\x20-\\x7e]*[\\x21-\\x7e])?$',
  });

export const domainName = z
  .string()
  .max(253)
  .regex(
    /^[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)*$/,
    'not a domain name; write it like "lab.example"',
  )
  .meta({ description: 'A domain name.' });

/** The host name of a machine. */
export const hostName = domainName
  .refine((text) => !isLocalhost(text), LOCALHOST)
  .refine(
    (text) => parseIp(text) === undefined,
    'an address is no host name; write a name, e.g. "node-1.lab.example"',
  );

/**
 * A name in a certificate: a domain name, which may begin with `*.`, or an address. Text of digits
 * and dots only must be a valid address.
 */
export const nameOrAddress = z
  .string()
  .max(253)
  .refine(
    (text) =>
      parseIp(text) !== undefined ||
      (domainName.safeParse(text.replace(/^\*\./, '')).success && !/^[0-9.]+$/.test(text)),
    'not a name or address; write it like "api.example" or "10.77.0.10", without scheme and port',
  )
  .meta({ description: 'A domain name or an address.' });

/**
 * A field that may contain templates. Text with `${` is accepted here and checked against the rule
 * once its templates are expanded; other text is checked at once.
 */
export const templated = <S extends z.ZodType<string>>(rule: S) => {
  const described = rule.description === undefined ? {} : { description: rule.description };
  return z
    .string()
    .superRefine((text, context) => {
      const result = text.includes('${') ? undefined : rule.safeParse(text);
      if (result && !result.success)
        for (const issue of result.error.issues) context.addIssue({ code: 'custom', message: issue.message });
    })
    .meta(described);
};
