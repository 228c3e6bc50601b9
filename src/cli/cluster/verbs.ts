/** Registers `muster cluster …`. */
import type { Command } from 'commander';
import type { Io } from '../io.ts';
import {
  CONFIRM,
  type Finish,
  notEmpty,
  outputOption,
  type Register,
  withExamples,
  withServer,
} from '../register.ts';
import { backupVerbs, movingVerbs } from './backup-verbs.ts';

export const registerCluster: Register = (program, io, finish) => {
  const cluster = program
    .command('cluster')
    .summary('check clusters, add and remove nodes, found and restore etcd')
    .description(
      'Checks clusters, adds and removes nodes, founds and restores etcd. A cluster is created and changed by its documents: `muster apply`.',
    );
  healthVerbs(cluster, io, finish);
  runningVerbs(cluster, io, finish);
  healVerb(cluster, io, finish);
  foundingVerbs(cluster, io, finish);
  nodeVerbs(cluster, io, finish);
  recoveryVerbs(cluster, io, finish);
  backupVerbs(cluster, io, finish);
  movingVerbs(cluster, io, finish);
  withExamples(
    cluster,
    ['muster apply -f blue.yaml', 'create a cluster, or change it'],
    ['muster cluster status blue', 'see whether a cluster is healthy, and what to do if it is not'],
    ['muster cluster add-node blue node-4', 'add a worker'],
  );
};

function healthVerbs(cluster: Command, io: Io, finish: Finish): void {
  const status = withServer(
    cluster
      .command('status')
      .summary('show whether a cluster is healthy')
      .description(
        'Shows whether a cluster is healthy: a line for each check of etcd, API servers, nodes, leases, requests, certificates and machines, with what to do about a failure. Exit code 0 only if every check passes.',
      )
      .argument('<cluster>', 'name of the Cluster')
      .option('--etcd', 'only etcd and its machines')
      .addOption(outputOption('table', 'wide', 'json', 'yaml')),
  ).action(async (name: string, options) =>
    finish(await (await import('./health.ts')).status(name, options, io)),
  );
  withExamples(status, ['muster cluster status blue', 'check a cluster']);
  const verify = withServer(
    cluster
      .command('verify')
      .summary('check a cluster, and its network from pods')
      .description(
        'Makes the checks of `status`, and has pods on up to 16 nodes ask DNS and reach a Service; the pods are deleted afterwards. Exit code 0 only if every check passes.',
      )
      .argument('<cluster>', 'name of the Cluster')
      .option('--wait [duration]', 'repeat until every check passes, for at most this long (default: 15m)')
      .option('--etcd', 'only etcd and its machines')
      .option(
        '--probe-image <image>',
        "image with a shell, nslookup and nc (default: flannel's or kube-router's, which every node has)",
      )
      .addOption(outputOption('table', 'wide', 'json', 'yaml')),
  ).action(async (name: string, options) =>
    finish(await (await import('./health.ts')).verify(name, options, io)),
  );
  withExamples(verify, ['muster cluster verify blue --wait 20m', 'wait until a new cluster works']);
}

