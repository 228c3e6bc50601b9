/** The part of the catalogue of errors (errors.ts) about changes of running clusters. */
export const RUNNING_ERRORS = {
  E_DISK_IMAGE: {
    title: 'A file is not the image of a disk that machines can install.',
    who: 'operator',
    http: 400,
    fix: 'Give a raw image of a whole disk (not qcow2, not compressed) with a GPT partition table, as long as its last partition. `qemu-img convert -O raw` and `zstd -d` make one.',
  },
  E_HOME: {
    title: 'The machine does not have its system on a disk.',
    who: 'operator',
    http: 409,
    fix: 'Write `home: disk`, an image of a disk and an `installDisk` into the Profile of the machine (docs/life.md), and order the installation again.',
  },
  E_CA_IMPORT: {
    title: 'A CA cannot be imported.',
    who: 'operator',
    http: 400,
    fix: 'The message says what is wrong with its certificate or key; docs/operating.md lists what a CA has to be. Nothing was taken over.',
  },
  E_ENDS_SOON: {
    title: 'A CA or a certificate ends soon and was not renewed.',
    who: 'operator',
    http: 409,
    fix: 'See `muster pki status`: agents renew certificates of their machines, so look whether the machine is heard; a CA has to be rotated.',
  },
  E_JOIN: {
    title: 'The code of an invitation does not count.',
    who: 'operator',
    http: 403,
    fix: 'Make another one on the acting host: `muster host invite NAME`.',
  },
  E_NO_STANDBY: {
    title: 'No other boot host could take over.',
    who: 'operator',
    http: 409,
    fix: 'Start `muster serve` with the same store on another host, wait until `muster host list` shows it as standby, then order it again.',
  },
  E_CLOCK: {
    title: "The boot host's clock is in doubt.",
    who: 'operator',
    http: 503,
    fix: 'Set the clock of the boot host: install chrony or systemd-timesyncd, and name `timeServers` in the Cluster. Until then nothing is issued or rotated; what runs goes on.',
  },
  E_LATER_KEYS: {
    title: 'Machines of a cluster have later keys than this restored store.',
    who: 'operator',
    http: 409,
    fix: 'Restore a backup that was taken after the rotation. If there is none, see docs/rotation.md, "The store was restored to before a rotation".',
  },
  E_FOUNDED: {
    title: 'A setting of a founded cluster cannot change.',
    who: 'operator',
    http: 409,
    fix: 'Put the former value back; another value needs another cluster, or the commands that the message names. `muster cluster running NAME` shows what the cluster runs.',
  },
  E_SKEW: {
    title: 'A version does not fit what the cluster runs.',
    who: 'operator',
    http: 409,
    fix: 'Name the version that the message gives; `muster cluster running NAME` shows what runs, docs/upgrading.md the order of upgrades.',
  },
  E_CONFIRM: {
    title: 'A change of a running cluster has to be confirmed.',
    who: 'operator',
    http: 409,
    fix: 'Read what the message says about the change; if you accept it, repeat the command with --confirm and the name of the cluster.',
  },
  E_UPGRADE: {
    title: 'An upgrade cannot begin.',
    who: 'operator',
    http: 409,
    fix: 'Correct what each fault names, then repeat the command; `muster cluster upgrade NAME --dry-run` checks without changing anything.',
  },
  E_HEAL: {
    title: 'A machine keeps its place: it may run, its cluster needs it, or no spare fits.',
    who: 'operator',
    http: 409,
    fix: 'Correct what the message names; `muster cluster heal CLUSTER MACHINE --dry-run` checks without changing anything.',
  },
  E_ROLL: {
    title: 'Machines cannot be rebooted one after the other.',
    who: 'operator',
    http: 409,
    fix: 'Correct what each fault names, or leave the machine out with --without; `muster cluster roll NAME --dry-run` checks without changing anything.',
  },
  E_BMC: {
    title: 'The BMC of a machine cannot be reached, or does not do what it is asked for.',
    who: 'operator',
    http: 409,
    fix: 'Name the BMC in `spec.bmc` of the Machine; `muster power status NAME` shows what it answers. docs/power.md explains both.',
  },
} as const;
