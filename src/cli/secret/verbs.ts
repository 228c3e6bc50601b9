/** Registers `muster secret put|ls|rm`. */
import { Option } from 'commander';
import { outputOption, type Register, withExamples, withServer } from '../register.ts';
import { GENERATED } from './kinds.ts';

export const registerSecrets: Register = (program, io, finish) => {
  const secret = program
    .command('secret')
    .summary('keep passwords, tokens and keys out of documents')
    .description(
      'Keeps values that no document and no first configuration may hold. Documents name them with valueFrom; the agent of a machine brings them over mutual TLS. Nothing prints a value again.',
    );
  const put = withServer(
    secret
      .command('put')
      .summary('write a value, from a file, standard input, or generated')
      .description(
        'Writes the value of a key of a Secret: from standard input, exactly as it comes, from a file, or a new one. An earlier value is replaced; then it prints which machines still have that.',
      )
      .argument('<name>', 'name of the Secret')
      .argument('<key>', 'key in the Secret')
      .option('--from-file <path>', 'file with the value')
      .addOption(
        new Option(
          '--generate <kind>',
          'make a new value: a password, the hash of a new password (which is printed), a token (base64url) or 64 hexadecimal digits',
        ).choices(GENERATED),
      )
      .option('--print', 'print the generated value, this once'),
  ).action(async (name: string, key: string, options) =>
    finish(await (await import('./secret.ts')).put(name, key, options, io)),
  );
  withExamples(
    put,
    ['muster secret put admin hash --generate password-hash', 'make a password, and keep only its hash'],
    ['muster secret put web tls.key --from-file tls.key', 'keep a private key'],
    ['printf %s "$TOKEN" | muster secret put backup token', 'keep a token that a variable holds'],
  );
  const list = withServer(
    secret
      .command('ls')
      .summary('list Secrets: sizes, times, who uses them, which machines have which')
      .description(
        'Lists Secrets with a line for each key: size, time, the documents that use it, and the machines that have an old value or none yet. Values are never shown.',
      )
      .argument('[name]', 'only this Secret')
      .addOption(outputOption('table', 'wide', 'json', 'yaml')),
  ).action(async (name: string | undefined, options) =>
    finish(await (await import('./secret.ts')).list(name, options, io)),
  );
  withExamples(list, ['muster secret ls', 'see which machines still have an old value']);
  const remove = withServer(
    secret
      .command('rm')
      .summary('remove a Secret, or one of its keys')
      .description('Removes a Secret, or one of its keys. While a document refers to it, it is refused.')
      .argument('<name>', 'name of the Secret')
      .argument('[key]', 'only this key'),
  ).action(async (name: string, key: string | undefined, options) =>
    finish(await (await import('./secret.ts')).remove(name, key, options, io)),
  );
  withExamples(remove, ['muster secret rm backup token', 'remove one key']);
};
