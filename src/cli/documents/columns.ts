/** The columns of `muster get`, for each kind. */

import type { LeaseView } from '../../api/operations/inventory.ts';
import type { NameItem } from '../../api/operations/names.ts';
import type { Shown } from '../../api/shown.ts';
import type { EventView, Timestamp } from '../../api/times.ts';
import { systemClock } from '../../base/clock.ts';
import { spanText } from '../../base/duration.ts';
import { CLUSTER_CONDITIONS } from '../../cluster/health/condition.ts';
import { actorText } from '../../events/actor.ts';
import { CONDITIONS, type ConditionTone, type ConditionWord } from '../../machines/condition.ts';
import type {
  ClusterSpec,
  ImageSpec,
  Kind,
  MachineSpec,
  NetworkSpec,
  ProfileSpec,
  WebhookSpec,
} from '../../resources/kinds.ts';
import { imageText } from '../cluster/running.ts';
import type { Color } from '../color.ts';
import type { Column } from '../output.ts';
import { millisSince, timeText } from '../times.ts';

const NAME: Column<Shown> = { heading: 'NAME', cell: (item) => item.metadata.name };
/** The origin of a document: a file with its line, or the API. */
const ORIGIN: Column<Shown> = {
  heading: 'ORIGIN',
  wide: true,
  cuts: true,
  cell: ({ status: { origin } }) =>
    origin?.from === 'file' ? `${origin.at.file}:${origin.at.line}` : origin?.from,
};
const LABELS: Column<Shown> = {
  heading: 'LABELS',
  wide: true,
  cuts: true,
  cell: ({ metadata }) =>
    Object.entries(metadata.labels ?? {})
      .map(([key, value]) => `${key}=${value}`)
      .join(','),
};

const network = (item: Shown) => item.spec as NetworkSpec;
const image = (item: Shown) => item.spec as ImageSpec;
const cluster = (item: Shown) => item.spec as ClusterSpec;
const profile = (item: Shown) => item.spec as ProfileSpec;
const webhook = (item: Shown) => item.spec as WebhookSpec;
/** The document of a machine; undefined for a machine that was only seen. */
const machine = (item: Shown) => item.spec as MachineSpec | undefined;

/**
 * The agent that a machine runs (an older one by its version), and behind an arrow the one that it
 * shall run instead.
 */
function agentText({ status: { agent, build } }: Shown): string | undefined {
  const runs = build?.runs ?? agent?.version;
  return build === undefined || build.state === 'current' ? runs : `${runs} → ${build.wanted}`;
}

const stateColor = ({ status }: Shown): Color | undefined =>
  status.state === 'incomplete' ? 'yellow' : undefined;
const healthColor = ({ status: { health } }: Shown): Color | undefined =>
  health && COLORS[CLUSTER_CONDITIONS[health.word].tone];

const age = (since: Timestamp | undefined): string | undefined =>
  since === undefined ? undefined : spanText(millisSince(since, systemClock.now()));

/** The word for a machine; a document alone is `registered`. */
export const conditionOf = ({ status }: Shown): ConditionWord => status.condition?.word ?? 'registered';
/** Colours of conditions; all others have that of the text. */
const COLORS: Partial<Readonly<Record<ConditionTone, Color>>> = { good: 'green', bad: 'red', warn: 'yellow' };

/**
 * The code of what is wrong with a machine, or would hold it at its next boot. `INLINE` means that
 * its secrets come with its first configuration.
 */
function machineReason(item: Shown): string | undefined {
  const { alarm, quarantine, life, reason, agent, outlook, waits } = item.status;
  if (quarantine) return 'QUARANTINED';
  if (life) return life.state.toUpperCase();
  const why = alarm
    ? `ALARM:${alarm.code}`
    : (waits?.code ?? reason?.code ?? agent?.hold?.code ?? outlook?.code);
  if (machine(item)?.delivery !== 'inline') return why;
  return why === undefined ? 'INLINE' : `${why},INLINE`;
}

