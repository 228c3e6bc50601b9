/** Registers `muster serve|status|reload|version`. */
import { Option } from 'commander';
import { collect, outputOption, type Register, withExamples, withServer } from '../register.ts';
import { SERVE_SETTINGS, type ServeSetting, type SettingName } from './options.ts';

export const registerServer: Register = (program, io, finish) => {
  const serve = program
    .command('serve')
    .summary('run the server')
    .description('Runs the server in the foreground. Every option can be set in the environment instead.');
  for (const [name, setting] of Object.entries(SERVE_SETTINGS) as [SettingName, ServeSetting][]) {
    const { flag, about, env, fallback, repeatable } = setting;
    const option = new Option(flag, `${about} (env: ${env}${fallback ? `; default: ${fallback}` : ''})`);
    option.attributeName = () => name;
    if (repeatable) option.argParser(collect);
    serve.addOption(option);
  }
  serve.action(async (options) => finish(await (await import('./serve.ts')).serve(options, io)));
  withExamples(serve, [
    'muster serve --interface eth1 --config /etc/muster',
    'answer the machines on one interface with the documents of a directory',
  ]);
  const status = withServer(
    program
      .command('status')
      .summary('show whether the server is ready')
      .description(
        'Shows what is wrong with the server and its configuration, then its checks. Exit code 1 when it is not ready.',
      )
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (options) => finish(await (await import('./status.ts')).status(options, io)));
  withExamples(status, ['muster status', 'see whether the server answers machines, and if not, why']);
  const top = withServer(
    program
      .command('top')
      .summary('watch what needs an operator, changes, and the fleet')
      .description(
        'Shows what needs an operator, the changes under way, and the machines, the worst first, until Ctrl-C. Without a terminal it prints them once.',
      )
      .option('-l, --selector <labels>', 'only machines with these labels: key=value,key!=value')
      .option('--interval <duration>', 'how long to wait between two looks (default: 2s)')
      .option('--once', 'print it once, and end'),
  ).action(async (options) => finish(await (await import('./top.ts')).top(options, io)));
  withExamples(top, ['muster top -l rack=a', 'watch the machines of one rack boot']);
  const reload = withServer(
    program
      .command('reload')
      .summary('read the configuration directory again')
      .description(
        'Makes the server read its configuration and loader directories again. Exit code 1 when the configuration has faults.',
      )
      .option('--confirm <cluster...>', 'names of clusters in which you accept changes that need it'),
  ).action(async (options) => finish(await (await import('./status.ts')).reload(options, io)));
  withExamples(reload, ['muster reload', 'read changed files now, and see their faults']);
  withServer(
    program
      .command('version')
      .summary('print the version')
      .description('Prints the version of this command and, when it answers, of the server.'),
  ).action(async (options) => finish(await (await import('./status.ts')).version(options, io)));
};
