/** Registers `muster kubeconfig` and the verbs of `muster pki`. */
import { type Command, Option } from 'commander';
import { breakable, IMPORTED_KEYSETS, OWN_ROTATED, ROTATED } from '../../pki/keysets.ts';
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

export const registerPki: Register = (program, io, finish) => {
  const kubeconfig = withServer(
    program
      .command('kubeconfig')
      .summary('print a kubeconfig with a fresh admin certificate')
      .description(
        'Prints a kubeconfig for the endpoint of a cluster, with an admin certificate and key that are made for this call and valid for 12 hours. It is secret.',
      )
      .argument('<cluster>', 'name of the Cluster')
      .option(
        '--user <name>',
        'who it is for, as audit logs will show it (default: the operator who is logged in, or the calling user)',
        notEmpty,
      )
      .addOption(
        new Option(
          '--exec',
          'print one without a secret, with which kubectl fetches certificates for an hour',
        ).conflicts('credential'),
      )
      .addOption(new Option('--credential', 'print such a certificate, as kubectl asks for it')),
  ).action(async (cluster: string, options) =>
    finish(await (await import('./trust.ts')).kubeconfig(cluster, options, io)),
  );
  withExamples(
    kubeconfig,
    [
      '(umask 077; muster kubeconfig blue > blue.kubeconfig); KUBECONFIG=blue.kubeconfig kubectl get nodes',
      'use kubectl with a cluster',
    ],
    [
      'muster kubeconfig blue --exec > blue.kubeconfig',
      'the same without a secret in the file: kubectl asks muster, as the operator who is logged in',
    ],
  );
  const pki = program
    .command('pki')
    .summary('show and copy keys and certificates')
    .description('Shows keys and certificates, and copies keys.');
  const status = withServer(
    pki
      .command('status')
      .summary('list keys and certificates, and what ends when')
      .description(
        'Lists every keyset with its generations and what depends on them; every certificate with its holder, its end and who renews it; what is renewed or ends within a time; and how long each cluster can do without the boot host.',
      )
      .argument('[cluster]', 'only of this cluster')
      .option('--cluster <name>', 'only of this cluster', notEmpty)
      .option('--within <duration>', 'how far to look ahead (default: 90d)', notEmpty)
      .addOption(outputOption('table', 'wide', 'json', 'yaml')),
  ).action(async (cluster: string | undefined, options) =>
    finish(await (await import('./trust.ts')).pkiStatus(cluster, options, io)),
  );
  withExamples(
    status,
    ['muster pki status blue', "list a cluster's certificates, the next to expire first"],
    ['muster pki status --cluster blue --within 365d -o json', 'what a year brings, for a program'],
  );
  const renewal = withServer(
    pki
      .command('renew')
      .summary("replace certificates of a cluster's machines")
      .description(
        'Replaces the certificates that machines of a cluster have, at their next polls. They renew themselves, so this is for a certificate or key that may have leaked, or for a shorter life. With --new-keys, machines make new keys for them.',
      )
      .argument('<cluster>', 'name of the Cluster')
      .option('--machine <name>', 'only those of this machine', notEmpty)
      .option('--certificate <name>', 'only this one, as `muster pki status` calls it', notEmpty)
      .option('--new-keys', 'for new keys'),
  ).action(async (cluster: string, options) =>
    finish(await (await import('./trust.ts')).renew(cluster, options, io)),
  );
  withExamples(renewal, [
    'muster pki renew blue --machine cp2 --new-keys',
    'give a machine whose keys may have leaked new ones',
  ]);
  registerAuthorities(pki, io, finish);
  const copy = withServer(
    pki
      .command('export')
      .summary('copy all keys into an encrypted file')
      .description(
        'Writes all private keys of a cluster, or of all clusters and of Muster itself, into one file that a passphrase opens (age, recipient scrypt). It asks for the passphrase at the terminal. `muster status` warns while this host has the only copy of a key.',
      )
      .option('--cluster <name>', 'only the keys of this cluster', notEmpty)
      .option('--all', 'all keys, also those of Muster itself')
      .requiredOption('-o, --output <file>', 'the file to write; it must not exist', notEmpty)
      .option('--passphrase-file <file>', 'file whose first line is the passphrase', notEmpty),
  ).action(async (options) => finish(await (await import('./export.files.ts')).exportKeys(options, io)));
  withExamples(
    copy,
    ['muster pki export --all -o keys.age', 'copy all keys of this boot host'],
    ['age -d keys.age | tar -tv', 'list what a copy holds'],
  );
  rotationVerbs(pki, io, finish);
};

const names = (option: string, about: string): [string, string] => [`${option} <name...>`, about];
const WITHOUT = names('--without', 'machines that are off: nothing waits for them');
const LEAVE = names(
  '--leave',
  'what depends on old keys and is left behind, by the name that the search shows',
);

