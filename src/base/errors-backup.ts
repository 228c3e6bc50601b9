/** The part of the catalogue of errors (errors.ts) about backups and snapshots. */
export const BACKUP_ERRORS = {
  E_BACKUP: {
    title: 'A backup of the boot host cannot be made or restored.',
    who: 'operator',
    http: 409,
    fix: 'Do what the message says; docs/backup.md has the procedures.',
  },
  E_SNAPSHOT: {
    title: 'A snapshot of etcd cannot be taken, opened or restored.',
    who: 'operator',
    http: 409,
    fix: 'Do what the message says; `muster cluster backups NAME` lists the snapshots, and why the last one failed.',
  },
} as const;
