/**
 * Every metric, declared once. `docs/metrics.md` is generated from this table. Rooms count by
 * calling `metrics.add(name, labels)`; the daemon exposes them to Prometheus.
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';

interface MetricKind {
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  readonly labels: readonly string[];
  readonly buckets?: readonly number[];
}

export const METRICS = {
  muster_dhcp_packets_total: {
    type: 'counter',
    help: 'DHCP packets received, by network, message type and what became of them (reason code).',
    labels: ['network', 'type', 'outcome'],
  },
  muster_dhcp_leases: { type: 'gauge', help: 'Leases by network and state.', labels: ['network', 'state'] },
  muster_tftp_transfers_total: {
    type: 'counter',
    help: 'TFTP transfers ended, by outcome.',
    labels: ['outcome'],
  },
  muster_tftp_sent_bytes_total: { type: 'counter', help: 'Octets of file data sent by TFTP.', labels: [] },
  muster_http_requests_total: {
    type: 'counter',
    help: 'Requests of machines, by route and status.',
    labels: ['route', 'status'],
  },
  muster_agent_requests_total: {
    type: 'counter',
    help: "Requests of agents, by route and status; a handshake that failed is route 'handshake', status 0; the registry's is 'others'.",
    labels: ['route', 'status'],
  },
  muster_http_sent_bytes_total: { type: 'counter', help: 'Octets of asset bodies sent by HTTP.', labels: [] },
  muster_api_requests_total: {
    type: 'counter',
    help: "Requests of operators and monitoring, by route and status; what fits no route is 'none'.",
    labels: ['route', 'status'],
  },
  muster_boot_decisions_total: {
    type: 'counter',
    help: 'Boot decisions by kind and reason.',
    labels: ['kind', 'reason'],
  },
  muster_machines: { type: 'gauge', help: 'Machines by phase.', labels: ['phase'] },
  muster_reports_total: {
    type: 'counter',
    help: 'Reports of machines by step and whether they were believed.',
    labels: ['step', 'outcome'],
  },
  muster_state_free_bytes: {
    type: 'gauge',
    help: 'Free octets of the file system of the state directory.',
    labels: [],
  },
  muster_state_reserve_bytes: {
    type: 'gauge',
    help: 'Octets of it that uploads leave free for the store.',
    labels: [],
  },
  muster_store_commits_total: { type: 'counter', help: 'Commits by outcome.', labels: ['outcome'] },
  muster_store_commit_seconds: {
    type: 'histogram',
    help: 'Time from commit to durable.',
    labels: [],
    buckets: [0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 1],
  },
  muster_events_total: { type: 'counter', help: 'Events by kind.', labels: ['kind'] },
  muster_event_journal_lost_total: {
    type: 'counter',
    help: 'Events that did not reach the journal (disk full, or faster than the disk takes them). They were in memory.',
    labels: [],
  },
  muster_log_lines_dropped_total: {
    type: 'counter',
    help: 'Lines that could not be written to the log (terminal closed, disk full, reader gone) and were dropped.',
    labels: [],
  },
  muster_documents: { type: 'gauge', help: 'Documents by kind.', labels: ['kind'] },
  muster_document_faults: {
    type: 'gauge',
    help: 'Files of the configuration directory with faults: their last good version is in use, or what they name is missing.',
    labels: [],
  },
} as const satisfies Record<string, MetricKind>;

export type MetricName = keyof typeof METRICS;
type Labels = Readonly<Record<string, string>>;

export interface Metrics {
  /** Adds to a counter (default 1). */
  add(name: MetricName, labels?: Labels, amount?: number): void;
  /** Sets a gauge. */
  set(name: MetricName, labels: Labels, value: number): void;
  /** Observes a histogram, in the unit of its name. */
  observe(name: MetricName, value: number, labels?: Labels): void;
  /** The Prometheus text format. */
  text(): Promise<string>;
}

/** Metrics on a registry of their own; making two does not clash. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  const made = new Map<string, Counter | Gauge | Histogram>();
  for (const [name, kind] of Object.entries(METRICS) as [MetricName, MetricKind][]) {
    const common = { name, help: kind.help, labelNames: [...kind.labels], registers: [registry] };
    made.set(
      name,
      kind.type === 'counter'
        ? new Counter(common)
        : kind.type === 'gauge'
          ? new Gauge(common)
          : new Histogram({ ...common, buckets: [...(kind.buckets ?? [])] }),
    );
  }
  // Counting is on every packet's way and the registry's own takes a microsecond: sums are kept
  // here and handed over when asked for.
  const sums = new Map<string, { readonly counter: Counter; readonly labels: Labels; pending: number }>();
  const add = (name: MetricName, labels: Labels = {}, amount = 1): void => {
    let key: string = name;
    for (const label of METRICS[name].labels) key += `\0${labels[label]}`;
    const sum = sums.get(key);
    if (sum) {
      sum.pending += amount;
      return;
    }
    // The first of its kind goes to the registry at once, which refuses labels that are not
    // declared.
    const counter = made.get(name) as Counter;
    counter.inc(labels, amount);
    sums.set(key, { counter, labels, pending: 0 });
  };
  const handOver = (): void => {
    for (const sum of sums.values()) {
      sum.counter.inc(sum.labels, sum.pending);
      sum.pending = 0;
    }
  };
  return {
    add,
    set: (name, labels, value) => (made.get(name) as Gauge).set(labels, value),
    observe: (name, value, labels = {}) => (made.get(name) as Histogram).observe(labels, value),
    text: () => {
      handOver();
      return registry.metrics();
    },
  };
}