function runningVerbs(cluster: Command, io: Io, finish: Finish): void {
  const running = withServer(
    cluster
      .command('running')
      .summary('show which versions run')
      .description(
        'Shows the Kubernetes version that a founded cluster may run, and for each machine which versions its agent found running.',
      )
      .argument('<cluster>', 'name of the Cluster')
      .addOption(outputOption('table', 'wide', 'json', 'yaml')),
  ).action(async (name: string, options) =>
    finish(await (await import('./running.ts')).running(name, options, io)),
  );
  withExamples(running, ['muster cluster running blue', 'see which versions the machines run']);
  const agents = withServer(
    cluster
      .command('upgrade-agents')
      .summary('try again to upgrade the agents of machines')
      .description(
        'Begins another attempt to bring machines the agent of this version of Muster. The first one begins by itself: one control plane takes the agent, the others when it has reported. A machine whose new agent does not report runs the old one again, and no further machine gets the new one until another attempt. `muster change NAME.agents` shows how far it is.',
      )
      .argument('<cluster>', 'name of the Cluster')
      .option('--paused', 'no machine takes an agent, also none of a later Muster, until `resume`')
      .option('--dry-run', 'show which agents the machines run, and what is due')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (name: string, options) =>
    finish(await (await import('./change.ts')).upgradeAgents(name, options, io)),
  );
  withExamples(
    agents,
    ['muster cluster upgrade-agents blue --dry-run', 'see which agents the machines run'],
    ['muster cluster upgrade-agents blue', 'try again where a new agent was taken back'],
    ['muster change blue.agents pause', 'let no other machine take the new agent'],
  );
  const upgrade = withServer(
    cluster
      .command('upgrade')
      .summary('upgrade Kubernetes, etcd and the container runtime of a running cluster')
      .description(
        'Upgrades a running cluster step by step, each step when its evidence is there: a snapshot of etcd, images, etcd, API servers, controller managers and schedulers, control planes, add-ons, workers. With --to it edits the version in the document; without, it begins what the document asks for. `muster change` shows how far it is.',
      )
      .argument('<cluster>', 'name of the Cluster')
      .option('--to <version>', 'the version of Kubernetes to go to')
      .option('--dry-run', 'check, and show the steps')
      .option('--until <part>', 'pause after this part: etcd, soak, control-plane or canary')
      .option(
        '--soak <duration>',
        'to another minor version in two phases: its control plane serves as the old one for so long',
      )
      .option('--without <worker...>', 'do not wait for these workers')
      .option(
        '--max-unavailable <number>',
        'how many workers are changed at a time (default: as many as nodes[].maxUnavailable allows together, or 1)',
      )
      .option('--now', 'also outside of the maintenance windows, if those hold upgrades')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (name: string, options) =>
    finish(await (await import('./change.ts')).upgrade(name, options, io)),
  );
  withExamples(
    upgrade,
    ['muster cluster upgrade blue --to 1.36.3 --dry-run', 'check, and see the steps'],
    ['muster cluster upgrade blue --to 1.36.3 --until control-plane', 'upgrade all but the workers'],
    ['muster change blue resume', 'continue with the workers'],
    ['muster cluster upgrade blue --to 1.36.3 --soak 24h', 'keep the way back open for a day'],
  );
  const roll = withServer(
    cluster
      .command('roll')
      .summary('reboot the machines of a running cluster one after the other')
      .description(
        'Reboots machines: each is drained, reboots, and takes pods again before the next one; one worker first, then control planes and members of etcd one at a time, then the other workers. Machines boot the image that their profile names. `muster change` shows how far it is.',
      )
      .argument('<cluster>', 'name of the Cluster')
      .option('--machines <machine...>', 'only these machines (default: all)')
      .option('--outdated', 'only machines that run another image than they would boot')
      .option('--now', 'also outside of the maintenance windows of the Cluster')
      .option('--dry-run', 'check, and show the machines, their images and the steps')
      .option('--without <machine...>', 'leave these machines out')
      .option(
        '--max-unavailable <number>',
        'how many workers are down at a time (default: as many as nodes[].maxUnavailable allows together, or 1)',
      )
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (name: string, options) =>
    finish(await (await import('./change.ts')).roll(name, options, io)),
  );
  withExamples(
    roll,
    ['muster cluster roll blue --outdated --dry-run', 'see which machines run an older image'],
    ['muster cluster roll blue --outdated', 'bring the new image to these machines'],
    ['muster cluster roll blue --machines w1 w2', 'reboot two machines'],
  );
}

function healVerb(cluster: Command, io: Io, finish: Finish): void {
  const heal = withServer(
    cluster
      .command('heal')
      .summary('let a spare take the place of a lost machine')
      .description(
        'Gives a lost machine the hardware of a spare: its BMC switches it off, its certificate ends, and the spare gets its name and addresses, boots and joins. Where a Cluster names `spares`, this begins by itself if a BMC proves that the machine is off; without one, you say with --off that you have switched it off. `muster change` shows how far it is.',
      )
      .argument('<cluster>', 'name of the Cluster')
      .argument('<machine>', 'the machine that is lost')
      .option('--with <spare>', 'the machine that takes its place (default: one that the Cluster selects)')
      .option('--off <machine>', "the lost machine's name again: it is switched off, and stays so")
      .option('--dry-run', 'check, and show what would happen')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (name: string, machine: string, options) =>
    finish(await (await import('./change.ts')).heal(name, machine, options, io)),
  );
  withExamples(
    heal,
    ['muster cluster heal blue cp-2 --dry-run', 'see which spare would take its place, or why none can'],
    ['muster cluster heal blue cp-2 --off cp-2', 'replace it after you have taken its power away'],
  );
}

