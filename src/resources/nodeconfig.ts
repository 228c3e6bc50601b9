/**
 * What a machine is on first boot, independent of any config format: the fragment that Cluster,
 * Profile and Machine each may carry, merged narrower-wins (src/ignition/merge.ts) and rendered to
 * cloud-init or Ignition.
 *
 * String values may hold `${...}` templates (src/ignition/template.ts).
 */
import { z } from 'zod';
import {
  absolutePath,
  domainName,
  duration,
  fileMode,
  interfaceAddress,
  ipText,
  ipv4Text,
  ipv6Text,
  mac,
  sha256,
  templated,
} from './fields.ts';

/** Refuses a list in which two items have the same key: one of them would be lost in merging. */
function distinct<T>(what: string, keyOf: (item: T) => string | undefined) {
  return (context: { value: readonly T[]; issues: unknown[] }) => {
    const seen = new Set<string>();
    for (const [n, item] of context.value.entries()) {
      const key = keyOf(item);
      if (key === undefined) continue;
      if (seen.has(key))
        context.issues.push({
          code: 'custom',
          message: `${what} "${key}" stands twice; keep one`,
          path: [n],
          input: item,
        });
      seen.add(key);
    }
  };
}

const groupName = z.string().regex(/^[A-Za-z_][-A-Za-z0-9_.]{0,31}$/, 'not a user or group name');

const nodeFile = z
  .strictObject({
    path: absolutePath,
    mode: fileMode.optional().meta({ description: 'Default "0644".' }),
    owner: groupName.optional().meta({ description: 'User name; default root.' }),
    group: groupName.optional().meta({ description: 'Group name; default root.' }),
    content: z.string().optional().meta({ description: 'The text, templates expanded.' }),
    contentBase64: z
      .base64({ error: 'not base64' })
      .optional()
      .meta({ description: 'Binary content, base64, taken as it is.' }),
    source: z
      .strictObject({ url: z.url({ protocol: /^https?$/, error: 'not an http:// or https:// URL' }), sha256 })
      .optional()
      .meta({ description: 'Fetched by the machine and checked against the hash.' }),
  })
  .refine((f) => [f.content, f.contentBase64, f.source].filter((x) => x !== undefined).length === 1, {
    message: 'give exactly one of content, contentBase64 and source',
  });

const unitName = z
  .string()
  .regex(
    /^[A-Za-z0-9:_.\\@-]+\.(service|socket|timer|mount|automount|path|target|slice|swap)$/,
    'not a systemd unit name, e.g. "hello.service"',
  );

const nodeUnit = z.strictObject({
  name: unitName.meta({ description: 'Name of the unit with its ending, e.g. hello.service.' }),
  enabled: z
    .boolean()
    .optional()
    .meta({ description: 'true: enabled and started. false: disabled and stopped.' }),
  mask: z.boolean().optional().meta({ description: 'Cannot be started, not even by other units.' }),
  contents: z.string().optional().meta({ description: 'The whole unit, templates expanded.' }),
  dropins: z
    .array(
      z.strictObject({
        name: z.string().regex(/^[A-Za-z0-9:_.@-]+\.conf$/, 'a drop-in is named like "10-env.conf"'),
        contents: z.string(),
      }),
    )
    .optional()
    .meta({ description: 'Parts laid over a unit that exists; merged by name.' }),
});

const nodeUser = z.strictObject({
  name: z.string().regex(/^[a-z_][-a-z0-9_]{0,31}$/, 'not a user name'),
  sshKeys: z
    .array(
      z
        .string()
        .regex(/^(ssh|ecdsa|sk-)[-a-z0-9@.]+ [A-Za-z0-9+/=]+( [^\n\r]*)?$/, 'not an OpenSSH public key'),
    )
    .optional(),
  passwordHash: z
    .string()
    .regex(/^[!-9;-~]+$/, 'not a password hash as crypt(3) makes it')
    .optional()
    .meta({
      description: 'As crypt(3) makes it. What a MAC address alone can fetch is not secret: prefer keys.',
    }),
  groups: z.array(groupName).optional().meta({ description: 'Supplementary groups.' }),
  shell: absolutePath
    .optional()
    .meta({ description: "Default /bin/bash; of system users the system's own default." }),
  home: absolutePath.optional().meta({ description: 'Default /home/NAME.' }),
  uid: z.int().min(0).max(4294967294).optional(),
  sudo: z.boolean().optional().meta({ description: 'May become root without a password.' }),
  system: z.boolean().optional().meta({ description: 'An account of the system, not of a person.' }),
});

