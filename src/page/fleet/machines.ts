/**
 * All machines, kept up to date by events. A change of phase is shown from the event itself; the
 * rest of a machine is fetched again, for rows that are on the screen at once, and for the others
 * when they come onto it.
 */
import { computed, signal } from '@preact/signals';
import type { Shown } from '../../api/shown.ts';
import type { EventView } from '../../api/times.ts';
import { conditionOf } from '../../machines/condition.ts';
import { coalesce, now, throttle } from '../base/clock.ts';
import { ask, Problem } from '../base/http.ts';
import { gap, onEvent } from '../base/live.ts';
import { byName, type Phase, type Row, rowOf } from './row.ts';

/** Changes are drawn at once, and not more often than this. */
const DRAW_EVERY_MS = 80;
/** A machine whose events go on is not fetched more often than this. */
const FETCH_EVERY_MS = 1000;
/** How many machines are fetched at once. */
const CONCURRENT = 4;
/** When so many machines are to be fetched, the whole list is less work for the server. */
const WHOLE_LIST = 150;

const shown = new Map<string, Shown>();
/** In the order of their names, unless `disorder`. */
const rows = new Map<string, Row>();
let disorder = false;
/** Names of machines that changed since they were fetched. */
const stale = new Set<string>();
/** Names that events brought and that no list had yet. */
const arriving = new Set<string>();
const visible = new Set<string>();
/** When a machine was last fetched, and when an event last moved its phase. */
const fetched = new Map<string, number>();
const moved = new Map<string, number>();

const drawn = signal(0);
export const loading = signal(true);
export const fault = signal<Problem | undefined>(undefined);

/** In the order of their names. */
export const allRows = computed(() => {
  drawn.value;
  const all = [...rows.values()];
  return disorder ? inOrder(all) : all;
});

function inOrder(all: Row[]): Row[] {
  byName(all);
  rows.clear();
  for (const row of all) rows.set(row.name, row);
  disorder = false;
  return all;
}

/** How many machines were only seen. */
export const unknownCount = computed(() => allRows.value.filter(({ unknown }) => unknown).length);

/** A machine as the API shows it; undefined when there is none. */
export function machineNamed(name: string): Shown | undefined {
  drawn.value;
  return shown.get(name);
}

const draw = throttle(DRAW_EVERY_MS, () => {
  drawn.value++;
});

/** @param asked when it was asked for; undefined: it is from an event */
function put(machine: Shown, asked?: number): void {
  const { name } = machine.metadata;
  const kept = asked === undefined ? machine : latest(machine, asked);
  shown.set(name, kept);
  if (!rows.has(name)) disorder = true;
  rows.set(name, rowOf(kept));
}

/** An answer may be older than an event that came while it was under way: that phase stays. */
function latest(machine: Shown, asked: number): Shown {
  const { name } = machine.metadata;
  const { phase, since, condition } = shown.get(name)?.status ?? {};
  if (phase === undefined || since === undefined || (moved.get(name) ?? 0) < asked) return machine;
  return { ...machine, status: { ...machine.status, phase, since, ...(condition && { condition }) } };
}

/** Fetches all machines. */
async function loadMachines(): Promise<void> {
  const asked = now();
  try {
    const machines = await ask('GET /v1/:kind', { params: { kind: 'machines' }, query: { brief: true } });
    const listed = new Set(machines.items.map(({ metadata }) => metadata.name));
    for (const name of shown.keys()) if (!listed.has(name)) forget(name);
    stale.clear();
    arriving.clear();
    for (const machine of machines.items) put(machine, asked);
    fault.value = undefined;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    fault.value = error;
  }
  loading.value = false;
  drawn.value++;
}

function forget(name: string): void {
  for (const map of [shown, rows, fetched, moved]) map.delete(name);
}

/** Says which machines are on the screen. */
export function show(names: readonly string[]): void {
  visible.clear();
  for (const name of names) visible.add(name);
  if (stale.size > 0) void refresh();
}

/** Takes an order's effect at once, without waiting for its events. */
export function changed(names: readonly string[]): void {
  for (const name of names) {
    stale.add(name);
    visible.add(name);
    fetched.delete(name);
  }
  void refresh();
}

const due = (name: string): boolean => stale.has(name) && now() - (fetched.get(name) ?? 0) >= FETCH_EVERY_MS;

let refreshing = false;
/** Fetches what is stale and on the screen, or not known yet. */
async function refresh(): Promise<void> {
  const wanted = (): string[] => [...visible, ...arriving].filter(due);
  const waits = (): boolean => [...visible, ...arriving].some((name) => stale.has(name));
  if (refreshing) return;
  refreshing = true;
  const worker = async (): Promise<void> => {
    for (let name = wanted()[0]; name !== undefined; name = wanted()[0]) await fetchOne(name);
  };
  try {
    if (wanted().length > WHOLE_LIST) await loadMachines();
    else await Promise.all(Array.from({ length: CONCURRENT }, worker));
  } finally {
    refreshing = false;
  }
  if (waits()) refreshSoon();
}

async function fetchOne(name: string): Promise<void> {
  stale.delete(name);
  arriving.delete(name);
  const asked = now();
  fetched.set(name, asked);
  try {
    put(await ask('GET /v1/:kind/:name', { params: { kind: 'machines', name } }), asked);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status === 404) forget(name);
  }
  draw();
}

/** Kinds of events after which nothing of a machine's row is different. */
const QUIET = new Set(['asset.served', 'tftp.served', 'config.served', 'operator.action', 'operator.login']);

function take({ kind, subject, fields, at }: EventView): void {
  if (kind === 'document.applied' || kind === 'document.deleted') {
    const [of, name = ''] = subject.split('/', 2);
    if (of === 'Machine') touch(name);
    else if (of === 'Cluster' || of === 'Profile') later();
    return;
  }
  if (subject.includes('/') || QUIET.has(kind)) return;
  if (kind === 'machine.phase' && fields?.to !== undefined) move(subject, String(fields.to) as Phase, at);
  // A machine that was only seen may have got another name.
  if (kind === 'machine.accepted')
    changed([...rows.values()].filter((row) => row.unknown).map((row) => row.name));
  touch(subject);
}

function move(name: string, phase: Phase, since: string): void {
  const machine = shown.get(name);
  if (!machine) return;
  moved.set(name, now());
  const status = { ...machine.status, phase, since };
  // A machine whose phase moves is heard.
  const { word, reason } = conditionOf(status, { heard: { is: 'running' }, waits: status.waits });
  put({ ...machine, status: { ...status, condition: { word, ...(reason && { reason }) } } });
  draw();
}

const refreshSoon = throttle(DRAW_EVERY_MS, () => void refresh());
function touch(name: string): void {
  // The events of packets carry the address of a machine that no document names.
  if (/^([0-9a-f]{2}:){5}[0-9a-f]{2}$/.test(name)) return;
  stale.add(name);
  if (!shown.has(name)) arriving.add(name);
  refreshSoon();
}

/** Clusters and profiles decide about many rows. */
const later = coalesce(500, () => void loadMachines());

/** Keeps the machines up to date until the returned function is called. */
export function followMachines(): () => void {
  void loadMachines();
  const unsubscribe = onEvent(take);
  let first = true;
  const untrack = gap.subscribe(() => {
    if (!first) void loadMachines();
    first = false;
  });
  return () => {
    unsubscribe();
    untrack();
  };
}