function foundingVerbs(cluster: Command, io: Io, finish: Finish): void {
  const plan = withServer(
    cluster
      .command('plan')
      .summary("print the plan of a machine's agent")
      .description(
        'Prints what the agent of a machine of a cluster has to do once it has its certificates: the lines of its plan, and the files.',
      )
      .argument('<machine>', 'name of the Machine')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (name: string, options) =>
    finish(await (await import('./founding.ts')).plan(name, options, io)),
  );
  withExamples(
    plan,
    ['muster cluster plan cp1', "print a machine's plan"],
    ['muster diff -f blue.yaml', 'show what a change of the document would change'],
  );
  const founding = withServer(
    cluster
      .command('founding')
      .summary("show how far the founding of a cluster's etcd is")
      .description(
        "Shows how far the founding of a cluster's etcd is, and what Muster decided for each member.",
      )
      .argument('<cluster>', 'name of the Cluster')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (name: string, options) =>
    finish(await (await import('./founding.ts')).founding(name, options, io)),
  );
  withExamples(founding, [
    'muster cluster founding blue',
    'see which etcd member the founding is waiting for',
  ]);
  const found = withServer(
    cluster
      .command('found')
      .summary('found etcd without waiting for absent members')
      .description(
        'Founds etcd with the members that have asked, without waiting for those that are absent. Without this order it is founded when all members have asked.',
      )
      .argument('<cluster>', 'name of the Cluster')
      .option(...CONFIRM),
  ).action(async (name: string, options) =>
    finish(await (await import('./founding.ts')).found(name, options, io)),
  );
  withExamples(found, ['muster cluster found blue', 'say what could be lost, and change nothing']);
  const client = withServer(
    cluster
      .command('etcd-client')
      .summary("make a client certificate for a cluster's etcd")
      .description(
        'Writes ca.crt, client.crt and client.key, valid for 12 hours, into a directory, and prints the settings that etcdctl reads from its environment; or prints everything as JSON or YAML. The key is secret: it gives access to all of etcd.',
      )
      .argument('<cluster>', 'name of the Cluster')
      .argument('[directory]', 'directory for the files; created when missing')
      .option(
        '--user <name>',
        "who it is for, as the certificate's subject (default: the calling user)",
        notEmpty,
      )
      .addOption(outputOption('json', 'yaml')),
  ).action(async (name: string, directory: string | undefined, options) =>
    finish(await (await import('./etcd-client.files.ts')).etcdClient(name, directory, options, io)),
  );
  withExamples(client, [
    'eval "$(muster cluster etcd-client blue ./etcd)"; etcdctl endpoint status',
    'use etcdctl with the etcd of a cluster',
  ]);
}

function nodeVerbs(cluster: Command, io: Io, finish: Finish): void {
  const add = withServer(
    cluster
      .command('add-node')
      .summary('add machines to a cluster')
      .description(
        "Adds machines to the Cluster's document, as editing it would. They join when they are powered on; members of etcd join one at a time.",
      )
      .argument('<cluster>', 'name of the Cluster')
      .argument('<machine...>', 'names of Machines')
      .option('--control-plane', 'as control planes (default: as workers)')
      .option('--etcd', 'as members of an external etcd'),
  ).action(async (name: string, machines: string[], options) =>
    finish(await (await import('./members.ts')).addNode(name, machines, options, io)),
  );
  withExamples(
    add,
    ['muster cluster add-node blue node-4 node-5', 'add two workers'],
    ['muster cluster add-node blue cp2 cp3 --control-plane', 'go from one control plane to three'],
  );
  const remove = withServer(
    cluster
      .command('remove-node')
      .summary('remove machines from a cluster, running or dead')
      .description(
        "Removes machines, running or dead: from the Cluster's document, by draining them, from etcd while the other members keep its quorum, and their Nodes; then it stops everything of the cluster on them.",
      )
      .argument('<cluster>', 'name of the Cluster')
      .argument('<machine...>', 'names; several when the number of members of etcd has to stay odd')
      .option('--replace-with <machine...>', 'names of Machines that take their places, in this order')
      .option('--clear', "delete the cluster's data on their data disks")
      .option('--no-drain', 'do not evict their pods first')
      .option('--drain-timeout <duration>', 'how long pods may take to end', '5m'),
  ).action(async (name: string, machines: string[], options) =>
    finish(await (await import('./members.ts')).removeNode(name, machines, options, io)),
  );
  withExamples(
    remove,
    ['muster cluster remove-node blue node-4', 'drain a worker and remove it'],
    ['muster cluster remove-node blue cp2 --replace-with cp4', 'replace a dead control plane'],
  );
}

