/**
 * Schema of `spec.config`: the configuration of a machine at first boot, independent of any config
 * format. Cluster, Profile and Machine may each contain one. src/ignition/merge.ts merges them
 * (Machine wins over Profile, Profile over Cluster); the result is rendered to cloud-init or
 * Ignition.
 *
 * String values may contain `${...}` templates (src/ignition/template.ts).
 */
import { z } from 'zod';
import { certificates } from './certificate-text.ts';
import { distinct } from './distinct.ts';
import { absolutePath, duration, fileMode, filePath, hostName, sha256, templated, urlOf } from './fields.ts';
import { nodeNetwork } from './node-network.ts';
import { passwordHashFault } from './password-hash-text.ts';
import { secretReference } from './secret-spec.ts';
import { authorizedKeysFault, sshKeyFault, trimmedKey } from './ssh-key.ts';
import { timeZoneFault } from './time-zones.ts';

const groupName = z.string().regex(/^[A-Za-z_][-A-Za-z0-9_.]{0,31}$/, 'not a user or group name');

/** A name, or a number, which needs no account of that name on the machine. */
const ownerName = z
  .string()
  .regex(
    /^([A-Za-z_][-A-Za-z0-9_.]{0,31}|0|[1-9][0-9]{0,8})$/,
    'neither a user or group name nor a number; write numbers quoted',
  );

