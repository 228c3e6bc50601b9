/** Registers `muster signer …`: the process that has the vault's key, and its orders. */
import { type Command, Option } from 'commander';
import { notEmpty, outputOption, type Register, withExamples } from '../register.ts';

const withSigner = (command: Command): Command =>
  command.option(
    '--socket <path>',
    "the signer's socket for root",
    notEmpty,
    '/run/muster-signer/operator.sock',
  );

export const registerSigner: Register = (program, io, finish) => {
  const signer = program
    .command('signer')
    .summary("run and steer the process that has the vault's key")
    .description(
      "Runs and steers muster-signer, a process without network that has the vault's key and signs by its rules. The server asks it with `muster serve --signer SOCKET`.",
    );
  const run = signer
    .command('run')
    .summary('run the signer')
    .description('Runs the signer in the foreground. The unit muster-signer.service does it.')
    .option(
      '--state <dir>',
      'its directory: its log, and the machines that were admitted',
      notEmpty,
      '/var/lib/muster-signer',
    )
    .option(
      '--config <dir>',
      'directory with documents that only root writes: its machines may have certificates',
      notEmpty,
    )
    .option(
      '--vault-key <file>',
      "file with the vault's key; else the systemd credential muster-vault-key, else vault.key in its directory",
      notEmpty,
    )
    .option('--directory <dir>', 'makes its sockets there; else the service manager passes them', notEmpty)
    .action(async (options) => finish(await (await import('./run.files.ts')).run(options, io)));
  withExamples(run, [
    'muster signer run --state signer --config config --directory signer/run',
    'try it on one host, beside `muster serve --signer signer/run/server.sock`',
  ]);
  const admit = withSigner(
    signer
      .command('admit')
      .summary('let machines have certificates and keys')
      .description(
        'Adds machines to the inventory of the signer. Machines with a document in its --config directory are in it already. Only a control plane gets the keys with which a cluster signs.',
      )
      .argument('<machine...>', 'names of machines')
      .requiredOption('--cluster <name>', 'their cluster', notEmpty)
      .addOption(
        new Option('--role <role...>', 'what they are')
          .choices(['control-plane', 'etcd', 'worker'])
          .default(['worker']),
      ),
  ).action(async (machines: string[], options) =>
    finish(await (await import('./orders.ts')).approve(machines, options, io)),
  );
  withExamples(admit, [
    'muster signer admit cp1 cp2 cp3 --cluster blue --role control-plane etcd',
    'let three control planes have the keys of their cluster',
  ]);
  const withdraw = withSigner(
    signer
      .command('withdraw')
      .summary('take machines out again')
      .description('Takes machines out of those that were admitted. What they got already ends by rotations.')
      .argument('<machine...>', 'names of machines'),
  ).action(async (machines: string[], options) =>
    finish(await (await import('./orders.ts')).withdraw(machines, options, io)),
  );
  withExamples(withdraw, ['muster signer withdraw cp3', 'let it have nothing more']);
  const allow = withSigner(
    signer
      .command('allow')
      .summary('let private keys be given out or taken for five minutes')
      .description(
        'Proves that somebody at the host wishes it: `export` before `muster pki export`, `import` before `muster pki import` and `muster cluster adopt-kubeadm`.',
      )
      .argument('<what>', 'export or import'),
  ).action(async (what: string, options) =>
    finish(await (await import('./orders.ts')).allow(what, options, io)),
  );
  withExamples(allow, ['muster signer allow export', 'let the next `muster pki export` have the keys']);
  const status = withSigner(
    signer
      .command('status')
      .summary('show keys, machines and log of the signer')
      .description('Shows the keys that the signer has, the machines that it signs for, and its log.')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (options) => finish(await (await import('./orders.ts')).status(options, io)));
  withExamples(status, ['muster signer status', 'see which machines may have certificates']);
};