export const COLUMNS: Readonly<Record<Kind, readonly Column<Shown>[]>> = {
  Network: [
    NAME,
    { heading: 'SUBNET', cell: (item) => network(item).subnet },
    { heading: 'DHCP', cell: (item) => network(item).dhcp.mode },
    {
      heading: 'POOLS',
      cell: (item) =>
        network(item)
          .dhcp.pools?.map(({ start, end }) => `${start}-${end}`)
          .join(','),
    },
    { heading: 'GATEWAY', wide: true, cell: (item) => network(item).gateway },
    { heading: 'DNS', wide: true, cell: (item) => network(item).dns?.join(',') },
    ORIGIN,
    LABELS,
  ],
  Image: [
    NAME,
    { heading: 'OS', cell: (item) => image(item).os },
    { heading: 'VERSION', cell: (item) => image(item).version },
    { heading: 'ARCH', cell: (item) => image(item).arch },
    { heading: 'CONFIG', cell: (item) => image(item).configFormat },
    { heading: 'STATE', cell: (item) => item.status.state, color: stateColor },
    { heading: 'KERNEL', wide: true, cell: (item) => image(item).kernel.sha256.slice(0, 12) },
    { heading: 'ROOT', wide: true, cell: (item) => image(item).root?.sha256.slice(0, 12) },
    ORIGIN,
    LABELS,
  ],
  Cluster: [
    NAME,
    { heading: 'KUBERNETES', cell: (item) => cluster(item).kubernetes?.version },
    { heading: 'ENDPOINT', cell: (item) => cluster(item).kubernetes?.endpoint },
    { heading: 'CONTROL PLANES', cell: (item) => cluster(item).kubernetes?.controlPlanes.join(',') },
    { heading: 'WORKERS', cell: (item) => cluster(item).kubernetes?.workers?.length },
    { heading: 'CONDITION', cell: (item) => item.status.health?.word, color: healthColor },
    { heading: 'CONFIG', wide: true, cell: (item) => Object.keys(cluster(item).config ?? {}).join(',') },
    ORIGIN,
    LABELS,
  ],
  Profile: [
    NAME,
    { heading: 'IMAGE', cell: (item) => profile(item).image },
    { heading: 'BOOT', cell: (item) => profile(item).boot ?? 'image' },
    {
      heading: 'SELECTOR',
      cell: (item) =>
        Object.entries(profile(item).selector ?? {})
          .map(([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
          .join(','),
    },
    ORIGIN,
    LABELS,
  ],
  Webhook: [
    NAME,
    { heading: 'URL', cell: (item) => webhook(item).url },
    { heading: 'EVENTS', cell: (item) => webhook(item).events.join(','), cuts: true },
    ORIGIN,
    LABELS,
  ],
  Machine: [
    NAME,
    {
      heading: 'CONDITION',
      cell: conditionOf,
      color: (item) => COLORS[CONDITIONS[conditionOf(item)].tone],
    },
    { heading: 'PROFILE', cell: (item) => item.status.profile ?? machine(item)?.profile },
    { heading: 'POOL', wide: true, cell: (item) => machine(item)?.pool },
    {
      heading: 'ADDRESS',
      cell: (item) => item.status.lease ?? item.status.seen?.address ?? machine(item)?.addresses?.[0],
    },
    { heading: 'AGE', cell: (item) => age(item.status.since) },
    {
      heading: 'REASON',
      cell: (item) => machineReason(item),
      color: (item) =>
        item.status.alarm || item.status.quarantine ? 'red' : machineReason(item) ? 'yellow' : undefined,
    },
    { heading: 'POWER', wide: true, cell: (item) => item.status.power?.state },
    { heading: 'PHASE', wide: true, cell: (item) => item.status.phase ?? 'registered' },
    { heading: 'TRUST', wide: true, cell: (item) => item.status.trust?.tier },
    { heading: 'TPM', wide: true, cell: (item) => item.status.tpm?.ek.slice(0, 12) },
    { heading: 'STEP', wide: true, cell: (item) => item.status.agent?.step },
    { heading: 'AGENT', wide: true, cell: agentText },
    { heading: 'IMAGE', wide: true, cell: ({ status }) => imageText(status.image) },
    {
      heading: 'MACS',
      wide: true,
      cuts: true,
      cell: (item) => (machine(item)?.macs ?? item.status.seen?.macs)?.join(','),
    },
    { heading: 'FIRMWARE', wide: true, cell: (item) => item.status.seen?.firmware },
    { heading: 'ARCH', wide: true, cell: (item) => item.status.seen?.arch },
    { heading: 'SERIAL', wide: true, cell: (item) => machine(item)?.serial ?? item.status.seen?.serial },
    {
      heading: 'LAST SEEN',
      wide: true,
      cell: (item) => age(item.status.lastSeen),
    },
    ORIGIN,
    LABELS,
  ],
};

export const LEASE_COLUMNS: readonly Column<LeaseView>[] = [
  { heading: 'ADDRESS', cell: (lease) => lease.address },
  { heading: 'MAC', cell: (lease) => lease.mac },
  { heading: 'STATE', cell: (lease) => lease.state },
  { heading: 'MACHINE', cell: (lease) => lease.machine },
  { heading: 'NETWORK', cell: (lease) => lease.network },
  {
    heading: 'EXPIRES',
    cell: (lease) => timeText(lease.expiresAt),
  },
  { heading: 'HOSTNAME', wide: true, cell: (lease) => lease.hostname },
];

export const NAME_COLUMNS: readonly Column<NameItem>[] = [
  { heading: 'NAME', cell: ({ name }) => name },
  { heading: 'TYPE', cell: ({ type }) => type },
  { heading: 'DATA', cell: ({ data }) => data },
  {
    heading: 'STATE',
    cell: ({ state }) => state,
    color: ({ state, reason }) => (reason ? 'red' : state === 'registered' ? 'green' : undefined),
  },
  { heading: 'OF', cell: ({ subject }) => subject },
  { heading: 'SERVER', wide: true, cell: ({ server }) => server },
  { heading: 'REASON', cell: ({ reason }) => reason, cuts: true },
];

/**
 * The subject of an event. A machine is always spelled the same, whether the event is about the
 * machine or about its document.
 */
export const subjectText = ({ subject }: Pick<EventView, 'subject'>): string =>
  subject.replace(/^Machine\//, '');

/** The message of an event: first its reason, then its fields. */
export function eventMessage(event: EventView): string {
  const fields = Object.entries(event.fields ?? {}).map(([key, value]) => `${key}=${value}`);
  return [event.reason?.text, ...fields].filter((part) => part).join(' ');
}

export const EVENT_COLUMNS: readonly Column<EventView>[] = [
  { heading: 'TIME', cell: (event) => timeText(event.at) },
  { heading: 'SUBJECT', cell: subjectText },
  { heading: 'EVENT', cell: (event) => event.kind },
  { heading: 'REASON', cell: (event) => event.reason?.code },
  { heading: 'NETWORK', wide: true, cell: (event) => event.network },
  { heading: 'SESSION', wide: true, cell: (event) => event.session },
  { heading: 'MESSAGE', cell: eventMessage },
];

/** Columns of the security log: those of events, with who acted. */
export const SECURITY_COLUMNS: readonly Column<EventView>[] = [
  { heading: 'ENTRY', wide: true, cell: (event) => event.sequence },
  ...EVENT_COLUMNS.slice(0, 1),
  { heading: 'ACTOR', cell: ({ actor }) => actor && actorText(actor) },
  ...EVENT_COLUMNS.slice(1),
];