function rotationVerbs(pki: Command, io: Io, finish: Finish): void {
  const rotate = withServer(
    pki
      .command('rotate')
      .summary('replace keys of a cluster, or of Muster itself, while all runs')
      .description(
        'Replaces keys of a running cluster: makes new ones, has every machine trust them, issues every certificate again, and ends the old ones. Each step waits for what machines were seen to do. `muster change` shows how far it is.',
      )
      .argument(
        '<keyset...>',
        `of a cluster: ${ROTATED.join(', ')}; of Muster itself: ${OWN_ROTATED.join(', ')}; or all`,
      )
      .option('--cluster <name>', "name of the Cluster; without it, Muster's own keys are rotated", notEmpty)
      .option('--dry-run', 'only say what would happen: steps, restarts, minutes, the point of no return')
      .option('--pause-before <step...>', 'steps before which it pauses')
      .option(...WITHOUT)
      .option(...LEAVE)
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (keysets: readonly string[], options) =>
    finish(await (await import('./rotate.ts')).rotate(keysets, options, io)),
  );
  withExamples(
    rotate,
    ['muster pki rotate all --cluster blue --dry-run', 'see what a rotation of all keys would do'],
    ['muster pki rotate etcd-ca --cluster blue --pause-before distrust', 'stop before the old CA ends'],
    ['muster pki rotate transport-ca', 'replace the CA by which agents and the boot host trust each other'],
  );
  const distrust = withServer(
    pki
      .command('distrust')
      .summary('end keys at once that are in the wrong hands')
      .description(
        'Makes new keys, and ends the old ones at once instead of step by step. Without --confirm it says what would break. It cannot be rolled back.',
      )
      .argument(
        '<keyset...>',
        `of a cluster: ${breakable('cluster').join(', ')}; of Muster itself: ${breakable('muster').join(', ')}; or all`,
      )
      .option('--cluster <name>', "name of the Cluster; without it, Muster's own keys end", notEmpty)
      .option('--now', 'do it at once')
      .option('--confirm <cluster>', 'repeat the name of the Cluster, or `muster`, to carry it out')
      .option(...WITHOUT),
  ).action(async (keysets: readonly string[], options) =>
    finish(await (await import('./rotate.ts')).distrust(keysets, options, io)),
  );
  withExamples(distrust, [
    'muster pki distrust ca --cluster blue --now',
    'say what would break, and change nothing',
  ]);
  const accept = withServer(
    pki
      .command('accept')
      .summary('let the keys of a restored store count')
      .description(
        'Lets the keys of a restored store count, although the keys of the cluster were rotated after the backup: machines get the keys of this store again, which interrupts the cluster.',
      )
      .argument('<cluster>', 'name of the Cluster')
      .option(...CONFIRM),
  ).action(async (cluster: string, options) =>
    finish(await (await import('./rotate.ts')).accept(cluster, options, io)),
  );
  withExamples(accept, [
    'muster pki accept blue --confirm blue',
    'go on with the keys of this store, where there is no later backup',
  ]);
}

const registerAuthorities: Register = (pki, io, finish) => {
  const bring = withServer(
    pki
      .command('import')
      .summary("use a CA of yours for a cluster's keyset")
      .description(
        'Takes a CA of yours, self-signed or intermediate, with its private key. It signs at once if the keyset has signed nothing yet, for example before the cluster is founded; otherwise after the next rotation of the keyset. Give the certificate of the CA alone: it is trusted itself, and nothing above it.',
      )
      .argument('<cluster>', 'name of the Cluster')
      .argument('<keyset>', IMPORTED_KEYSETS.join(', '))
      .requiredOption('--certificate <file>', 'its certificate in PEM', notEmpty)
      .requiredOption('--key <file>', 'its private key in PEM, without a passphrase', notEmpty),
  ).action(async (cluster: string, keyset: string, options) =>
    finish(await (await import('./authorities.files.ts')).importAuthority(cluster, keyset, options, io)),
  );
  withExamples(bring, [
    'muster pki import blue ca --certificate blue-ca.crt --key blue-ca.key',
    "let a cluster's certificates be signed by a CA of yours",
  ]);
  const seal = withServer(
    pki
      .command('reseal')
      .summary("encrypt all stored keys with the vault's first key")
      .description(
        "Encrypts every private key in the store again with the first key of the vault's file, and says which other lines of that file nothing needs any more. Put the new line first and restart the server before. A call that was interrupted is finished by another one.",
      )
      .option('--dry-run', 'only show which key sealed how many records'),
  ).action(async (options) => finish(await (await import('./authorities.files.ts')).reseal(options, io)));
  withExamples(seal, ['muster pki reseal', 'after a new line was put first into the file of the vault key']);
};
