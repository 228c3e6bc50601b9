/** A machine as a row of the fleet, filters and orders of rows. Pure. */
import type { Shown } from '../../api/shown.ts';
import type { StatusView } from '../../api/times.ts';
import { CONDITIONS, type ConditionTone, type ConditionWord } from '../../machines/condition.ts';
import type { MachineSpec } from '../../resources/kinds.ts';

export type Phase = StatusView['phase'];
/** How a value is coloured; its text says the same. */
export type Tone = ConditionTone;

/** What needs attention on a machine. */
export interface Trouble {
  readonly code: string;
  readonly text: string;
  readonly tone: Tone;
}

export interface Row {
  readonly name: string;
  /** Whether it has no document: it was only seen. */
  readonly unknown: boolean;
  /** What is so of it now, in one word. */
  readonly condition: ConditionWord;
  readonly tone: Tone;
  readonly trouble: Trouble | undefined;
  readonly profile: string;
  readonly cluster: string;
  readonly role: string;
  readonly address: string;
  readonly since: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Everything that a search finds, in lower case. */
  readonly haystack: string;
  /** The name with numbers of equal length, so that node-9 comes before node-10. */
  readonly order: string;
}

/** What needs attention, the most urgent first. */
export function troubleOf({
  alarm,
  quarantine,
  life,
  waits,
  reason,
  agent,
  outlook,
  condition,
}: Shown['status']): Trouble | undefined {
  const { word, reason: why, silentSince } = condition ?? {};
  if (word === 'silent')
    return {
      code: 'silent',
      text:
        silentSince === undefined ? CONDITIONS.silent.about : `Its agent was last heard at ${silentSince}.`,
      tone: 'bad',
    };
  if (word === 'failing' && why) return { ...pick(why), tone: 'bad' };
  if (alarm) return { ...pick(alarm), tone: 'bad' };
  if (quarantine) return { code: 'quarantined', text: quarantine.text, tone: 'bad' };
  if (life) return { code: life.state, text: life.text, tone: 'warn' };
  if (waits) return { ...pick(waits), tone: 'warn' };
  if (reason) return { ...pick(reason), tone: 'warn' };
  if (agent?.hold) return { ...pick(agent.hold), tone: 'warn' };
  return outlook && { ...pick(outlook), tone: 'warn' };
}

const pick = ({ code, text }: { readonly code: string; readonly text: string }) => ({ code, text });

export function rowOf(machine: Shown): Row {
  const { metadata, status } = machine;
  const spec = machine.spec as MachineSpec | undefined;
  const { name, labels = {} } = metadata;
  const condition = status.condition?.word ?? 'registered';
  const { member } = status;
  const cluster = member?.cluster ?? spec?.cluster ?? '';
  const address = status.lease ?? spec?.addresses?.[0] ?? status.seen?.address ?? '';
  const { manufacturer = '', product = '', serial = '', macs = [] } = status.seen ?? {};
  const trouble = troubleOf(status);
  const profile = status.profile ?? spec?.profile ?? '';
  const words = [name, condition, trouble?.code, profile, cluster, address, manufacturer, product, serial];
  const given = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  return {
    name,
    unknown: spec === undefined,
    condition,
    tone: CONDITIONS[condition].tone,
    trouble,
    profile,
    cluster,
    role: member?.role ?? '',
    address,
    since: status.since ?? '',
    labels,
    haystack: [...words, ...(spec?.macs ?? []), ...macs, ...given].join(' ').toLowerCase(),
    order: orderOf(name),
  };
}

/** `node-9` → `node-00000009`. */
const orderOf = (name: string): string => name.replace(/[0-9]+/g, (digits) => digits.padStart(8, '0'));

/** What the address of the page says about the list. */
export interface Filter {
  /** Words that all must be found; `rack=a` is a label. */
  readonly find: string;
  readonly condition: string;
  readonly cluster: string;
  readonly profile: string;
  /** Only those that need attention. */
  readonly trouble: boolean;
}

export const filterOf = (query: Readonly<Record<string, string>>): Filter => ({
  find: query.find ?? '',
  condition: query.condition ?? '',
  cluster: query.cluster ?? '',
  profile: query.profile ?? '',
  trouble: query.trouble === 'yes',
});

/** Stands for machines without a cluster or a profile in a filter. */
export const NONE = '-';

export function filtered(
  rows: readonly Row[],
  { find, condition, cluster, profile, trouble }: Filter,
): Row[] {
  const words = find.toLowerCase().split(/\s+/).filter(Boolean);
  const is = (wanted: string, value: string): boolean =>
    wanted === '' || (wanted === NONE ? value === '' : value === wanted);
  return rows.filter(
    (row) =>
      is(condition, row.condition) &&
      is(cluster, row.cluster) &&
      is(profile, row.profile) &&
      (!trouble || row.trouble !== undefined || row.tone === 'bad') &&
      words.every((word) => row.haystack.includes(word)),
  );
}

export const SORTS = ['name', 'condition', 'cluster', 'profile', 'address', 'since'] as const;
export type Sort = (typeof SORTS)[number];

const WORST_FIRST = Object.keys(CONDITIONS);

const keyOf: Readonly<Record<Sort, (row: Row) => string>> = {
  name: ({ order }) => order,
  condition: ({ condition }) => String(WORST_FIRST.indexOf(condition)).padStart(2, '0'),
  cluster: ({ cluster, role }) => `${cluster} ${role}`,
  profile: ({ profile }) => profile,
  address: ({ address }) => orderOf(address),
  since: ({ since }) => since,
};

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Sorts rows in place by name; that is quick for rows that are in this order already. */
export const byName = (rows: Row[]): Row[] => rows.sort((a, b) => compare(a.order, b.order));

/** Rows in an order; rows that are equal are in the order of their names. */
export function sorted(rows: readonly Row[], sort: Sort, down: boolean): Row[] {
  const named = byName([...rows]);
  if (sort === 'name') return down ? named.reverse() : named;
  const key = keyOf[sort];
  const sign = down ? -1 : 1;
  return named
    .map((row) => ({ row, key: key(row) }))
    .sort((a, b) => sign * compare(a.key, b.key))
    .map(({ row }) => row);
}

/** How many rows have each value. */
export function counted(rows: readonly Row[], of: (row: Row) => string): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const row of rows) counts.set(of(row), (counts.get(of(row)) ?? 0) + 1);
  return counts;
}

/** A rack with its machines, the highest unit first. */
export interface Rack {
  readonly name: string;
  readonly rows: readonly Row[];
}

const PLACES = ['site', 'room', 'row', 'rack'] as const;

/** Machines by the labels `site`, `room`, `row` and `rack`; within a rack by `unit`. */
export function racksOf(rows: readonly Row[]): readonly Rack[] {
  const racks = new Map<string, Row[]>();
  for (const row of rows) {
    const name = PLACES.flatMap((label) => row.labels[label] ?? []).join(' / ');
    const rack = racks.get(name);
    if (rack) rack.push(row);
    else racks.set(name, [row]);
  }
  const unit = ({ labels }: Row): number => Number.parseInt(labels.unit ?? '', 10) || 0;
  return [...racks]
    .map(([name, inside]) => ({
      name,
      rows: inside.sort((a, b) => unit(b) - unit(a) || (a.order < b.order ? -1 : 1)),
    }))
    .sort(
      (a, b) => Number(a.name === '') - Number(b.name === '') || (orderOf(a.name) < orderOf(b.name) ? -1 : 1),
    );
}
