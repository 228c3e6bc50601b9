/** The part of the catalogue of errors (errors.ts) about backups and snapshots. */
export const BACKUP_ERRORS = {
  E_SNAPSHOT: {
    title: 'A snapshot of etcd cannot be taken, opened or restored.',
    who: 'operator',
    http: 409,
    fix: 'Do what the message says; `muster cluster backups NAME` lists the snapshots, and why the last one failed.',
  },
} as const;
