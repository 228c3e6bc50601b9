/** Registers `muster change`. */
import { outputOption, type Register, withExamples, withServer } from '../register.ts';

export const registerChange: Register = (program, io, finish) => {
  const change = withServer(
    program
      .command('change')
      .summary('show the change of a cluster, pause it, resume it, or roll it back')
      .description(
        'Shows the steps of the change of a cluster that is under way, or of the last one, and what it waits for: of a rotation of keys, an upgrade, or a roll; as `NAME.agents`, of an upgrade of its agents. With an order it is paused, resumed, rolled back until its point of no return, or followed until it ends; `leave-out` waits no longer for machines. The verbs that begin one are `muster cluster upgrade`, `muster cluster roll`, `muster cluster upgrade-agents`, `muster pki rotate` and `muster pki distrust`.',
      )
      .argument(
        '<cluster>',
        "name of the Cluster; NAME.agents, for its agents; _muster, for Muster's own keys",
      )
      .argument('[order]', 'pause, resume, roll-back, leave-out or watch')
      .argument('[machine...]', 'with leave-out: machines that are not waited for')
      .option(
        '--leave <name...>',
        'with leave-out: what depends on old keys and is left behind, by the name that the search shows',
      )
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (cluster: string, order: string | undefined, machines: readonly string[], options) =>
    finish(await (await import('./change.ts')).change(cluster, order, machines, options, io)),
  );
  withExamples(
    change,
    ['muster change blue', 'see how far a change is, and what it waits for'],
    ['muster change blue watch', 'follow it until it ends'],
    ['muster change blue pause', 'let nothing else restart, and no other step begin'],
    ['muster change blue leave-out w7', 'do not wait for a machine that is off'],
    ['muster change _muster roll-back', "take the rotation of Muster's own keys back"],
  );
};
