/** The verbs about snapshots of a cluster's etcd. */
import type { Command } from 'commander';
import type { Io } from '../io.ts';
import { type Finish, outputOption, withExamples, withServer } from '../register.ts';

/** Adds `muster cluster backup`, `backups`, `backup verify` and `backup get`. */
export function backupVerbs(cluster: Command, io: Io, finish: Finish): void {
  const list = withServer(
    cluster
      .command('backups')
      .summary('list the snapshots of etcd')
      .description(
        "Lists the snapshots of a cluster's etcd that the boot host keeps, the one that is being taken, when the next one is due, and why the last one failed.",
      )
      .argument('<cluster>', 'name of the Cluster')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (name: string, options) =>
    finish(await (await import('./backup.files.ts')).listBackups(name, options, io)),
  );
  withExamples(list, ['muster cluster backups blue', 'see the snapshots and when the next is due']);
  const backup = cluster
    .command('backup')
    .summary('take a snapshot of etcd now')
    .description(
      "Takes a snapshot of a cluster's etcd: a healthy member makes it, and the boot host keeps it sealed. Waits until it is there, or the reason why not is known.",
    );
  withServer(
    backup
      .argument('<cluster>', 'name of the Cluster')
      .option('--no-wait', 'only order it; `muster cluster backups` shows it'),
  ).action(async (name: string, options) =>
    finish(await (await import('./backup.files.ts')).takeBackup(name, options, io)),
  );
  withExamples(backup, ['muster cluster backup blue', 'take a snapshot before a risky change']);
  const verify = withServer(
    backup
      .command('verify')
      .summary('read a snapshot to its end and check it')
      .description(
        "Decrypts a snapshot and compares etcd's SHA-256 at its end. With --etcdutl, etcd's own tool opens it here, too; it must find the same hash and revision.",
      )
      .argument('<cluster>', 'name of the Cluster')
      .argument('[id]', 'id of the snapshot (default: the newest)')
      .option('--etcdutl <program>', 'program `etcdutl` (of etcd 3.4: `etcdctl`) of this host'),
  ).action(async (name: string, id: string | undefined, _options, command: Command) =>
    // Commander gives options that `backup` has as well, such as --socket, to `backup`.
    finish(await (await import('./backup.files.ts')).verifyBackup(name, id, command.optsWithGlobals(), io)),
  );
  withExamples(verify, ['muster cluster backup verify blue', 'check the newest snapshot']);
  const get = withServer(
    backup
      .command('get')
      .summary('write a snapshot in the clear to a file')
      .description(
        'Writes a snapshot to a file that etcd itself can restore. The file is not encrypted: it holds everything that is in etcd.',
      )
      .argument('<cluster>', 'name of the Cluster')
      .argument('<id>', 'id of the snapshot')
      .requiredOption('-o, --output <file>', 'the file; it must not exist'),
  ).action(async (name: string, id: string, _options, command: Command) =>
    finish(await (await import('./backup.files.ts')).getBackup(name, id, command.optsWithGlobals(), io)),
  );
  withExamples(get, [
    'muster cluster backup get blue 20261126T060000Z-1f2e -o blue.db',
    'take a snapshot to another system',
  ]);
}

/** Adds `muster cluster adopt-kubeadm`. */
export function movingVerbs(cluster: Command, io: Io, finish: Finish): void {
  const adopt = withServer(
    cluster
      .command('adopt-kubeadm')
      .summary('take over a cluster that kubeadm made')
      .description(
        'Reads kubeadm-config.yaml (the ClusterConfiguration) and pki/ (a copy of /etc/kubernetes/pki of a control plane) from a directory, writes a Cluster document and says what differs. With --confirm the boot host also takes over the keys and records that the cluster is founded, so that no machine founds another etcd.',
      )
      .argument('<directory>', 'directory with kubeadm-config.yaml and pki/')
      .requiredOption('--cluster <name>', 'name of the Cluster')
      .requiredOption('--control-planes <machine...>', 'names of the control planes, as those of their Nodes')
      .option('--workers <machine...>', 'names of the workers')
      .option('-o, --output <file>', 'file for the document (default: standard output)')
      .option('--confirm <name>', "the cluster's name again, to take over its keys"),
  ).action(async (directory: string, options) =>
    finish(await (await import('./adopt-kubeadm.files.ts')).adoptKubeadm(directory, options, io)),
  );
  withExamples(adopt, [
    'muster cluster adopt-kubeadm ./copied --cluster blue --control-planes cp1 cp2 cp3 -o blue.yaml',
    'see what would differ, and change nothing',
  ]);
}
