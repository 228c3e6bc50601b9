/** Registers `muster power`, and the verbs of `muster machine` that ask a BMC. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Io } from '../io.ts';
import type { Finish, Register } from '../register.ts';
import { outputOption, withExamples, withServer } from '../register.ts';
import type { PowerWord } from './power.ts';

const ABOUT = {
  on: 'Switches machines on. Each order ends when the first packet of the machine is heard, or with a name that says what did not happen.',
  off: 'Shuts machines down, and takes the power from those that do not end within five minutes.',
  cycle: 'Takes the power from machines for a while, and switches them on again.',
  reset: 'Restarts machines at once, without their systems being told.',
} as const;
const SHORT = {
  on: 'switch machines on, and wait for their first packet',
  off: 'shut machines down, or take their power',
  cycle: 'switch machines off and on again',
  reset: 'restart machines at once',
} as const;
const EXAMPLE: Readonly<Record<PowerWord, readonly (readonly [string, string])[]>> = {
  on: [
    ['muster power on node-1 --boot network --wait ready', 'install a machine, and wait until it is ready'],
    ['muster power on -l rack=a --stagger 2s --at-once 10 --yes', 'switch a rack on, a few machines at once'],
  ],
  off: [['muster power off node-1', 'shut a machine down']],
  cycle: [['muster power cycle node-1', 'restart a machine that hangs']],
  reset: [['muster power reset node-1', 'restart a machine that hangs, without switching it off']],
};

const count = (text: string): number => {
  if (/^[1-9][0-9]{0,3}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It is a number from 1 on.');
};

export const registerPower: Register = (program, io, finish) => {
  const power = program
    .command('power')
    .summary('switch machines on and off through their BMCs')
    .description('Switches machines on and off, restarts them and shows their power, through their BMCs.');
  const status = withServer(
    power
      .command('status')
      .summary('show whether machines are on')
      .description(
        'Asks the BMCs of machines whether they are on, and shows the last order about each. Exit code 1: one does not say.',
      )
      .argument('[machine...]', 'names (default: all that have a BMC)')
      .option('-l, --selector <labels>', 'those with these labels: key=value,key!=value')
      .option('--last', 'what was read last, without asking')
      .addOption(outputOption('table', 'wide', 'json', 'yaml')),
  ).action(async (machines: string[], options) =>
    finish(await (await import('./power.ts')).powerStatus(machines, options, io)),
  );
  withExamples(status, ['muster power status -l rack=a', 'look at a rack']);
  for (const word of ['on', 'off', 'cycle', 'reset'] as const) register(power, word, io, finish);
  const forget = withServer(
    power
      .command('forget')
      .summary("accept a BMC's new certificate, or try its log-in again")
      .description(
        'Forgets what was learnt of the BMC of a machine: the next certificate that it shows counts, and a log-in that it refused twice is tried again. Make sure first that the certificate changed for a reason.',
      )
      .argument('<machine>', 'name'),
  ).action(async (machine: string, options) =>
    finish(await (await import('./power.ts')).forgetBmc(machine, options, io)),
  );
  withExamples(forget, ['muster power forget node-1', 'after the board of a machine was replaced']);
};

function register(power: Command, word: PowerWord, io: Io, finish: Finish): void {
  const command = withServer(
    power
      .command(word)
      .summary(SHORT[word])
      .description(ABOUT[word])
      .argument('[machine...]', 'names')
      .option('-l, --selector <labels>', 'those with these labels that have a BMC: key=value,key!=value')
      .option('--stagger <duration>', 'between the beginnings of two machines, such as 2s')
      .addOption(new Option('--at-once <number>', 'how many are under way at once').argParser(count))
      .option('--dry-run', 'show what it is about, and change nothing')
      .option('--yes', 'needed for more than one machine, after the preview')
      .addOption(outputOption('table', 'wide', 'json', 'yaml')),
  );
  if (word === 'off')
    command
      .option('--now', 'take the power at once')
      .option('--within <duration>', 'how long a system may take to end itself (default: 5m)');
  else
    command
      .addOption(
        new Option('--boot <place>', 'where the next boot alone comes from').choices([
          'network',
          'http',
          'disk',
          'setup',
        ]),
      )
      .option('--patience <duration>', 'how long each attempt waits for the first packet (default: 5m)');
  command.addOption(
    new Option('--wait <what>', 'until when to wait').choices(
      word === 'off' ? ['order', 'none'] : ['order', 'ready', 'none'],
    ),
  );
  command.action(async (machines: string[], options) =>
    finish(await (await import('./power.ts')).power(word, machines, options, io)),
  );
  withExamples(command, ...EXAMPLE[word]);
}

/** Adds `boot` and `identify` to `muster machine`. */
export function registerBmc(...[machine, io, finish]: Parameters<Register>): void {
  const boot = withServer(
    machine
      .command('boot')
      .summary('set where the next boot of a machine comes from')
      .description(
        'Tells the BMC of a machine where its next boot alone comes from, and reads it back. The machine stays as it is; some BMCs forget it after a minute, so restart the machine at once, or use `muster power cycle --boot`.',
      )
      .argument('<machine>', 'name')
      .addOption(
        new Option(
          '--once <place>',
          'network (PXE), http (UEFI HTTP, by Redfish alone), disk, or the setup of the firmware',
        )
          .choices(['network', 'http', 'disk', 'setup'])
          .makeOptionMandatory(),
      ),
  ).action(async (name: string, options) =>
    finish(await (await import('./power.ts')).bootOnce(name, options, io)),
  );
  withExamples(boot, ['muster machine boot node-1 --once setup', 'reach the setup of the firmware next']);
  const identify = withServer(
    machine
      .command('identify')
      .summary('light the lamp of a machine')
      .description('Lights the lamp of a machine by its BMC, so that it is found in its rack.')
      .argument('<machine>', 'name')
      .addOption(new Option('--seconds <number>', 'how long, at most 255 (default: 60)').argParser(count))
      .option('--off', 'put it out'),
  ).action(async (name: string, options) =>
    finish(await (await import('./power.ts')).identify(name, options, io)),
  );
  withExamples(identify, ['muster machine identify node-1', 'find a machine in its rack']);
}
