/** Registers `muster audit`. */
import { collect, outputOption, type Register, withExamples, withServer } from '../register.ts';

export const registerAudit: Register = (program, io, finish) => {
  const audit = program
    .command('audit')
    .summary('check and export the security log')
    .description(
      'Checks and exports the security log: who did what, and what agents, clusters and documents did. `muster events --security` lists it.',
    );
  const verify = withServer(
    audit
      .command('verify')
      .summary('find changed, removed, moved or cut entries')
      .description(
        'Checks every hash and signature of the security log and prints what does not fit. Exit code 1 when something does not. Without a path it checks the log of the server.',
      )
      .argument('[path]', 'a copied directory of the log, or an exported file; - for standard input')
      .option(
        '--key <file>',
        'public key that signed it, as `muster audit key` prints it (repeatable)',
        collect,
      )
      .option(
        '--checkpoint <text>',
        'a checkpoint that was kept: the log must contain it (repeatable)',
        collect,
      )
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (path: string | undefined, options) =>
    finish(await (await import('./verify.ts')).verifyAudit(path, options, io)),
  );
  withExamples(
    verify,
    ['muster audit verify', 'check the log of the server'],
    ['muster audit verify audit.jsonl --key audit.pub', 'check an exported log on another machine'],
  );
  const exported = withServer(
    audit
      .command('export')
      .summary('print the whole security log')
      .description(
        'Prints every entry that is kept, one JSON object a line, oldest first. The last line is a checkpoint.',
      ),
  ).action(async (options) => finish(await (await import('./audit.ts')).exportAudit(options, io)));
  withExamples(exported, ['muster audit export > audit.jsonl', 'keep a copy on another machine']);
  const key = withServer(
    audit
      .command('key')
      .summary('print the public key of the security log')
      .description('Prints the public key that checkpoints are signed with, in PEM. It is no secret.'),
  ).action(async (options) => finish(await (await import('./audit.ts')).auditKey(options, io)));
  withExamples(key, ['muster audit key > audit.pub', 'keep the key, to check copies of the log later']);
  const checkpoint = withServer(
    audit
      .command('checkpoint')
      .summary('print a signed checkpoint to keep elsewhere')
      .description(
        'Signs the log as it is now and prints the checkpoint. Kept on another machine, it shows later whether the log was cut or rewritten.',
      ),
  ).action(async (options) => finish(await (await import('./audit.ts')).auditCheckpoint(options, io)));
  withExamples(checkpoint, ['muster audit checkpoint >> checkpoints.txt', 'keep a checkpoint']);
};
