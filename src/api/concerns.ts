/**
 * What needs an operator now, of the boot host, documents, clusters and machines, the worst first:
 * `muster status`, the page's overview, the event `site.concern`, metrics and alert rules show
 * these. Pure.
 */
import type { Fault } from '../base/errors.ts';
import { firstFew } from '../base/first-few.ts';
import type { Lost } from '../cluster/change/heal/watch.ts';
import { CLUSTER_CONDITIONS, type ClusterCondition } from '../cluster/health/condition.ts';
import type { ClusterHealth, Finding } from '../cluster/health/finding.ts';
import { CONDITIONS, type Condition, type ConditionWord } from '../machines/condition.ts';
import type { Readiness } from './daemon.ts';

/** `urgent`: something does not work, or is about to stop. `soon`: it works, and needs a hand. */
export type ConcernLevel = 'urgent' | 'soon';

/** All kinds, the worst first. */
export const CONCERNS = {
  'boot-host': { level: 'urgent', about: 'A check of the boot host fails.' },
  'cluster-fails': {
    level: 'urgent',
    about: 'etcd, the API servers, the network between pods or the clock of a cluster fails its check.',
  },
  'machine-refused': { level: 'urgent', about: CONDITIONS.refused.about },
  'machine-failing': { level: 'urgent', about: CONDITIONS.failing.about },
  'machine-silent': { level: 'urgent', about: CONDITIONS.silent.about },
  'machine-lost': {
    level: 'urgent',
    about: 'A machine of a cluster with spares is lost, and no spare takes its place by itself.',
  },
  'snapshot-late': { level: 'urgent', about: 'A cluster has no snapshot within twice the time it asks for.' },
  'space-low': { level: 'soon', about: 'A disk of the boot host or of a machine is nearly full.' },
  'cluster-check': { level: 'soon', about: 'Another check of the health of a cluster fails.' },
  'cluster-unchecked': { level: 'soon', about: CLUSTER_CONDITIONS.unchecked.about },
  'change-held': { level: 'soon', about: CLUSTER_CONDITIONS.held.about },
  'machine-held': { level: 'soon', about: CONDITIONS.held.about },
  'version-ends': { level: 'soon', about: 'Kubernetes ends the support of a cluster’s minor version.' },
  'names-behind': {
    level: 'soon',
    about: 'A name server did not take the names of machines or clusters; they are sent again.',
  },
  'document-fault': { level: 'soon', about: 'A document has a fault; its last valid version is in force.' },
  'image-incomplete': { level: 'soon', about: 'A Profile names an image whose files are not all here.' },
  warning: {
    level: 'soon',
    about: 'A key or certificate ends soon, a copy is missing, or a document warns.',
  },
  'order-waits': { level: 'soon', about: 'An order waits for a second person.' },
} as const satisfies Readonly<Record<string, { readonly level: ConcernLevel; readonly about: string }>>;
export type ConcernCode = keyof typeof CONCERNS;
const ORDER = Object.keys(CONCERNS) as ConcernCode[];

export interface Concern {
  readonly code: ConcernCode;
  readonly level: ConcernLevel;
  /** What it is about, e.g. `Cluster/blue`, `m1`, `3 machines`; `boot host`. */
  readonly subject: string;
  readonly text: string;
  /** What to do next, often a command. */
  readonly fix: string;
}

/** What concerns are made of. */
export interface ConcernFacts {
  readonly checks: Readiness['checks'];
  readonly faults: readonly Fault[];
  readonly warnings: readonly Fault[];
  readonly incompleteImages: readonly string[];
  readonly machines: readonly {
    readonly name: string;
    readonly condition: Condition;
    /** Nearly full mount point → percent in use. */
    readonly full?: Readonly<Record<string, string>> | undefined;
  }[];
  readonly clusters: readonly {
    readonly name: string;
    readonly condition: ClusterCondition;
    /** The last look at its health, if it is recent. */
    readonly health: ClusterHealth | undefined;
    /** Why its snapshots are late; undefined when they are not. */
    readonly late: string | undefined;
    /** That Kubernetes ends the support of its version; undefined while that is not near. */
    readonly ends?: string | undefined;
  }[];
  /** Lost machines whose place no spare takes by itself. */
  readonly lost: readonly Pick<Lost, 'machine' | 'text' | 'command'>[];
  /** Zones whose name server did not take every name. */
  readonly names: readonly { readonly zone: string; readonly count: number; readonly reason: string }[];
  /** Orders that wait for a second person. */
  readonly waiting: number;
  /** The free octets of the boot host's state directory, and what uploads leave free there. */
  readonly space?: { readonly free: number; readonly reserve: number } | undefined;
}

