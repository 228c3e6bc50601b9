/**
 * Compares what was observed of a machine with what a scenario expects. Pure: one row per check.
 */
import { heldFor, type MachineObserved, matches, outcomeOf, phaseOf } from './observed.ts';
import { type Check, checkOf, type Expectation, spanOf } from './steps.ts';

export interface Verdict {
  readonly text: string;
  readonly ok: boolean;
  /** What was found instead, or a confirmation. */
  readonly detail: string;
}

interface Row<K extends Check> {
  readonly text: (wanted: NonNullable<Expectation[K]>) => string;
  /** Undefined when the check passes, otherwise a text that says what was found. */
  readonly fault: (wanted: NonNullable<Expectation[K]>, seen: MachineObserved) => string | undefined;
}

const show = (value: unknown): string => (value === undefined ? 'nothing' : JSON.stringify(value));
const differs = (wanted: unknown, found: unknown): string | undefined =>
  show(wanted) === show(found) ? undefined : `found ${show(found)}`;
const silent = 'its system never reported its facts';
const sorted = (list: readonly string[]): string[] => [...list].sort();

/** The value of an argument of the kernel command line. */
const argument = (seen: MachineObserved, name: string): string | undefined =>
  seen.facts?.value.commandLine
    .split(' ')
    .find((word) => word.startsWith(`${name}=`))
    ?.slice(name.length + 1);

