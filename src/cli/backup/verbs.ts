/** Registers `muster backup …`: backups of the boot host itself. */
import type { Command } from 'commander';
import { collect, notEmpty, type Register, withExamples, withServer } from '../register.ts';

const withKey = (command: Command): Command =>
  command
    .option('--passphrase-file <file>', 'file whose first line is the passphrase', notEmpty)
    .option('--identity <file>', 'file with the identity of age that opens the backup', notEmpty);

export const registerBackup: Register = (program, io, finish) => {
  const backup = program
    .command('backup')
    .summary('back up and restore the boot host')
    .description(
      "Backs up and restores the boot host: its store, vault key and documents. Snapshots of a cluster's etcd are made by `muster cluster backup`.",
    );
  const create = withServer(
    backup
      .command('create')
      .summary('write an encrypted backup of the boot host')
      .description(
        'Writes store, vault key, configuration directory and the list of images and artifacts into one file in the format of age, while the server runs. Without --recipient a passphrase opens it, which is asked for at the terminal.',
      )
      .requiredOption(
        '-o, --output <path>',
        'the file, or a directory for a file with the time as name',
        notEmpty,
      )
      .option('--recipient <age1…>', 'public key of age that can open it (repeatable)', collect)
      .option('--passphrase-file <file>', 'file whose first line is the passphrase', notEmpty)
      .option('--assets', 'the files of images and artifacts as well')
      .option('--keep <n>', 'with a directory: remove all but the n newest backups there'),
  ).action(async (options) => finish(await (await import('./create.files.ts')).create(options, io)));
  withExamples(
    create,
    ['muster backup create -o /srv/backups --recipient age1… --keep 30', 'make a backup without being asked'],
    ['muster backup create -o host.age --assets', 'move a boot host with its images'],
  );
  const verify = withKey(
    backup
      .command('verify')
      .summary('read a backup to its end and check it')
      .description(
        'Decrypts a backup, checks the store in it, and that its vault key opens its keys. Needs no server.',
      )
      .argument('<file>', 'the backup'),
  ).action(async (file: string, options) =>
    finish(await (await import('./restore.files.ts')).verify(file, options, io)),
  );
  withExamples(verify, ['muster backup verify host.age --identity key.txt', 'see what a backup holds']);
  const restore = withKey(
    backup
      .command('restore')
      .summary('make a state directory from a backup')
      .description(
        'Writes a backup into an empty state directory, on this host or another one, without a server. The server that is started there begins another life of the store: it answers machines, but founds, issues and changes nothing until `muster backup accept`.',
      )
      .argument('<file>', 'the backup')
      .option('--state <dir>', 'the state directory', '/var/lib/muster')
      .option('--config <dir>', 'where the configuration directory goes, if the backup has one', notEmpty),
  ).action(async (file: string, options) =>
    finish(await (await import('./restore.files.ts')).restore(file, options, io)),
  );
  withExamples(restore, [
    'muster backup restore host.age --identity key.txt --config /etc/muster/config',
    'replace a boot host that is lost',
  ]);
  const accept = withServer(
    backup
      .command('accept')
      .summary('let a restored store serve')
      .description(
        'Says that the store that was restored here is the right one. Machines that had spoken to another one follow this one from now on. Without --confirm it shows what is known.',
      )
      .option('--confirm', 'it is the right one'),
  ).action(async (options) => finish(await (await import('./accept.ts')).accept(options, io)));
  withExamples(accept, ['muster backup accept', 'see what machines reported, and change nothing']);
  const schedule = backup
    .command('schedule')
    .summary('write a timer that makes backups')
    .description(
      'Writes the units muster-backup.service and muster-backup.timer, which make a backup for a recipient of age. Enable it with `systemctl enable --now muster-backup.timer`.',
    )
    .requiredOption('--to <dir>', 'directory of the backups', notEmpty)
    .requiredOption('--recipient <age1…>', 'public key of age that can open them (repeatable)', collect)
    .option('--every <calendar>', 'when, as systemd.time writes it', 'daily')
    .option('--keep <n>', 'how many are kept', '30')
    .option('--units <dir>', 'where the units go', '/etc/systemd/system')
    .action(async (options) => finish(await (await import('./schedule.files.ts')).schedule(options, io)));
  withExamples(schedule, [
    'muster backup schedule --to /srv/backups --recipient age1…',
    'make a backup every day',
  ]);
};
