/** The generated pages as text, by their path from the root of the tree. */

import type { Command } from 'commander';
import { AGENT_ROUTES } from '../src/agent/protocol.ts';
import { PLACES, PORTS } from '../src/api/ports.ts';
import { OPERATOR_ROUTES } from '../src/api/routes.ts';
import { ERRORS, type ErrorKind } from '../src/base/errors.ts';
import { METRICS } from '../src/base/metrics.ts';
import { buildProgram } from '../src/cli/program.ts';
import { examplesOf } from '../src/cli/register.ts';
import { SERVE_SETTINGS, type ServeSetting } from '../src/cli/serve/options.ts';
import { FOUNDING_STEPS } from '../src/cluster/etcd/steps.ts';
import { EVENT_KINDS } from '../src/events/event.ts';
import { ignitionPages } from '../src/ignition/reference.ts';
import { REASONS } from '../src/pxe/decide/decision.ts';
import { DHCP_OUTCOMES } from '../src/pxe/dhcp/outcomes.ts';
import { firmwareDocument } from '../src/pxe/firmware/quirks.ts';
import { KERNEL_ARGUMENTS, MACHINE_ROUTES } from '../src/pxe/http/routes.ts';
import { resourcePages } from '../src/resources/reference.ts';
import { foundingPage } from './founding-page.ts';
import { code, generatedFrom, table } from './markdown.ts';
import { agentTexts, reportTexts } from './script-texts.ts';

export function portsPage(): string {
  return (
    generatedFrom(
      'src/api/ports.ts, src/api/routes.ts, src/api/assets.ts, src/pxe/http/routes.ts, src/agent/protocol.ts and src/cli/serve/options.ts',
    ) +
    '# Ports, sockets, routes and paths\n\n## Ports and sockets\n\n' +
    table(
      ['where', 'protocol', 'who', 'what', 'turned off by'],
      PORTS.map((port) => [port.where, port.protocol, port.who, port.what, port.off]),
    ) +
    '\n## Routes for machines\n\nPlain HTTP. What a MAC address alone can fetch is not secret.\n\n' +
    table(
      ['method', 'path', 'what'],
      Object.values(MACHINE_ROUTES).map((route) => [route.method, code(route.path), route.about]),
    ) +
    '\nKernel arguments that Muster adds:\n\n' +
    table(
      ['argument', 'what'],
      Object.entries(KERNEL_ARGUMENTS).map(([name, about]) => [code(name), about]),
    ) +
    '\n## Routes for agents\n\nHTTPS, its certificate from Muster’s own CA. src/agent/README.md tells what is said there.\n\n' +
    table(
      ['method', 'path', 'what'],
      Object.values(AGENT_ROUTES).map((route) => [route.method, code(route.path), route.about]),
    ) +
    '\n## Routes for operators\n\nOn the unix socket. Errors are RFC 9457 problem details with our code (errors.md). Try: ' +
    '`curl --unix-socket /run/muster/muster.sock http://muster/v1`\n\n' +
    table(
      ['method', 'path', 'what'],
      OPERATOR_ROUTES.map((route) => [route.method, code(route.path), route.summary]),
    ) +
    '\n## Settings of the server\n\n' +
    table(
      ['flag', 'variable', 'default', 'what'],
      Object.values(SERVE_SETTINGS).map((setting: ServeSetting) => [
        code(setting.flag),
        code(setting.env),
        setting.fallback === '' ? '' : code(setting.fallback),
        setting.about,
      ]),
    ) +
    '\n## Files and directories of the installed form\n\n' +
    table(
      ['path', 'mode', 'owner', 'what'],
      PLACES.map((place) => [code(place.path), place.mode, place.owner, place.what]),
    )
  );
}

export function errorsPage(): string {
  return (
    generatedFrom('src/base/errors.ts') +
    '# Errors\n\nThe same code stands in the log, in the API’s problem details (`code`) and on the command line. Codes are never ' +
    'renamed or used again. *Who* is who must act.\n\n' +
    table(
      ['code', 'what', 'who', 'what to do', 'HTTP'],
      (Object.entries(ERRORS) as [string, ErrorKind][]).map(([name, kind]) => [
        code(name),
        kind.title,
        kind.who,
        kind.fix,
        String(kind.http),
      ]),
    )
  );
}

export function metricsPage(): string {
  return (
    generatedFrom('src/base/metrics.ts') +
    '# Metrics\n\nIn the Prometheus text format at `/metrics`: on the operators’ socket, and by TCP with `--metrics-listen`.\n\n' +
    table(
      ['name', 'type', 'labels', 'what'],
      Object.entries(METRICS).map(([name, kind]) => [
        code(name),
        kind.type,
        kind.labels.map(code).join(', '),
        kind.help,
      ]),
    )
  );
}