const ROWS: { readonly [K in Check]: Row<K> } = {
  phase: {
    text: (phase) => `is ${phase}`,
    fault: (phase, seen) => differs(phase, phaseOf(seen)),
  },
  held: {
    text: (reason) => `is held: ${reason}`,
    fault: (reason, seen) =>
      heldFor(seen) === reason ? undefined : `found ${heldFor(seen) ?? outcomeOf(seen)}`,
  },
  address: {
    text: (address) => `has the lease ${address}`,
    fault: (address, seen) => differs(address, seen.lease),
  },
  addresses: {
    text: (byMac) =>
      `has exactly the addresses ${Object.entries(byMac)
        .map(([card, list]) => `${card}: ${list.join(' ') || 'none'}`)
        .join(', ')}`,
    fault: (byMac, seen) => {
      const found = seen.facts?.value.addresses;
      if (!found) return silent;
      for (const [card, list] of Object.entries(byMac)) {
        const fault = differs(sorted(list), sorted(found[card] ?? []));
        if (fault) return `${card}: ${fault}`;
      }
      return undefined;
    },
  },
  hostname: {
    text: (hostname) => `calls itself ${hostname}`,
    fault: (hostname, seen) => (seen.facts ? differs(hostname, seen.facts.value.hostname) : silent),
  },
  file: {
    text: ({ path, absent, mode, owner }) =>
      absent
        ? `has no ${path}`
        : `has ${path}${mode ? ` with mode ${mode}` : ''}${owner ? ` that belongs to ${owner}` : ''} as in the document`,
    fault: (wanted, seen) => {
      const found = seen.facts?.value.files?.[wanted.path];
      if (!found) return silent;
      if (found.absent) return wanted.absent ? undefined : 'the file does not exist';
      if (wanted.absent) return 'the file exists';
      for (const key of ['mode', 'owner', 'group', 'content'] as const) {
        const fault = wanted[key] === undefined ? undefined : differs(wanted[key], found[key]);
        if (fault) return `${key}: ${fault}`;
      }
      return undefined;
    },
  },
  user: {
    text: ({ name }) => `has the user ${name} as in the document`,
    fault: (wanted, seen) => {
      const found = seen.facts?.value.users?.[wanted.name];
      if (!seen.facts) return silent;
      if (!found) return 'there is no such user';
      const missing = (wanted.groups ?? []).filter((group) => !found.groups.includes(group));
      if (missing.length > 0) return `not in ${missing.join(', ')}, only in ${found.groups.join(', ')}`;
      if (wanted.sshKeys && show(sorted(wanted.sshKeys)) !== show(sorted(found.sshKeys)))
        return `sshKeys: found ${show(found.sshKeys)}`;
      for (const key of ['uid', 'shell', 'home', 'sudo'] as const) {
        const fault = wanted[key] === undefined ? undefined : differs(wanted[key], found[key]);
        if (fault) return `${key}: ${fault}`;
      }
      return undefined;
    },
  },
  unit: {
    text: ({ name, state }) => `${name} is ${state}`,
    fault: ({ name, state }, seen) => (seen.facts ? differs(state, seen.facts.value.units?.[name]) : silent),
  },
  clockWithin: {
    text: (span) => `has the right time, within ${span}`,
    fault: (span, seen) => {
      if (!seen.facts) return silent;
      const off = seen.facts.value.clock - seen.facts.hostAt / 1000;
      return Math.abs(off) * 1000 <= spanOf(span) ? undefined : `its clock is off by ${off.toFixed(1)} s`;
    },
  },
  sessions: {
    text: (count) => `opened ${count} boot session${count === 1 ? '' : 's'}`,
    fault: (count, seen) => {
      const ids = new Set(
        seen.events.filter((event) => event.kind === 'boot.session').map((event) => event.session),
      );
      return differs(count, ids.size);
    },
  },
  firmware: {
    text: (firmware) => `was seen as a ${firmware === 'bios' ? 'BIOS' : 'UEFI'} machine`,
    fault: (firmware, seen) => {
      const found = seen.events.filter((event) => event.fields?.firmware !== undefined);
      return found.length > 0 && found.every((event) => event.fields?.firmware === firmware)
        ? undefined
        : `found ${[...new Set(found.map((event) => event.fields?.firmware))].join(', ') || 'nothing'}`;
    },
  },
  event: {
    text: ({ kind, reason, fields, count }) =>
      `event ${kind}${reason ? ` (${reason})` : ''}${fields ? ` ${show(fields)}` : ''}${count ? `, ${count} times` : ''}`,
    fault: ({ count, ...wanted }, seen) => {
      const found = seen.events.filter((event) => matches(event, wanted)).length;
      if (count === undefined) return found > 0 ? undefined : 'there was no such event';
      return found === count ? undefined : `events found: ${found}`;
    },
  },
  noEvent: {
    text: ({ kind, reason }) => `no event ${kind}${reason ? ` (${reason})` : ''}`,
    fault: (wanted, seen) => {
      const found = seen.events.find((event) => matches(event, wanted));
      return found && `found ${show({ ...found.reason, ...found.fields })}`;
    },
  },
  disksUntouched: {
    text: () => 'was never written to: its disks have the hashes they had',
    fault: (_wanted, { disks }) => {
      if (disks.length === 0) return 'it has no disks';
      const changed = disks.findIndex(({ before, after }) => before !== after);
      return changed < 0 ? undefined : `disk ${changed} has changed`;
    },
  },
  dhcpServer: {
    text: (address) => `has its lease from ${address}`,
    fault: (address, seen) => (seen.facts ? differs(address, seen.facts.value.dhcpServer) : silent),
  },
  bootedFrom: {
    text: (card) => `booted from the card ${card}`,
    fault: (card, seen) =>
      seen.facts ? differs(`01-${card.replaceAll(':', '-')}`, argument(seen, 'BOOTIF')) : silent,
  },
  document: {
    text: ({ name, contains }) => `received ${name} with ${show(contains)}`,
    fault: ({ name, contains }, seen) => {
      const found = seen.facts?.value.documents?.[name];
      if (!found) return seen.facts ? 'it received none' : silent;
      return found.text.includes(contains) ? undefined : `found ${show(found.text)}`;
    },
  },
  serial: {
    text: (pattern) => `its console showed /${pattern}/`,
    fault: (pattern, seen) =>
      new RegExp(pattern).test(seen.console) ? undefined : 'the console never showed it',
  },
  noSerial: {
    text: (pattern) => `its console never showed /${pattern}/`,
    fault: (pattern, seen) => {
      const found = new RegExp(pattern).exec(seen.console);
      return found ? `it showed "${found[0]}"` : undefined;
    },
  },
};

/** The verdict on one expectation. */
export function verdictOf(expectation: Expectation, seen: MachineObserved): Verdict {
  const check = checkOf(expectation);
  const row = ROWS[check] as Row<Check>;
  const wanted = expectation[check]!;
  const fault = row.fault(wanted, seen);
  return {
    text: `${expectation.machine} ${row.text(wanted)}`,
    ok: fault === undefined,
    detail: fault ?? 'as expected',
  };
}
