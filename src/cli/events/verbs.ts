/** Registers `muster events`. */
import { InvalidArgumentError } from 'commander';
import { outputOption, type Register, withExamples, withServer } from '../register.ts';

const count = (text: string): string => {
  if (/^[0-9]{1,6}$/.test(text)) return text;
  throw new InvalidArgumentError('It must be a whole number, 0 or more.');
};

export const registerEvents: Register = (program, io, finish) => {
  const events = withServer(
    program
      .command('events')
      .summary('show what happened')
      .description(
        'Prints what happened, newest last: to one machine, cluster or other document, or to all of them.',
      )
      .argument('[subject]', 'name, MAC address, or KIND/NAME')
      .option('--follow', 'keep running, and print events as they happen')
      .option('--security', 'the newest entries of the security log instead, with who acted')
      .option('--tail <count>', 'only that many of the newest', count)
      .addOption(outputOption('table', 'wide', 'json', 'yaml')),
  ).action(async (subject: string | undefined, options) =>
    finish(await (await import('./events.ts')).events(subject, options, io)),
  );
  withExamples(
    events,
    ['muster events node-1', 'show the history of a machine'],
    ['muster events cluster/blue --tail 20', 'show the last events of a cluster'],
    ['muster events --security', 'see who did what'],
    ['muster events --follow', 'watch everything while machines boot'],
  );
};