export function eventsPage(): string {
  return (
    generatedFrom(
      'src/events/event.ts, src/pxe/decide/decision.ts, src/pxe/dhcp/outcomes.ts and src/cluster/etcd/steps.ts',
    ) +
    '# Events\n\nWhat happened, for people: `muster events [MACHINE] [--follow]`. Bounded for each machine; never a source of state.\n\n' +
    table(
      ['event', 'what'],
      Object.entries(EVENT_KINDS).map(([name, about]) => [code(name), about]),
    ) +
    '\n## Reasons of boot decisions\n\nIn the event `boot.decision`, in the metric `muster_boot_decisions_total`, and in `muster explain`.\n\n' +
    table(
      ['reason', 'what'],
      Object.entries(REASONS).map(([name, about]) => [code(name), about]),
    ) +
    '\n## Outcomes of DHCP packets\n\nEvery packet has exactly one: the reason of its event, and `outcome` in the metric `muster_dhcp_packets_total`. Those without an event are logged at level debug.\n\n' +
    table(
      ['outcome', 'what', 'event'],
      (Object.entries(DHCP_OUTCOMES) as [string, { text: string; event?: string }][]).map(([name, about]) => [
        code(name),
        about.text,
        about.event === undefined ? '' : code(about.event),
      ]),
    ) +
    '\n## Steps of founding\n\nThe reason of the event `cluster.founding`; the values in braces are also fields of the event.\n\n' +
    table(
      ['step', 'what'],
      Object.entries(FOUNDING_STEPS).map(([name, text]) => [code(name), text]),
    )
  );
}

/** The description of an option, with the values that it takes. */
const aboutOption = ({ description, argChoices }: Command['options'][number]): string =>
  argChoices ? `${description}: ${argChoices.join(', ')}` : description;

/** A paragraph in lines of at most 120 columns. */
function wrapped(text: string): string {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const line = `${lines.at(-1)} ${word}`;
    if (lines.length > 0 && line.length <= 120) lines[lines.length - 1] = line;
    else lines.push(word);
  }
  return lines.join('\n');
}

/** Every verb with its arguments and options, from the command tree. */
export function cliPage(): string {
  const silent = {
    out() {},
    err() {},
    env: {},
    color: false,
    colorErr: false,
    columns: undefined,
    signal: new AbortController().signal,
    pause: async () => {},
  };
  const program = buildProgram(silent, () => {});
  const section = (command: Command, path: string): string => {
    const children = command
      .createHelp()
      .visibleCommands(command)
      .filter((child) => command.commands.includes(child))
      .map((child) => section(child, `${path} ${child.name()}`))
      .join('');
    if (command.commands.length > 0) return children;
    const options = command.options.filter((option) => !option.hidden);
    const examples = examplesOf(command).map(({ command: line, about }) => `# ${about}\n${line}`);
    return (
      `\n## ${path}\n\n\`${path} ${command.usage()}\`\n\n${wrapped(command.description())}\n` +
      (command.registeredArguments.length + options.length === 0
        ? ''
        : `\n${table(
            ['argument or option', 'what'],
            [
              ...command.registeredArguments.map((one) => [code(one.name()), one.description]),
              ...options.map((option) => [code(option.flags), aboutOption(option)]),
            ],
          )}`) +
      (examples.length === 0 ? '' : `\n\`\`\`sh\n${examples.join('\n\n')}\n\`\`\`\n`)
    );
  };
  return (
    generatedFrom('the files src/cli/*/verbs.ts') +
    `# The command line\n\n${wrapped(CLI_RULES)}\n` +
    section(program, 'muster')
  );
}

const CLI_RULES =
  'The grammar is that of kubectl. Data goes to standard output, everything else to standard error. Exit codes: 0 done, ' +
  '1 failed, 2 not understood; `diff`: 0 equal, 1 different, 2 failed. Kinds may be written as plural, singular or short ' +
  'name (machines, machine, m), in any case. Times are local and carry their offset; JSON and YAML have RFC 3339. Tables ' +
  'are cut to the width of a terminal, and coloured only on one; `NO_COLOR` is respected. The first Ctrl-C or SIGTERM ' +
  'aborts what a command asked the server, and ends it.';

/** All generated pages. Rooms that generate pages of their own are asked here. */
export async function pages(): Promise<ReadonlyMap<string, string>> {
  return new Map([
    ['docs/ports.md', portsPage()],
    ['docs/cli.md', cliPage()],
    ['docs/errors.md', errorsPage()],
    ['docs/metrics.md', metricsPage()],
    ['docs/events.md', eventsPage()],
    ['docs/founding.md', foundingPage()],
    ['docs/firmware.md', firmwareDocument()],
    ...resourcePages(),
    ['src/ignition/report/scripts.generated.ts', reportTexts()],
    ['src/agent/scripts.generated.ts', agentTexts()],
    ...ignitionPages(),
  ]);
}
