/** Generates the pages of docs/ that come from tables. */

import type { Command } from 'commander';
import { AGENT_ROUTES } from '../src/agent/wire/protocol.ts';
import { ACCESS, type Access, ROLES, type Role, TAKES } from '../src/api/access.ts';
import { CONCERNS } from '../src/api/concerns.ts';
import { LIMIT_TEXT } from '../src/api/costly.ts';
import { ROUTES } from '../src/api/operations.ts';
import { PLACES, PORTS } from '../src/api/ports.ts';
import { ERRORS, type ErrorKind } from '../src/base/errors.ts';
import { METRICS } from '../src/base/metrics.ts';
import { examplesOf } from '../src/cli/register.ts';
import { SERVE_SETTINGS, type ServeSetting } from '../src/cli/serve/options.ts';
import { FOUNDING_STEPS } from '../src/cluster/etcd/steps.ts';
import { CLUSTER_CONDITIONS } from '../src/cluster/health/condition.ts';
import { EVENT_KINDS } from '../src/events/event.ts';
import { ignitionPages } from '../src/ignition/reference.ts';
import { CONDITIONS, type ConditionTone } from '../src/machines/condition.ts';
import { REASONS } from '../src/pxe/decide/decision.ts';
import { DHCP_OUTCOMES } from '../src/pxe/dhcp/outcomes.ts';
import { firmwareDocument } from '../src/pxe/firmware/quirks.ts';
import { KERNEL_ARGUMENTS, MACHINE_ROUTES } from '../src/pxe/http/routes.ts';
import { resourcePages } from '../src/resources/reference.ts';
import { apiPage } from './api-page.ts';
import { aboutOption, commandTree, visibleChildren } from './command-tree.ts';
import { tablesFile } from './component-tables.ts';
import { diagnosisPage } from './diagnosis-page.ts';
import { foundingPage } from './founding-page.ts';
import { code, generatedFrom, table, wrapped } from './markdown.ts';