const nodeFile = z
  .strictObject({
    path: filePath.meta({ description: 'Absolute path of the file.' }),
    mode: fileMode.optional().meta({ description: 'Default "0644".' }),
    owner: ownerName.optional().meta({ description: 'User name, or a quoted number; default root.' }),
    group: ownerName.optional().meta({ description: 'Group name, or a quoted number; default root.' }),
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
        url: urlOf(/^https?:$/, 'not an http:// or https:// URL').meta({
          description: 'http:// or https:// URL of the content.',
        }),
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

/** A text for which `faultOf` returns undefined. */
const textWithout = (faultOf: (text: string) => string | undefined) =>
  z.string().superRefine((text, context) => {
    const message = faultOf(text);
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  });

const sshKey = z.string().overwrite(trimmedKey).pipe(textWithout(sshKeyFault));

const nodeUser = z.strictObject({
  name: z
    .string()
    .regex(
      /^[A-Za-z_][-A-Za-z0-9_.]{0,30}[-A-Za-z0-9_.$]?$/,
      'not a user name: a letter or "_", then letters, digits, "_", "-" and ".", 32 characters at most',
    )
    .meta({ description: 'User name.' }),
  sshKeys: z.array(sshKey).optional().meta({
    description:
      'Public keys that may log in, one per item as in authorized_keys, with options if you want, e.g. \'from="10.0.0.0/8" ssh-ed25519 AAAA… me\'.',
  }),
  authorizedKeys: textWithout(authorizedKeysFault).optional().meta({
    description: 'The text of a file authorized_keys, with its comments; its keys are added to sshKeys.',
  }),
  passwordHash: z
    .union([
      textWithout((text) =>
        /^[!-9;-~]+$/.test(text) ? passwordHashFault(text) : 'not a password hash as crypt(3) makes it',
      ),
      secretReference,
    ])
    .optional()
    .meta({
      description:
        "Password hash as crypt(3) makes it. Written here it is not secret: a host that has the machine's address can fetch its configuration. With valueFrom, the machine's agent sets the hash that a Secret holds. Prefer SSH keys.",
    }),
  groups: z.array(groupName).optional().meta({ description: 'Supplementary groups.' }),
  primaryGroup: groupName.optional().meta({
    description:
      "Primary group. cloud-init makes it if there is none; with Ignition the image must have it. Default: a group with the user's name.",
  }),
  gecos: z
    .string()
    .regex(/^[^:\n\r\0]{1,255}$/, 'not a comment of /etc/passwd: one line without ":"')
    .optional()
    .meta({ description: 'Full name or comment of the account.' }),
  shell: absolutePath
    .refine((text) => /^[A-Za-z0-9/._+-]+$/.test(text), 'not the path of a shell')
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

/** Directories of the running system: a file system over them hides it. */
const OF_THE_SYSTEM = new Set(
  ['', 'bin', 'dev', 'etc', 'lib', 'lib64', 'proc', 'run', 'sbin', 'sys', 'usr'].map((name) => `/${name}`),
);

const mountPoint = absolutePath.refine(
  (text) => !OF_THE_SYSTEM.has(text) && !/^\/(dev|proc|sys)\//.test(text),
  'this would hide the running system; mount it below /srv, /var, /opt or /home',
);

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
      z
        .strictObject({
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
          mount: mountPoint.optional().meta({
            description:
              'Mount point. The partition is mounted before files are written, so files below the mount point are on it. Needs a `filesystem`.',
          }),
        })
        .refine(({ mount, filesystem }) => mount === undefined || filesystem !== 'swap', {
          message: 'swap has no mount point; leave `mount` out',
        })
        .refine(({ mount, filesystem }) => mount === undefined || filesystem !== undefined, {
          message: 'a partition with a mount point needs a filesystem; an existing one of this type is kept',
        }),
    )
    .optional()
    .meta({ description: 'Partitions, in this order.' }),
});

const nodeFilesystem = z
  .strictObject({
    device: absolutePath
      .refine((text) => /^\/dev\/./.test(text), 'not a device; write a path below /dev')
      .meta({
        description:
          'The disk as a whole, a partition, an array or an opened volume, by a path that does not change, e.g. /dev/disk/by-id/… or /dev/disk/by-label/data.',
      }),
    format: z.enum(['ext4', 'xfs', 'btrfs', 'vfat', 'swap']).optional().meta({
      description:
        'File system to make where the device holds nothing. One of this type that exists is kept; anything else on the device stops the boot. Absent: the device must have a file system, whatever its type.',
    }),
    mount: mountPoint.optional().meta({ description: 'Mount point. Required without `format`.' }),
    options: z
      .array(z.string().regex(/^[A-Za-z0-9_.=:@%+/-]{1,100}$/, 'not a mount option, like "noatime"'))
      .optional()
      .meta({ description: 'Mount options, e.g. [noatime].' }),
  })
  .refine(({ mount, format }) => mount !== undefined || format !== undefined, {
    message: 'say what to do with the device: `format`, `mount` or both',
  })
  .refine(({ mount, format }) => mount === undefined || format !== 'swap', {
    message: 'swap has no mount point; leave `mount` out',
  });

export const nodeConfig = z.strictObject({
  hostname: templated(hostName).optional().meta({ description: 'Default: the name of the Machine.' }),
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
  network: nodeNetwork.optional().meta({
    description:
      'Network interfaces; merged by mac, or by name if there is no mac or the interface is a bond, VLAN or bridge. Absent: DHCP on the interface that booted.',
  }),
  disks: z
    .array(nodeDisk)
    .check(distinct('the disk', (disk) => disk.device))
    .optional()
    .meta({ description: 'Disks to partition; merged by device.' }),
  filesystems: z
    .array(nodeFilesystem)
    .check(distinct('the device', (one) => one.device))
    .optional()
    .meta({
      description: 'File systems on whole disks or on devices that exist, after `disks`; merged by device.',
    }),
  sysctls: z
    .record(
      z
        .string()
        .regex(
          /^[a-z0-9_]+([./*-][A-Za-z0-9_*-]+)+$/,
          'not a setting of the kernel; write it like "vm.max_map_count"',
        ),
      z.union([z.int(), z.string().regex(/^[^\n\r\0]+$/, 'the value of a setting is one line')]),
    )
    .optional()
    .meta({
      description:
        'Settings of the kernel, e.g. vm.max_map_count: 262144; merged by name. They win over those that Muster sets on machines of clusters.',
    }),
  kernelModules: z
    .array(z.string().regex(/^[A-Za-z0-9_-]{1,55}$/, 'not the name of a kernel module, like "br_netfilter"'))
    .optional()
    .meta({
      description: 'Kernel modules that are loaded at every boot. Those of all layers are combined.',
    }),
  caCertificates: z.array(certificates).max(64).optional().meta({
    description:
      'Certificates of CAs, as PEM, that programs on the machine trust besides those of the operating system. Those of all layers are combined.',
  }),
  packages: z
    .array(
      z
        .string()
        .regex(
          /^[A-Za-z0-9][A-Za-z0-9+._:~=-]{0,127}$/,
          'not the name of a package; write "name" or "name=version"',
        ),
    )
    .optional()
    .meta({
      description:
        'Packages that cloud-init installs from the repositories of the image, which takes time at every boot from memory. Those of all layers are combined. Ignition installs none.',
    }),
  variables: z
    .record(
      z
        .string()
        .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'use letters, digits and "_"; the first must not be a digit'),
      z.union([z.string(), z.number(), z.boolean()]),
    )
    .optional()
    .meta({
      description: 'Values that templates use as ${var.NAME}, as they are written: also 1.10 without quotes.',
    }),
  timezone: textWithout(timeZoneFault)
    .optional()
    .meta({ description: 'Time zone, e.g. Europe/Berlin. Default UTC.' }),
  configTimeout: duration.optional().meta({
    description: 'How long the machine may take from the start of the kernel until it is ready. Default 15m.',
  }),
  extra: z
    .strictObject({
      cloudInit: z.string().optional().meta({
        description:
          'A #cloud-config document that is merged over the rendered one, for settings that have no field here. Its keys and types are checked as cloud-init checks them; it must not restart the machine, nor use disks that Muster uses.',
      }),
      ignition: z.string().optional().meta({
        description:
          'An Ignition config of spec 3 (JSON or YAML) or Butane (YAML), appended as ignition.config.merge does.',
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
export type NodeDisk = z.output<typeof nodeDisk>;
export type NodeFilesystem = z.output<typeof nodeFilesystem>;
