/** Registers `muster kubeconfig`, `muster pki status` and `muster pki export`. */
import { notEmpty, outputOption, type Register, withExamples, withServer } from '../register.ts';

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
        'who it is for, as audit logs will show it (default: the calling user)',
        notEmpty,
      ),
  ).action(async (cluster: string, options) =>
    finish(await (await import('./trust.ts')).kubeconfig(cluster, options, io)),
  );
  withExamples(kubeconfig, [
    '(umask 077; muster kubeconfig blue > blue.kubeconfig); KUBECONFIG=blue.kubeconfig kubectl get nodes',
    'use kubectl with a cluster',
  ]);
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
};