const nodeRoute = z
  .strictObject({ to: templated(interfaceAddress), via: templated(ipText) })
  .refine(({ to, via }) => /\$\{/.test(to + via) || to.includes(':') === via.includes(':'), {
    message: 'to and via are of two families',
  });

const nodeInterface = z
  .strictObject({
    mac: mac
      .optional()
      .meta({ description: 'Which interface, by hardware address (preferred: names change).' }),
    name: z
      .string()
      .regex(/^[^\s/]{1,15}$/)
      .optional()
      .meta({ description: 'Which interface, by name; or its new name when mac is given.' }),
    dhcp4: z.boolean().optional().meta({ description: 'Default: true when no addresses are given.' }),
    addresses: z
      .array(templated(interfaceAddress))
      .optional()
      .meta({ description: 'Addresses with prefix length, e.g. "10.77.0.10/24", "fd00:77::10/64".' }),
    gateway: templated(ipv4Text).optional().meta({ description: 'Default route.' }),
    gateway6: templated(ipv6Text).optional().meta({ description: 'Default route of IPv6.' }),
    acceptRa: z.boolean().optional().meta({
      description: "Take addresses and routes from IPv6 routers. Default: the system's.",
    }),
    nameservers: z.array(templated(ipText)).optional().meta({ description: 'DNS servers.' }),
    search: z
      .array(templated(domainName))
      .optional()
      .meta({ description: 'Domains that host names are looked up in.' }),
    mtu: z.int().min(576).max(9216).optional(),
    routes: z.array(nodeRoute).optional().meta({ description: 'Further routes.' }),
    optional: z.boolean().optional().meta({ description: 'The machine does not wait for this interface.' }),
  })
  .refine((i) => i.mac !== undefined || i.name !== undefined, {
    message: 'say which interface: mac or name',
  });

const nodeDisk = z.strictObject({
  device: absolutePath.meta({ description: 'A stable path, e.g. /dev/disk/by-id/…' }),
  wipeTable: z
    .boolean()
    .optional()
    .meta({ description: 'Replace an existing partition table. Destroys data. Default false.' }),
  partitions: z
    .array(
      z.strictObject({
        label: z
          .string()
          .regex(
            /^[A-Za-z0-9._-]{1,36}$/,
            'not a partition label: letters, digits, ".", "_", "-"; at most 36',
          ),
        sizeMiB: z
          .int()
          .min(0)
          .max(1e9)
          .optional()
          .meta({ description: '0 or absent: the rest of the disk.' }),
        filesystem: z.enum(['ext4', 'xfs', 'btrfs', 'vfat', 'swap']).optional(),
        mount: absolutePath
          .optional()
          .meta({ description: 'Where it is mounted, before files are written: those below it lie on it.' }),
      }),
    )
    .optional(),
});

export const nodeConfig = z.strictObject({
  hostname: templated(domainName)
    .optional()
    .meta({ description: 'Default: the name of the Machine. Templates allowed.' }),
  files: z
    .array(nodeFile)
    .check(distinct('the path', (file) => file.path))
    .optional()
    .meta({ description: 'Merged by path.' }),
  units: z
    .array(nodeUnit)
    .check(distinct('the unit', (unit) => unit.name))
    .optional()
    .meta({ description: 'systemd units; merged by name.' }),
  users: z
    .array(nodeUser)
    .check(distinct('the user', (user) => user.name))
    .optional()
    .meta({ description: 'Merged by name; keys and groups are united.' }),
  network: z
    .strictObject({
      interfaces: z
        .array(nodeInterface)
        .min(1)
        .max(32)
        .check(distinct('the interface', (one) => one.mac ?? one.name)),
    })
    .optional()
    .meta({ description: 'Absent: DHCP on the interface that booted. Merged by mac, else by name.' }),
  disks: z
    .array(nodeDisk)
    .check(distinct('the disk', (disk) => disk.device))
    .optional()
    .meta({ description: 'Merged by device.' }),
  variables: z
    .record(
      z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'letters, digits and "_", the first no digit'),
      z.union([z.string(), z.number(), z.boolean()]),
    )
    .optional()
    .meta({ description: 'Values for templates: ${var.NAME}.' }),
  timezone: z
    .string()
    .regex(/^[A-Za-z0-9_+-]+(\/[A-Za-z0-9_+-]+){0,2}$/, 'not a time zone; write it like "Europe/Berlin"')
    .optional()
    .meta({ description: 'e.g. Europe/Berlin; default UTC.' }),
  configTimeout: duration
    .optional()
    .meta({ description: 'How long the machine may take from kernel to ready. Default 15m.' }),
  extra: z
    .strictObject({
      cloudInit: z.string().optional().meta({
        description:
          'A #cloud-config document merged over the rendered one, for what NodeConfig has no field for.',
      }),
      ignition: z
        .string()
        .optional()
        .meta({ description: 'An Ignition config (JSON or YAML) appended as ignition.config.merge does.' }),
    })
    .optional(),
});

/** The fragment as documents carry it. */
export type NodeConfig = z.output<typeof nodeConfig>;
export type NodeFile = z.output<typeof nodeFile>;
export type NodeUnit = z.output<typeof nodeUnit>;
export type NodeUser = z.output<typeof nodeUser>;
export type NodeInterface = z.output<typeof nodeInterface>;
export type NodeDisk = z.output<typeof nodeDisk>;
