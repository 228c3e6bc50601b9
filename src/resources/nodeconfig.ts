/**
 * Schema of `spec.config`: the configuration of a machine at first boot, independent of any config
 * format. Cluster, Profile and Machine may each contain one. src/ignition/merge.ts merges them
 * (Machine wins over Profile, Profile over Cluster); the result is rendered to cloud-init or
 * Ignition.
 *
 * String values may contain `${...}` templates (src/ignition/template.ts).
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
import { secretReference } from './secret-spec.ts';

/** Refuses a list in which two items have the same key, because merging would lose one of them. */
function distinct<T>(what: string, keyOf: (item: T) => string | undefined) {
  return (context: { value: readonly T[]; issues: unknown[] }) => {
    const seen = new Set<string>();
    for (const [n, item] of context.value.entries()) {
      const key = keyOf(item);
      if (key === undefined) continue;
      if (seen.has(key))
        context.issues.push({
          code: 'custom',
          message: `${what} "${key}" is listed twice; keep one`,
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
    path: absolutePath.meta({ description: 'Absolute path of the file.' }),
    mode: fileMode.optional().meta({ description: 'Default "0644".' }),
    owner: groupName.optional().meta({ description: 'User name; default root.' }),
    group: groupName.optional().meta({ description: 'Group name; default root.' }),
    content: z.union([z.string(), secretReference]).optional().meta({
      description:
        "Content as text; templates are expanded. Or valueFrom: the machine's agent writes the file with the value of a Secret.",
    }),
    contentBase64: z
      .base64({ error: 'not base64' })
      .optional()
      .meta({ description: 'Content in base64, for binary files; templates are not expanded.' }),
    source: z
      .strictObject({
        url: z
          .url({ protocol: /^https?$/, error: 'not an http:// or https:// URL' })
          .meta({ description: 'http:// or https:// URL of the content.' }),
        sha256,
      })
      .optional()
      .meta({ description: 'Where the machine downloads the content; it verifies the hash.' }),
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
  name: unitName.meta({ description: 'Name of the unit with its suffix, e.g. hello.service.' }),
  enabled: z
    .boolean()
    .optional()
    .meta({ description: 'true: the unit is enabled and started. false: it is disabled and stopped.' }),
  mask: z
    .boolean()
    .optional()
    .meta({ description: 'true: the unit is masked, so that nothing can start it.' }),
  contents: z.string().optional().meta({ description: 'Content of the unit file; templates are expanded.' }),
  dropins: z
    .array(
      z.strictObject({
        name: z
          .string()
          .regex(/^[A-Za-z0-9:_.@-]+\.conf$/, 'a drop-in is named like "10-env.conf"')
          .meta({ description: 'File name, e.g. "10-env.conf".' }),
        contents: z.string().meta({ description: 'Content of the drop-in; templates are expanded.' }),
      }),
    )
    .optional()
    .meta({ description: 'Drop-ins for the unit (NAME.d/*.conf); merged by name.' }),
});

const nodeUser = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z_][-a-z0-9_]{0,31}$/, 'not a user name')
    .meta({ description: 'User name.' }),
  sshKeys: z
    .array(
      z
        .string()
        .regex(/^(ssh|ecdsa|sk-)[-a-z0-9@.]+ [A-Za-z0-9+/=]+( [^\n\r]*)?$/, 'not an OpenSSH public key'),
    )
    .optional()
    .meta({ description: 'Public keys that may log in, one per item as in authorized_keys.' }),
  passwordHash: z
    .union([z.string().regex(/^[!-9;-~]+$/, 'not a password hash as crypt(3) makes it'), secretReference])
    .optional()
    .meta({
      description:
        "Password hash as crypt(3) makes it. Written here it is not secret: a host that has the machine's address can fetch its configuration. With valueFrom, the machine's agent sets the hash that a Secret holds. Prefer SSH keys.",
    }),
  groups: z.array(groupName).optional().meta({ description: 'Supplementary groups.' }),
  shell: absolutePath
    .optional()
    .meta({ description: 'Default /bin/bash; for system users the default of the operating system.' }),
  home: absolutePath.optional().meta({ description: 'Default /home/NAME.' }),
  uid: z
    .int()
    .min(0)
    .max(4294967294)
    .optional()
    .meta({ description: 'Numeric user ID. Default: the operating system selects it.' }),
  sudo: z.boolean().optional().meta({ description: 'true: the user may run sudo without a password.' }),
  system: z.boolean().optional().meta({ description: 'true: a system account.' }),
});

