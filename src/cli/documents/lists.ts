/** Machines as Ansible, ssh, /etc/hosts and spreadsheets read them. Pure. */
import type { Shown } from '../../api/shown.ts';
import { MusterError } from '../../base/errors.ts';
import { ipv4First } from '../../base/ip.ts';
import type { MachineSpec } from '../../resources/kinds.ts';
import { yamlText } from '../output.ts';

const specOf = ({ spec }: Shown): Partial<MachineSpec> => (spec ?? {}) as Partial<MachineSpec>;

/** By its document, IPv4 first; else the one that is leased; else where it was seen. */
function addressOf(machine: Shown): string | undefined {
  const { addresses = [] } = specOf(machine);
  return ipv4First(addresses) ?? machine.status.lease ?? machine.status.seen?.address;
}

/** Machines with an address; the others cannot be in such a list. */
const reachable = (machines: readonly Shown[]) =>
  machines.flatMap((machine) => {
    const address = addressOf(machine);
    return address === undefined ? [] : [{ machine, address }];
  });

const profileOf = (machine: Shown): string | undefined => machine.status.profile ?? specOf(machine).profile;
const clusterOf = (machine: Shown): string | undefined =>
  machine.status.member?.cluster ?? specOf(machine).cluster;

/** A group's name in the letters that Ansible permits. */
const group = (...parts: readonly string[]): string => parts.join('_').replace(/[^A-Za-z0-9_]/g, '_');

function groupsOf(machine: Shown): readonly string[] {
  const { member, condition } = machine.status;
  const cluster = clusterOf(machine);
  const profile = profileOf(machine);
  const { pool } = specOf(machine);
  return [
    ...(cluster === undefined ? [] : [group('cluster', cluster)]),
    ...(member ? [group('cluster', member.cluster, member.role)] : []),
    ...(profile === undefined ? [] : [group('profile', profile)]),
    ...(pool === undefined ? [] : [group('pool', pool)]),
    group('condition', condition?.word ?? 'registered'),
    ...Object.entries(machine.metadata.labels ?? {}).map(([key, value]) => group('label', key, value)),
  ];
}

/** An inventory in YAML. Its groups are clusters, roles, profiles, pools, conditions and labels. */
function ansible(machines: readonly Shown[]): string {
  const listed = reachable(machines);
  const hosts = listed.map(({ machine, address }) => [machine.metadata.name, { ansible_host: address }]);
  const children = new Map<string, Record<string, object>>();
  for (const { machine } of listed)
    for (const name of groupsOf(machine))
      children.set(name, { ...children.get(name), [machine.metadata.name]: {} });
  const sorted = [...children].sort(([a], [b]) => (a < b ? -1 : 1));
  return yamlText({
    all: {
      hosts: Object.fromEntries(hosts),
      children: Object.fromEntries(sorted.map(([name, members]) => [name, { hosts: members }])),
    },
  });
}

const sshConfig = (machines: readonly Shown[]): string =>
  reachable(machines)
    .map(({ machine, address }) => `Host ${machine.metadata.name}\n  HostName ${address}\n`)
    .join('\n');

const hosts = (machines: readonly Shown[]): string =>
  reachable(machines)
    .map(({ machine, address }) => `${address}\t${machine.metadata.name}\n`)
    .join('');

const cell = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** The columns that `muster import csv` reads: a table goes out, is filled in, and comes back. */
const CSV: Readonly<Record<string, (machine: Shown) => string | undefined>> = {
  name: ({ metadata }) => metadata.name,
  mac: (machine) => (specOf(machine).macs ?? machine.status.seen?.macs)?.join(' '),
  address: (machine) => specOf(machine).addresses?.join(' '),
  profile: (machine) => specOf(machine).profile,
  cluster: (machine) => specOf(machine).cluster,
  serial: (machine) => specOf(machine).serial,
  uuid: (machine) => specOf(machine).uuid,
  labels: labelsOf,
};

/** @throws {MusterError} E_USAGE for a label that the column cannot hold */
function labelsOf({ metadata }: Shown): string {
  const pairs = Object.entries(metadata.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  const odd = pairs.find((pair) => pair.includes(';') || pair !== pair.trim());
  if (odd !== undefined)
    throw new MusterError(
      'E_USAGE',
      `${metadata.name}: a table cannot hold its label "${odd}"; write it with -o yaml`,
    );
  return pairs.some((pair) => /\s/.test(pair)) ? `${pairs.join('; ')};` : pairs.join(' ');
}

const csv = (machines: readonly Shown[]): string =>
  [Object.keys(CSV), ...machines.map((machine) => Object.values(CSV).map((of) => of(machine) ?? ''))]
    .map((row) => `${row.map(cell).join(',')}\n`)
    .join('');

/** The lists by the word that follows `-o`. A list without machines is a valid one. */
export const MACHINE_LISTS = { ansible, csv, hosts, 'ssh-config': sshConfig } as const;
export const isMachineList = (output: string | undefined): output is keyof typeof MACHINE_LISTS =>
  output !== undefined && Object.hasOwn(MACHINE_LISTS, output);