export function portsPage(): string {
  return (
    generatedFrom(
      'src/api/ports.ts, src/api/contract/*.ts, src/pxe/http/routes.ts, src/agent/wire/protocol.ts and src/cli/serve/options.ts',
    ) +
    '# Ports, sockets, routes and paths\n\n## Ports and sockets\n\n' +
    table(
      ['where', 'protocol', 'client', 'purpose', 'turned off by'],
      PORTS.map((port) => [port.where, port.protocol, port.who, port.what, port.off]),
    ) +
    '\n## Routes for machines\n\nPlain HTTP. Anyone who knows the MAC address of a machine can make its requests, so the answers contain no secrets.\n\n' +
    table(
      ['method', 'path', 'what'],
      Object.values(MACHINE_ROUTES).map((route) => [route.method, code(route.path), route.about]),
    ) +
    '\nKernel arguments that Muster adds:\n\n' +
    table(
      ['argument', 'what'],
      Object.entries(KERNEL_ARGUMENTS).map(([name, about]) => [code(name), about]),
    ) +
    '\n## Routes for agents\n\nHTTPS with a certificate from Muster’s own CA. src/agent/README.md describes the protocol.\n\n' +
    table(
      ['method', 'path', 'what'],
      Object.values(AGENT_ROUTES).map((route) => [route.method, code(route.path), route.about]),
    ) +
    '\n## Routes for operators\n\nOn the unix socket, and over HTTPS with `--operators-listen`, where the account needs a role that allows what the route needs:\n\n' +
    table(
      ['needs', 'what that is', 'roles'],
      (Object.keys(ACCESS) as Access[]).map((access) => [
        code(access),
        ACCESS[access],
        (Object.keys(ROLES) as Role[])
          .filter((role) => (ROLES[role].allows as readonly Access[]).includes(access))
          .join(', '),
      ]),
    ) +
    '\nSome orders take more than a role:\n\n' +
    table(
      ['takes', 'what that is'],
      (Object.keys(TAKES) as (keyof typeof TAKES)[])
        .filter((takes) => takes !== 'role')
        .map((takes) => [code(takes), TAKES[takes]]),
    ) +
    `\nWhat takes the server long is limited: an operator, with all sessions and tokens, gets ${LIMIT_TEXT}, then status ` +
    '429 with `Retry-After` (`E_READ_LIMIT`). The page and `muster` wait; the local socket has no limit.\n' +
    '\nErrors are problem details (RFC 9457) with a code of [errors.md](errors.md). For example: ' +
    '`curl --unix-socket /run/muster/muster.sock http://muster/v1`\n\n' +
    table(
      ['method', 'path', 'needs', 'limited', 'takes', 'what'],
      ROUTES.map(({ method, path, access, costly, takes = 'role', summary }) => [
        ...[method, code(path), access],
        costly === true ? 'yes' : costly === 'preview' ? 'with `dryRun`' : '',
        typeof takes === 'object' ? `second, with \`${takes.second}\`` : takes === 'role' ? '' : takes,
        summary,
      ]),
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
    '# Errors\n\nThe log, the API (`code` of its problem details) and the command line use the same codes. A code is never ' +
    'renamed or reused. *Who must act*: the person or system that can fix the error.\n\n' +
    table(
      ['code', 'meaning', 'who must act', 'what to do', 'HTTP'],
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
    '# Metrics\n\nMuster serves metrics in the Prometheus text format at `/metrics`: on the operators’ socket and, with `--metrics-listen`, on a TCP port.\n\n' +
    table(
      ['name', 'type', 'labels', 'meaning'],
      Object.entries(METRICS).map(([name, kind]) => [
        code(name),
        kind.type,
        kind.labels.map(code).join(', '),
        kind.help,
      ]),
    )
  );
}

export function conditionsPage(): string {
  return (
    generatedFrom('src/machines/condition.ts, src/cluster/health/condition.ts and src/api/concerns.ts') +
    '# Conditions, and what needs an operator\n\n## Conditions of machines\n\nEach machine has one condition: what is so of it now. `muster get machines`, `muster explain`, the fleet, racks and the card of a machine on the page, the event `machine.condition` and the metric `muster_machine_conditions` use the same word; the worst comes first. Only what was heard within its time is green.\n\n' +
    table(
      ['condition', 'colour', 'meaning'],
      Object.entries(CONDITIONS).map(([word, { tone, about }]) => [code(word), TONE_NAMES[tone], about]),
    ) +
    '\n## Conditions of clusters\n\n`muster get clusters` and the page show one word for each cluster. Muster looks at the health of every founded cluster once a minute; `muster cluster status NAME` looks now.\n\n' +
    table(
      ['condition', 'colour', 'meaning'],
      Object.entries(CLUSTER_CONDITIONS).map(([word, { tone, about }]) => [
        code(word),
        TONE_NAMES[tone],
        about,
      ]),
    ) +
    '\n## What needs an operator\n\n`muster status` and the overview of the page say that all is well, with what was looked at and when, or list these, the worst first, each with its next step. The event `site.concern` says when one began and ended (`machine.condition` for machines), the metric `muster_concerns` counts them, and the alert rules of `examples/observability` fire by their level. `urgent`: something does not work, or is about to stop; `soon`: it works, and needs a hand.\n\n' +
    table(
      ['kind', 'level', 'meaning'],
      Object.entries(CONCERNS).map(([kind, { level, about }]) => [code(kind), level, about]),
    )
  );
}

const TONE_NAMES: Readonly<Record<ConditionTone, string>> = {
  good: 'green',
  bad: 'red',
  warn: 'yellow',
  busy: 'blue',
  new: 'violet',
  calm: 'none',
};

export function eventsPage(): string {
  return (
    generatedFrom(
      'src/events/event.ts, src/pxe/decide/decision.ts, src/pxe/dhcp/outcomes.ts and src/cluster/etcd/steps.ts',
    ) +
    '# Events\n\n`muster events [MACHINE] [--follow]` shows what happened. The number of events is limited for each machine, and Muster never reads its state from them.\n\n' +
    table(
      ['event', 'meaning'],
      Object.entries(EVENT_KINDS).map(([name, about]) => [code(name), about]),
    ) +
    '\n## Reasons of boot decisions\n\nThe event `boot.decision`, the metric `muster_boot_decisions_total` and `muster explain` use these reasons.\n\n' +
    table(
      ['reason', 'meaning'],
      Object.entries(REASONS).map(([name, about]) => [code(name), about]),
    ) +
    '\n## Outcomes of DHCP packets\n\nEvery packet has exactly one outcome. It is the reason of its event and the label `outcome` of the metric `muster_dhcp_packets_total`. Outcomes without an event are logged at level debug.\n\n' +
    table(
      ['outcome', 'meaning', 'event'],
      (Object.entries(DHCP_OUTCOMES) as [string, { text: string; event?: string }][]).map(([name, about]) => [
        code(name),
        about.text,
        about.event === undefined ? '' : code(about.event),
      ]),
    ) +
    '\n## Steps of founding\n\nThese are the reasons of the event `cluster.founding`. Values in braces are also fields of the event.\n\n' +
    table(
      ['step', 'meaning'],
      Object.entries(FOUNDING_STEPS).map(([name, text]) => [code(name), text]),
    )
  );
}

/** The page of all commands with their arguments and options. */
export function cliPage(): string {
  const section = (command: Command, path: string): string => {
    const children = visibleChildren(command)
      .map((child) => section(child, `${path} ${child.name()}`))
      .join('');
    if (command.commands.length > 0) return children;
    const options = command.options.filter((option) => !option.hidden);
    const examples = examplesOf(command).map(({ command: line, about }) => `# ${about}\n${line}`);
    return (
      `\n## ${path}\n\n\`${path} ${command.usage()}\`\n\n${command.description()}\n` +
      (command.registeredArguments.length + options.length === 0
        ? ''
        : `\n${table(
            ['argument or option', 'meaning'],
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
    `# The command line\n\n${CLI_RULES}\n` +
    section(commandTree(), 'muster')
  );
}

const CLI_RULES =
  'The grammar is that of kubectl. Data goes to standard output, everything else to standard error. Exit codes: 0 success, ' +
  '1 failure, 2 wrong usage; `diff`: 0 equal, 1 different, 2 failure. Kinds may be written as plural, singular or short ' +
  'name (machines, machine, m), in any case. Tables show local times with their offset; JSON and YAML ' +
  'contain times of RFC 3339. On a terminal, tables are cut to its width and coloured unless `NO_COLOR` is set. ' +
  'The first Ctrl-C or SIGTERM aborts the request to the server and ends the command.';

/** All generated pages as text, by their path from the root of the tree. */
export async function pages(): Promise<ReadonlyMap<string, string>> {
  const generated: readonly (readonly [string, string])[] = [
    ['docs/ports.md', portsPage()],
    ['docs/reference/api.md', apiPage()],
    ['docs/cli.md', cliPage()],
    ['docs/errors.md', errorsPage()],
    ['docs/metrics.md', metricsPage()],
    ['docs/events.md', eventsPage()],
    ['docs/conditions.md', conditionsPage()],
    ['docs/diagnosis.md', diagnosisPage()],
    ['docs/founding.md', foundingPage()],
    ['docs/firmware.md', firmwareDocument()],
    ...resourcePages(),
    ...ignitionPages(),
    tablesFile(),
  ];
  return new Map(generated.map(([file, text]) => [file, file.endsWith('.md') ? wrapped(text) : text]));
}
