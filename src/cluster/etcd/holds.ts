/**
 * Why a member's etcd may not start. The codes are stable: machines report them and scripts match
 * them. docs/founding.md lists this table.
 */
export const HOLDS = {
  'waiting-for-members': {
    text: 'Not all members have asked since the server started; an operator may found etcd with those that have.',
    ends: 'Power on the others, or [found etcd without them](#found-etcd-without-an-absent-member).',
  },
  'foreign-marker': {
    text: 'The data disk belongs to another cluster, founding, member or machine.',
    ends: 'Put the right disk in. If nobody needs the data on this one, wipe its first and last MiB.',
  },
  'other-role': {
    text: 'The machine used this data disk in a role without etcd: take the machine out with `remove-node --clear`, then `machine rearm --keep`, and add it again.',
    ends: '[Take it out with `--clear`, and add it again.](operating.md#change-a-machines-role)',
  },
  'data-without-record': {
    text: 'A member has data, but this store has no record of a founding: the store was lost or restored.',
    ends: '[Restore the newest backup of the store.](backup.md#restore-the-boot-host) Nothing is founded meanwhile.',
  },
  'store-rolled-back': {
    text: 'A machine has seen a later state of this store: the store was restored from a backup.',
    ends: '[Restore a newer backup, or adopt members that run.](operating.md#repair-after-the-store-was-rolled-back)',
  },
  'other-filesystem': {
    text: 'The founding was granted to another filesystem of this member, and has not ended.',
    ends: 'Put that disk back; or wait: once the others have a quorum, Muster replaces the member.',
  },
  'removed-disk': {
    text: 'This is a data disk that the member had before it was replaced or taken out. Its data stay as they are.',
    ends: 'Put the present disk back; or `muster cluster remove-node NAME MACHINE --clear`, then `add-node`.',
  },
  'data-lost': {
    text: 'The member had data and has none now, and the founding has not ended.',
    ends: 'Wait: once the others have a quorum, Muster replaces the member.',
  },
  'member-alive': {
    text: 'etcd still answers as this member, although the machine reports no data.',
    ends: 'Check whether two machines have the same address, or the data disk was unmounted under a running etcd.',
  },
  'no-quorum': {
    text: 'The member has no data, and the others have no quorum.',
    ends: 'Power on another member with its disk. If their data are lost: [order a restore](operating.md#restore-after-a-lost-quorum).',
  },
  'replacing-other': {
    text: 'Another member is being replaced; members are replaced one at a time.',
    ends: 'Wait; `muster cluster founding` shows what the replacement waits for.',
  },
  'called-off': {
    text: 'The replacement of this member was called off, and its learner is being removed from etcd.',
    ends: 'Wait; the replacement begins again at the next poll of the member.',
  },
  leaving: {
    text: 'The machine is being taken out of its cluster, as an operator ordered.',
    ends: 'Wait; `muster cluster founding` shows the next step.',
  },
  reset: {
    text: 'The cluster was reset: an operator must found it again or delete it.',
    ends: '`muster cluster found NAME --confirm NAME` founds it again; or delete the Cluster.',
  },
  restoring: {
    text: 'Another member’s data are being restored; this member joins the restored etcd as a learner.',
    ends: 'Wait. If the machine that restores died meanwhile: [call the restore off](operating.md#cancel-a-replacement-or-restore-that-hangs).',
  },
  'unexpected-data': {
    text: 'Data appeared on a disk that was empty when the replacement of its member began.',
    ends: 'Wipe the disk.',
  },
  'no-data-disk': {
    text: 'No disk, or more than one, matches the selector `dataDisk`.',
    ends: 'Correct the selector or the disks. If it is chosen by inventory: [choose it again](inventory.md#choose-the-data-disk).',
  },
  'no-etcd-disk': {
    text: 'No disk, or more than one, matches the selector `etcdDisk`, or the selector of a member whose data are on such a disk is gone.',
    ends: 'Correct the selector or the disks.',
  },
  'foreign-disk': {
    text: 'The disk that matches the selector has data that Muster did not make.',
    ends: 'If nobody needs them, wipe its first and last MiB.',
  },
  'data-not-encrypted': {
    text: 'The data filesystem is new and is not encrypted, and `dataDisk.encrypt` asks for that; or `etcdDisk.encrypt` of the etcd disk.',
    ends: 'Write zeros over the first and last MiB of the disk, and boot the machine again.',
  },
  'not-accepted': {
    text: 'The machine is not accepted: nothing is written to its disks.',
    ends: '`muster machine accept`.',
  },
} as const;

export type HoldCode = keyof typeof HOLDS;
