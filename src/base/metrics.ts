/**
 * The catalogue of metrics. `docs/metrics.md` is generated from this table. Rooms count by
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
    help: 'DHCP packets received, by network, message type and outcome (reason code).',
    labels: ['network', 'type', 'outcome'],
  },
  muster_refused_sources_total: {
    type: 'counter',
    help: 'Requests that got no answer because of where they came from, by port (dhcp, pxe, tftp, http, redeem) and reason.',
    labels: ['port', 'reason'],
  },
  muster_datagrams_native: {
    type: 'gauge',
    help: '1 when DHCP and TFTP use direct system calls, 0 when they use node:dgram (MUSTER_NATIVE=0, or system calls cannot be used; the log says why).',
    labels: [],
  },
  muster_dhcp_leases: { type: 'gauge', help: 'Leases, by network and state.', labels: ['network', 'state'] },
  muster_tftp_transfers_total: {
    type: 'counter',
    help: 'Finished TFTP transfers, by outcome.',
    labels: ['outcome'],
  },
  muster_tftp_sent_bytes_total: { type: 'counter', help: 'Bytes of file data sent by TFTP.', labels: [] },
  muster_http_requests_total: {
    type: 'counter',
    help: 'HTTP requests of machines, by route and status.',
    labels: ['route', 'status'],
  },
  muster_agent_requests_total: {
    type: 'counter',
    help: "Requests of agents, by route and status. Failed TLS handshakes have the route 'handshake' and status 0, requests to the registry the route 'others'.",
    labels: ['route', 'status'],
  },
  muster_http_sent_bytes_total: { type: 'counter', help: 'Bytes of assets sent by HTTP.', labels: [] },
  muster_api_requests_total: {
    type: 'counter',
    help: "Requests of operators and monitoring, by route and status. Requests that match no route have the route 'none'.",
    labels: ['route', 'status'],
  },
  muster_logins_total: {
    type: 'counter',
    help: 'Log-ins of operators over HTTPS, by result (accepted, refused).',
    labels: ['result'],
  },
  muster_boot_decisions_total: {
    type: 'counter',
    help: 'Boot decisions, by kind and reason.',
    labels: ['kind', 'reason'],
  },
  muster_boots_total: {
    type: 'counter',
    help: "Boots that have ended, by outcome: 'ready', 'failed' (the machine said so), 'silent' (it reported nothing in time) or 'held'.",
    labels: ['outcome'],
  },
  muster_boot_seconds: {
    type: 'histogram',
    help: "Seconds from a machine's first DHCP message to its report that it is ready.",
    labels: [],
    buckets: [15, 30, 60, 90, 120, 180, 300, 600, 1800],
  },
  muster_cluster_machines: {
    type: 'gauge',
    help: "Machines of founded clusters, by cluster and state: 'running', 'held' (its agent waits; the machine's status says for what) or 'silent' (its agent does not poll).",
    labels: ['cluster', 'state'],
  },
  muster_cluster_etcd_members: {
    type: 'gauge',
    help: "Members of etcd, by cluster and what their agents report: 'serving' (it reads with a quorum), 'alive' (it has no quorum), 'down', or 'silent' (no report).",
    labels: ['cluster', 'health'],
  },
  muster_dhcp_unrecorded_leases: {
    type: 'gauge',
    help: 'Addresses that were acknowledged while the store could not write, and are not recorded yet.',
    labels: [],
  },
  muster_cluster_etcd_troubles: {
    type: 'gauge',
    help: "What is wrong with an etcd whose members answer, by cluster and trouble: 'nospace' and 'corrupt' (alarms: etcd refuses writes), 'other_alarm', 'near_quota' (80 % of it), 'behind' (a member lags by 5,000 entries or more), 'no_leader'.",
    labels: ['cluster', 'trouble'],
  },
  muster_cluster_etcd_database_bytes: {
    type: 'gauge',
    help: 'The size of the largest database file of the members of an etcd, by cluster.',
    labels: ['cluster'],
  },
  muster_cluster_etcd_quota_bytes: {
    type: 'gauge',
    help: 'The size of the database at which etcd refuses writes, by cluster.',
    labels: ['cluster'],
  },
  muster_cluster_apiservers: {
    type: 'gauge',
    help: "API servers, by cluster and what their agents report: 'ready', 'alive' (not ready), 'down', or 'silent' (no report).",
    labels: ['cluster', 'health'],
  },
  muster_change_under_way: {
    type: 'gauge',
    help: '1 while a change of a cluster (a rotation) is under way, by cluster and kind; 0 when it has ended.',
    labels: ['cluster', 'kind'],
  },
  muster_change_held: {
    type: 'gauge',
    help: 'Whether a change of a cluster waits for an operator, by cluster and kind.',
    labels: ['cluster', 'kind'],
  },
  muster_console_bytes: {
    type: 'gauge',
    help: 'Bytes of console lines that are kept of all machines, by who brings them: system or bmc.',
    labels: ['of'],
  },
  muster_console_boots_removed_total: {
    type: 'counter',
    help: 'Boots whose console lines were removed because all machines together had more than 1 GiB, by who brought them.',
    labels: ['of'],
  },
  muster_machines: { type: 'gauge', help: 'Machines, by phase.', labels: ['phase'] },
  muster_machine_conditions: {
    type: 'gauge',
    help: 'Machines, by condition: what is so of them now.',
    labels: ['condition'],
  },
  muster_concerns: {
    type: 'gauge',
    help: "What needs an operator now, by kind and level ('urgent' or 'soon'); `muster status` lists it.",
    labels: ['concern', 'level'],
  },
  muster_reports_total: {
    type: 'counter',
    help: "Reports of machines, by step and outcome: 'believed', 'repeated' or the reason of a refusal.",
    labels: ['step', 'outcome'],
  },
  muster_state_free_bytes: {
    type: 'gauge',
    help: 'Free bytes of the file system that holds the state directory.',
    labels: [],
  },
  muster_state_reserve_bytes: {
    type: 'gauge',
    help: 'Bytes of that file system that uploads leave free for the store.',
    labels: [],
  },
  muster_store_commits_total: {
    type: 'counter',
    help: 'Commits to the store, by outcome.',
    labels: ['outcome'],
  },
  muster_store_commit_seconds: {
    type: 'histogram',
    help: 'Seconds from the call of commit until the change is durable.',
    labels: [],
    buckets: [0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 1],
  },
  muster_table_dropped_total: {
    type: 'counter',
    help: "Entries that a full table in memory did not take or gave up, by table: sessions without a boot, machines without a document ('discovered', and 'discovery' for those that came too fast), addresses from other servers ('elsewhere'), declines that wait for their probe ('declines'), BMCs that asked for an address ('bmcs').",
    labels: ['table'],
  },
  muster_events_total: { type: 'counter', help: 'Events, by kind.', labels: ['kind'] },
  muster_traces_total: {
    type: 'counter',
    help: "Traces of boots and changes for the collector of --otlp-endpoint, by outcome: 'sent' or 'dropped' (five attempts failed, or too many waited).",
    labels: ['outcome'],
  },
  muster_webhook_events_total: {
    type: 'counter',
    help: "Events for Webhooks, by Webhook and outcome: 'delivered', 'failed' (an attempt that is repeated), 'refused' (given up after five answers 4xx) or 'dropped' (too many waited).",
    labels: ['webhook', 'outcome'],
  },
  muster_webhook_waiting: {
    type: 'gauge',
    help: 'Events that wait until the server of a Webhook takes them, by Webhook.',
    labels: ['webhook'],
  },
  muster_event_journal_lost_total: {
    type: 'counter',
    help: 'Events that did not reach the journal on disk (disk full, or too many at once). They were in memory.',
    labels: [],
  },
  muster_audit_lost_total: {
    type: 'counter',
    help: 'Entries that did not reach the security log, because the disk refused too many before them.',
    labels: [],
  },
  muster_log_lines_dropped_total: {
    type: 'counter',
    help: 'Log lines that were dropped because they could not be written (terminal closed, disk full, reader gone).',
    labels: [],
  },
  muster_pki_next_end_timestamp_seconds: {
    type: 'gauge',
    help: 'When the CA or certificate of this kind that is to be renewed and ends first ends, in seconds since 1970; 0 when there is none any more. The scope is a cluster or `muster`.',
    labels: ['scope', 'what'],
  },
  muster_boot_hosts: {
    type: 'gauge',
    help: 'Hosts that share the store, by what they do: acting, standby or silent.',
    labels: ['state'],
  },
  muster_take_over_gap: {
    type: 'gauge',
    help: 'Seconds in which nobody answered when this host took over: from the end of the other one’s lease until this one answered; 0 when it did not take over.',
    labels: [],
  },
  muster_clock_doubted: {
    type: 'gauge',
    help: "1 while the boot host's clock is in doubt, so that nothing is issued, else 0.",
    labels: [],
  },
  muster_clock_offset: {
    type: 'gauge',
    help: "Seconds by which the boot host's clock is ahead of the time that other clocks have (negative: behind), while it is in doubt; else 0.",
    labels: [],
  },
  muster_pki_alarms: {
    type: 'gauge',
    help: 'CAs and certificates that end within 30 days (soon) or 7 days (urgent) and should have been renewed.',
    labels: ['scope', 'level'],
  },
  muster_documents: { type: 'gauge', help: 'Documents, by kind.', labels: ['kind'] },
  muster_document_faults: {
    type: 'gauge',
    help: 'Files of the configuration directory with faults. Their last valid version is in use, or a document that they name is missing.',
    labels: [],
  },
} as const satisfies Record<string, MetricKind>;

export type MetricName = keyof typeof METRICS;
type Labels = Readonly<Record<string, string>>;

export interface Metrics {
  /** Adds `amount` (default 1) to a counter. */
  add(name: MetricName, labels?: Labels, amount?: number): void;
  /** Sets a gauge. */
  set(name: MetricName, labels: Labels, value: number): void;
  /** Adds an observation to a histogram, in the unit that its name ends in. */
  observe(name: MetricName, value: number, labels?: Labels): void;
  /** All metrics in the Prometheus text format. */
  text(): Promise<string>;
}

/** Makes metrics with their own registry, so that a process can have several. */
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
  // Every packet is counted, and the registry takes a microsecond for it. So the sums are kept here
  // and added to the registry when the metrics are read.
  const sums = new Map<string, { readonly counter: Counter; readonly labels: Labels; pending: number }>();
  const add = (name: MetricName, labels: Labels = {}, amount = 1): void => {
    let key: string = name;
    for (const label of METRICS[name].labels) key += `\0${labels[label]}`;
    const sum = sums.get(key);
    if (sum) {
      sum.pending += amount;
      return;
    }
    // The first count with these labels goes to the registry immediately, because the registry
    // refuses labels that are not declared.
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