const nodeRoute = z
  .strictObject({
    to: templated(interfaceAddress).meta({
      description: 'Destination with prefix length, e.g. "10.80.0.0/16".',
    }),
    via: templated(ipText).meta({ description: 'Address of the gateway.' }),
  })
  .refine(({ to, via }) => /\$\{/.test(to + via) || to.includes(':') === via.includes(':'), {
    message: '`to` and `via` must be of the same address family',
  });

const nodeInterface = z
  .strictObject({
    mac: mac.optional().meta({
      description: 'Selects the interface by MAC address. Prefer this to the name, because names can change.',
    }),
    name: z
      .string()
      .regex(/^[^\s/]{1,15}$/)
      .optional()
      .meta({ description: 'Selects the interface by name. With mac: the new name of the interface.' }),
    dhcp4: z
      .boolean()
      .optional()
      .meta({ description: 'Whether the interface uses DHCPv4. Default: true if no addresses are given.' }),
    addresses: z
      .array(templated(interfaceAddress))
      .optional()
      .meta({ description: 'Addresses with prefix length, e.g. "10.77.0.10/24", "fd00:77::10/64".' }),
    gateway: templated(ipv4Text).optional().meta({ description: 'Address of the default gateway (IPv4).' }),
    gateway6: templated(ipv6Text).optional().meta({ description: 'Address of the default gateway (IPv6).' }),
    acceptRa: z.boolean().optional().meta({
      description:
        'Whether the interface takes addresses and routes from IPv6 router advertisements. Default: that of the operating system.',
    }),
    nameservers: z.array(templated(ipText)).optional().meta({ description: 'Addresses of the DNS servers.' }),
    search: z.array(templated(domainName)).optional().meta({ description: 'DNS search domains.' }),
    mtu: z.int().min(576).max(9216).optional().meta({ description: 'MTU of the interface in octets.' }),
    routes: z.array(nodeRoute).optional().meta({ description: 'Static routes.' }),
    optional: z
      .boolean()
      .optional()
      .meta({ description: 'true: the boot does not wait for this interface.' }),
  })
  .refine((i) => i.mac !== undefined || i.name !== undefined, {
    message: 'name the interface: give mac or name',
  });

const nodeDisk = z.strictObject({
  device: absolutePath.meta({
    description: 'A path of the disk that does not change, e.g. /dev/disk/by-id/…',
  }),
  wipeTable: z.boolean().optional().meta({
    description:
      'true: an existing partition table is replaced, and the data on the disk is lost. Default false.',
  }),
  partitions: z
    .array(
      z.strictObject({
        label: z
          .string()
          .regex(
            /^[A-Za-z0-9._-]{1,36}$/,
            'not a partition label: letters, digits, ".", "_", "-"; at most 36',
          )
          .meta({ description: 'GPT label of the partition.' }),
        sizeMiB: z
          .int()
          .min(0)
          .max(1e9)
          .optional()
          .meta({ description: 'Size in MiB. 0 or absent: the rest of the disk.' }),
        filesystem: z.enum(['ext4', 'xfs', 'btrfs', 'vfat', 'swap']).optional().meta({
          description:
            'File system to create if the partition has none. Absent: the partition is not formatted.',
        }),
        mount: absolutePath.optional().meta({
          description:
            'Mount point. The partition is mounted before files are written, so files below the mount point are on it.',
        }),
      }),
    )
    .optional()
    .meta({ description: 'Partitions, in this order.' }),
});

export const nodeConfig = z.strictObject({
  hostname: templated(domainName).optional().meta({ description: 'Default: the name of the Machine.' }),
  files: z
    .array(nodeFile)
    .check(distinct('the path', (file) => file.path))
    .optional()
    .meta({ description: 'Files; merged by path.' }),
  units: z
    .array(nodeUnit)
    .check(distinct('the unit', (unit) => unit.name))
    .optional()
    .meta({ description: 'systemd units; merged by name.' }),
  users: z
    .array(nodeUser)
    .check(distinct('the user', (user) => user.name))
    .optional()
    .meta({ description: 'User accounts; merged by name. SSH keys and groups of all layers are combined.' }),
  network: z
    .strictObject({
      interfaces: z
        .array(nodeInterface)
        .min(1)
        .max(32)
        .check(distinct('the interface', (one) => one.mac ?? one.name))
        .meta({ description: 'Network interfaces of the machine.' }),
    })
    .optional()
    .meta({
      description:
        'Network interfaces; merged by mac, or by name if there is no mac. Absent: DHCP on the interface that booted.',
    }),
  disks: z
    .array(nodeDisk)
    .check(distinct('the disk', (disk) => disk.device))
    .optional()
    .meta({ description: 'Disks to partition; merged by device.' }),
  variables: z
    .record(
      z
        .string()
        .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'use letters, digits and "_"; the first must not be a digit'),
      z.union([z.string(), z.number(), z.boolean()]),
    )
    .optional()
    .meta({ description: 'Values that templates use as ${var.NAME}.' }),
  timezone: z
    .string()
    .regex(/^[A-Za-z0-9_+-]+(\/[A-Za-z0-9_+-]+){0,2}$/, 'not a time zone; write it like "Europe/Berlin"')
    .optional()
    .meta({ description: 'Time zone, e.g. Europe/Berlin. Default UTC.' }),
  configTimeout: duration.optional().meta({
    description: 'How long the machine may take from the start of the kernel until it is ready. Default 15m.',
  }),
  extra: z
    .strictObject({
      cloudInit: z.string().optional().meta({
        description:
          'A #cloud-config document that is merged over the rendered one, for settings that have no field here.',
      }),
      ignition: z.string().optional().meta({
        description: 'An Ignition config (JSON or YAML) that is appended as ignition.config.merge does.',
      }),
    })
    .optional()
    .meta({ description: 'Native configuration, added to what Muster renders.' }),
});

/** Value of `spec.config` in a document. */
export type NodeConfig = z.output<typeof nodeConfig>;
export type NodeFile = z.output<typeof nodeFile>;
export type NodeUnit = z.output<typeof nodeUnit>;
export type NodeUser = z.output<typeof nodeUser>;
export type NodeInterface = z.output<typeof nodeInterface>;
export type NodeDisk = z.output<typeof nodeDisk>;