/** Checks without which a cluster does not work; all others are `cluster-check`. */
const VITAL: ReadonlySet<Finding['check']> = new Set([
  'etcd',
  'apiserver',
  'network',
  'clock',
  'restored',
  'cluster',
]);
/** At most this many machines with the same condition get a line each. */
const ONE_BY_ONE = 3;
const MACHINE_CODES: Partial<Readonly<Record<ConditionWord, ConcernCode>>> = {
  refused: 'machine-refused',
  failing: 'machine-failing',
  silent: 'machine-silent',
  held: 'machine-held',
};
const MIB = 2 ** 20;

const concern = (code: ConcernCode, subject: string, text: string, fix: string): Concern => ({
  code,
  level: CONCERNS[code].level,
  subject,
  text,
  fix,
});

/** All concerns, the worst first. */
export function concernsOf(facts: ConcernFacts): readonly Concern[] {
  const told = [...ofHost(facts), ...ofDocuments(facts), ...ofClusters(facts), ...ofMachines(facts)];
  return told.toSorted((a, b) => ORDER.indexOf(a.code) - ORDER.indexOf(b.code));
}

function* ofHost({ checks, faults, space, waiting, names }: ConcernFacts): Generator<Concern> {
  // Faults of documents are also among the checks, without their places.
  const placed = new Set(faults.map(({ message }) => message));
  for (const { name, ok, detail = 'it fails' } of checks)
    if (!ok && !placed.has(detail))
      yield concern('boot-host', 'boot host', `${name}: ${detail}`, 'muster doctor; journalctl -u muster');
  if (space && space.free < 2 * space.reserve)
    yield concern(
      'space-low',
      'boot host',
      `its state directory has ${Math.floor(space.free / MIB)} MiB left; uploads are refused below ${Math.ceil(space.reserve / MIB)}`,
      'muster artifacts prune; muster image ls shows what nothing uses',
    );
  for (const { zone, count, reason } of names)
    yield concern(
      'names-behind',
      `zone ${zone}`,
      `${count} names are not at their server yet: ${reason}`,
      'muster get names',
    );
  if (waiting > 0)
    yield concern('order-waits', 'boot host', `${waiting} wait for a second person`, 'muster pending ls');
}

function* ofDocuments({ faults, warnings, incompleteImages }: ConcernFacts): Generator<Concern> {
  const subject = ({ document, at }: Fault): string => document ?? at?.file ?? 'boot host';
  for (const fault of faults)
    yield concern('document-fault', subject(fault), fault.message, 'correct it; muster reload');
  for (const fault of warnings)
    yield concern('warning', subject(fault), fault.message, `docs/errors.md explains ${fault.code}`);
  for (const name of incompleteImages)
    yield concern(
      'image-incomplete',
      `Image/${name}`,
      'a Profile names it, so its machines are held',
      'muster image ls -o wide',
    );
}

function* ofClusters({ clusters, machines }: ConcernFacts): Generator<Concern> {
  const troubled = new Set(
    machines.filter(({ condition }) => MACHINE_CODES[condition.word]).map(({ name }) => name),
  );
  for (const { name, condition, health, late, ends } of clusters) {
    const subject = `Cluster/${name}`;
    if (condition.word === 'unchecked')
      yield concern(
        'cluster-unchecked',
        subject,
        CLUSTER_CONDITIONS.unchecked.about,
        `muster cluster status ${name}`,
      );
    if (late !== undefined) yield concern('snapshot-late', subject, late, `muster cluster backups ${name}`);
    if (ends !== undefined)
      yield concern('version-ends', subject, ends, `muster cluster upgrade ${name} --to VERSION --dry-run`);
    for (const { check, subject: of, ok, says, fix = `muster cluster status ${name}` } of health?.findings ??
      []) {
      // The condition of a machine says the same of it.
      if (ok || (check === 'machine' && troubled.has(of))) continue;
      const code = check === 'change' ? 'change-held' : VITAL.has(check) ? 'cluster-fails' : 'cluster-check';
      yield concern(code, subject, of === name ? `${check}: ${says}` : `${check} ${of}: ${says}`, fix);
    }
  }
}

function* ofMachines({ machines, lost }: ConcernFacts): Generator<Concern> {
  for (const { machine, text, command = `muster explain ${machine}` } of lost.slice(0, ONE_BY_ONE))
    yield concern('machine-lost', machine, `it is lost, and keeps its place: ${text}`, command);
  for (const { name, full = {} } of machines)
    for (const [path, used] of Object.entries(full))
      yield concern(
        'space-low',
        name,
        `${path} is ${used} % full`,
        `free space on ${name}, or use a larger disk`,
      );
  for (const [word, code] of Object.entries(MACHINE_CODES) as [ConditionWord, ConcernCode][]) {
    const such = machines.filter(({ condition }) => condition.word === word);
    const { about } = CONDITIONS[word];
    if (such.length > ONE_BY_ONE)
      yield concern(
        code,
        `${such.length} machines`,
        `${word}: ${firstFew(such.map(({ name }) => name))}`,
        'muster get machines',
      );
    else
      for (const { name, condition } of such)
        yield concern(code, name, `${word}: ${condition.reason?.text ?? about}`, `muster explain ${name}`);
  }
}