function recoveryVerbs(cluster: Command, io: Io, finish: Finish): void {
  const compromised = withServer(
    cluster
      .command('compromised')
      .summary('show what a stolen machine had, and shut it out')
      .description(
        'Lists the keys and certificates that a machine of the cluster had, until when each is worth something, and which rotation ends it. With --confirm it also puts the machine in quarantine and deletes its pods.',
      )
      .argument('<cluster>', 'name of the Cluster')
      .requiredOption('--machine <name>', 'the machine')
      .option('--confirm <machine>', "the machine's name again, to put it in quarantine")
      .option('--reason <text>', 'why, for the quarantine')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (name: string, options) =>
    finish(await (await import('../machine/quarantine.ts')).compromised(name, options, io)),
  );
  withExamples(compromised, [
    'muster cluster compromised blue --machine cp2',
    'see what a control plane had, and change nothing',
  ]);
  const reset = withServer(
    cluster
      .command('reset')
      .summary('end a cluster and clear its machines')
      .description(
        'Ends a cluster: stops and clears all of its machines. Nothing is founded again until `muster cluster found`. Without --confirm it says what it would do.',
      )
      .argument('<cluster>', 'name of the Cluster')
      .option(...CONFIRM),
  ).action(async (name: string, options) =>
    finish(await (await import('./members.ts')).reset(name, options, io)),
  );
  withExamples(reset, ['muster cluster reset blue', 'say what would be lost, and change nothing']);
  const restore = withServer(
    cluster
      .command('restore')
      .summary("rebuild etcd after its quorum is lost for good, from one member's data or a snapshot")
      .description(
        "Rebuilds etcd from a copy of one member's data, or from a snapshot, as a new founding, after its quorum is lost for good. Data on disks is kept. Without --confirm it says what may be lost.",
      )
      .argument('<cluster>', 'name of the Cluster')
      .option('--from <member>', 'the member whose data is used')
      .option('--backup <id>', 'the snapshot that is used instead')
      .option('--on <member>', 'the member that begins with the snapshot (default: the first that can)')
      .option('--without <member...>', 'silent members that will never come back: their data is abandoned')
      .option(...CONFIRM),
  ).action(async (name: string, options) =>
    finish(await (await import('./members.ts')).restore(name, options, io)),
  );
  withExamples(restore, [
    'muster cluster restore blue --from cp1',
    'say what may be lost, and change nothing',
  ]);
  const reclaim = withServer(
    cluster
      .command('reclaim-space')
      .summary('free the space of an etcd that is full, and let it accept writes again')
      .description(
        'Compacts etcd to its current revision, defragments its members one at a time with the leader last, disarms the alarm NOSPACE, and looks whether a write is accepted. Without --confirm it shows the databases and what it would do.',
      )
      .argument('<cluster>', 'name of the Cluster')
      .option(...CONFIRM),
  ).action(async (name: string, options) =>
    finish(await (await import('./reclaim-space.ts')).reclaimSpace(name, options, io)),
  );
  withExamples(reclaim, [
    'muster cluster reclaim-space blue',
    'see the size of each database, and change nothing',
  ]);
  const callOff = withServer(
    cluster
      .command('call-off')
      .summary('cancel a replacement or restore that cannot finish')
      .description(
        'Cancels what others wait for: the replacement of a member of etcd that never starts, or a restore from the data of a member that died meanwhile.',
      )
      .argument('<cluster>', 'name of the Cluster')
      .argument('<member>', 'the member that is being replaced, or whose data is being restored'),
  ).action(async (name: string, member: string, options) =>
    finish(await (await import('./members.ts')).callOff(name, member, options, io)),
  );
  withExamples(callOff, ['muster cluster call-off blue cp4', 'stop waiting for a replacement']);
  const adopt = withServer(
    cluster
      .command('adopt')
      .summary("accept a member's disk after Muster's store was rolled back")
      .description(
        "Records that the disk that a running member of etcd has now is its own, after Muster's store was rolled back to an older state. etcd has to list the member as well.",
      )
      .argument('<cluster>', 'name of the Cluster')
      .argument('<member>', 'name of the member')
      .option(...CONFIRM),
  ).action(async (name: string, member: string, options) =>
    finish(await (await import('./members.ts')).adopt(name, member, options, io)),
  );
  withExamples(adopt, ['muster cluster adopt blue cp1', 'say what would change, and change nothing']);
}
