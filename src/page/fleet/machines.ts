/**
 * All machines, kept up to date by events. A change of phase is shown from the event itself; the
 * rest of a machine is fetched again, for rows that are on the screen at once, and for the others
 * when they come onto it.
 */
import { computed, signal } from '@preact/signals';
import type { Shown } from '../../api/documents.ts';
import type { EventView } from '../../api/times.ts';
import { coalesce } from '../base/clock.ts';
import { get, Problem, part } from '../base/http.ts';
import { gap, onEvent } from '../base/live.ts';
import { type Memberships, membershipsOf, type Phase, type Row, rowOf, TONES } from './row.ts';

/** How long changes are collected before they are drawn. */
const DRAW_EVERY_MS = 80;
/** How many machines are fetched at once. */
const CONCURRENT = 4;
/** When so many machines are to be fetched, the whole list is less work for the server. */
const WHOLE_LIST = 150;

const shown = new Map<string, Shown>();
const rows = new Map<string, Row>();
const stale = new Set<string>();
const visible = new Set<string>();
let memberships: Memberships = new Map();

const drawn = signal(0);
export const loading = signal(true);
export const fault = signal<Problem | undefined>(undefined);

export const allRows = computed(() => {
  drawn.value;
  return [...rows.values()];
});

/** A machine as the API shows it; undefined when there is none. */
export function machineNamed(name: string): Shown | undefined {
  drawn.value;
  return shown.get(name);
}

const draw = coalesce(DRAW_EVERY_MS, () => {
  drawn.value++;
});

function put(machine: Shown): void {
  shown.set(machine.metadata.name, machine);
  rows.set(machine.metadata.name, rowOf(machine, memberships));
}

/** Fetches all machines and clusters. */
export async function loadMachines(): Promise<void> {
  try {
    const [machines, clusters] = await Promise.all([
      get<{ items: readonly Shown[] }>('/v1/machines'),
      get<{ items: readonly Shown[] }>('/v1/clusters'),
    ]);
    memberships = membershipsOf(clusters.items);
    shown.clear();
    rows.clear();
    stale.clear();
    for (const machine of machines.items) put(machine);
    fault.value = undefined;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    fault.value = error;
  }
  loading.value = false;
  drawn.value++;
}

/** Says which machines are on the screen. */
export function show(names: readonly string[]): void {
  visible.clear();
  for (const name of names) visible.add(name);
  if (stale.size > 0) void refresh();
}

/** Takes an order's effect at once, without waiting for its events. */
export function changed(names: readonly string[]): void {
  for (const name of names) stale.add(name);
  for (const name of names) visible.add(name);
  void refresh();
}

let refreshing = false;
/** Fetches what is stale and on the screen, or not known yet. */
async function refresh(): Promise<void> {
  const wanted = (): string[] => [...stale].filter((name) => visible.has(name) || !shown.has(name));
  if (refreshing || wanted().length === 0) return;
  if (wanted().length > WHOLE_LIST) return loadMachines();
  refreshing = true;
  const worker = async (): Promise<void> => {
    for (let name = wanted()[0]; name !== undefined; name = wanted()[0]) {
      stale.delete(name);
      await fetchOne(name);
    }
  };
  try {
    await Promise.all(Array.from({ length: CONCURRENT }, worker));
  } finally {
    refreshing = false;
  }
}

async function fetchOne(name: string): Promise<void> {
  try {
    put(await get<Shown>(`/v1/machines/${part(name)}`));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status === 404) {
      shown.delete(name);
      rows.delete(name);
    }
  }
  draw();
}

/** Kinds of events after which nothing of a machine's row is different. */
const QUIET = new Set(['asset.served', 'tftp.served', 'config.served', 'operator.action', 'operator.login']);

function take({ kind, subject, fields }: EventView): void {
  if (kind === 'document.applied' || kind === 'document.deleted') {
    const [of, name = ''] = subject.split('/', 2);
    if (of === 'Machine') touch(name);
    else if (of === 'Cluster' || of === 'Profile') later();
    return;
  }
  if (subject.includes('/') || QUIET.has(kind)) return;
  if (kind === 'machine.phase' && fields?.to !== undefined) moved(subject, String(fields.to) as Phase);
  // A machine that was only seen may have got another name.
  if (kind === 'machine.accepted')
    changed([...rows.values()].filter((row) => row.unknown).map((row) => row.name));
  touch(subject);
}

function moved(name: string, phase: Phase): void {
  const [machine, row] = [shown.get(name), rows.get(name)];
  if (!machine || !row) return;
  rows.set(name, { ...row, phase, tone: TONES[phase], haystack: row.haystack.replace(row.phase, phase) });
  shown.set(name, { ...machine, status: { ...machine.status, phase } });
  draw();
}

const refreshSoon = coalesce(DRAW_EVERY_MS, () => void refresh());
function touch(name: string): void {
  // The events of packets carry the address of a machine that no document names.
  if (/^([0-9a-f]{2}:){5}[0-9a-f]{2}$/.test(name)) return;
  stale.add(name);
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
