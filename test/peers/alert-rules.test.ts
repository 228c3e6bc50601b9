/**
 * Alert rules, dashboard and metrics as Prometheus reads them: promtool checks them, and evaluates
 * every alert over series with which it must fire, and over those of a boot host that is well.
 */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { load } from 'js-yaml';
import { afterAll, expect, test } from 'vitest';
import { createMetrics, METRICS, type MetricName } from '../../src/base/metrics.ts';
import { unpacked } from './unpacked.ts';

const RULES = path.resolve('examples/observability/muster.rules.yaml');
const DASHBOARD = 'examples/observability/grafana-dashboard.json';
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-rules-'));
afterAll(() => fs.rmSync(dir, { recursive: true, force: true }));

interface Rule {
  readonly alert: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: { readonly summary: string; readonly description: string };
}
const rules = (load(fs.readFileSync(RULES, 'utf8')) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
);

function promtool(words: readonly string[], input = ''): void {
  const { command, env } = unpacked('promtool-trixie', 'usr/bin/promtool');
  const done = spawnSync(command, [...words], { env, input, encoding: 'utf8' });
  expect({ status: done.status, said: done.status === 0 ? '' : done.stdout + done.stderr }).toEqual({
    status: 0,
    said: '',
  });
}

/** Writes a file for promtool; JSON is YAML. */
function written(name: string, content: unknown): string {
  const file = path.join(dir, name);
  fs.writeFileSync(file, JSON.stringify(content));
  return file;
}

/** A case: series, minutes after which the alert fires, its labels and its summary. */
type Case = readonly [
  series: Readonly<Record<string, string>>,
  minutes: number,
  labels: Readonly<Record<string, string>>,
  summary: string,
];
const ON = 'instance="boot1"';
const BLUE = { instance: 'boot1', cluster: 'blue' };

/** For every alert, what makes it fire. A series is `first+step x count` of one-minute samples. */
const FIRING: Readonly<Record<string, Case>> = {
  MusterDown: [
    { [`up{job="muster",${ON}}`]: '0x10' },
    6,
    { job: 'muster', instance: 'boot1' },
    'The boot host boot1 does not answer.',
  ],
  MusterDiskAlmostFull: [
    {
      [`muster_state_free_bytes{${ON}}`]: '314572800x20',
      [`muster_state_reserve_bytes{${ON}}`]: '268435456x20',
    },
    11,
    { instance: 'boot1' },
    'The state directory of boot1 has 300MiB left.',
  ],
  MusterStoreDoesNotWrite: [
    { [`muster_store_commits_total{outcome="failed",${ON}}`]: '0 0 1x10' },
    5,
    { instance: 'boot1', outcome: 'failed' },
    'The store of boot1 could not write.',
  ],
  MusterCertificateEndsSoon: [
    { [`muster_pki_next_end_timestamp_seconds{scope="blue",what="ca",${ON}}`]: '864000x90' },
    61,
    { instance: 'boot1', scope: 'blue', what: 'ca' },
    'ca of blue ends within two weeks.',
  ],
  MusterCertificateUrgent: [
    { [`muster_pki_alarms{scope="blue",level="urgent",${ON}}`]: '2x5' },
    1,
    { instance: 'boot1', scope: 'blue', level: 'urgent' },
    '2 CAs or certificates of blue end within seven days.',
  ],
  MusterClockDoubted: [
    { [`muster_clock_doubted{${ON}}`]: '1x10' },
    3,
    { instance: 'boot1' },
    'The clock of boot1 is in doubt.',
  ],
  MusterBootsFail: [
    { [`muster_boots_total{outcome="silent",${ON}}`]: '0+1x30' },
    30,
    { instance: 'boot1' },
    '30 boots failed on boot1 in half an hour.',
  ],
  MusterBootsSlow: [
    {
      [`muster_boot_seconds_bucket{le="600",${ON}}`]: '0x120',
      [`muster_boot_seconds_bucket{le="1800",${ON}}`]: '0+1x120',
      [`muster_boot_seconds_bucket{le="+Inf",${ON}}`]: '0+1x120',
    },
    90,
    { instance: 'boot1' },
    'One boot of ten on boot1 takes longer than ten minutes.',
  ],
  MusterMachinesHeld: [
    { [`muster_machine_conditions{condition="held",${ON}}`]: '3x20' },
    16,
    { instance: 'boot1' },
    '3 machines on boot1 are held.',
  ],
  MusterUrgent: [
    { [`muster_concerns{concern="cluster-fails",level="urgent",${ON}}`]: '2x10' },
    6,
    { instance: 'boot1', concern: 'cluster-fails' },
    '2 things of kind cluster-fails on boot1 do not work.',
  ],
  MusterNeedsAttention: [
    { [`muster_concerns{concern="warning",level="soon",${ON}}`]: '1x70' },
    61,
    { instance: 'boot1', concern: 'warning' },
    '1 things of kind warning on boot1 need an operator.',
  ],
  MusterMachinesBad: [
    { [`muster_machine_conditions{condition="silent",${ON}}`]: '2x20' },
    16,
    { instance: 'boot1', condition: 'silent' },
    '2 machines on boot1 are silent.',
  ],
  MusterClusterMachineSilent: [
    { [`muster_cluster_machines{cluster="blue",state="silent",${ON}}`]: '1x20' },
    16,
    BLUE,
    '1 machines of cluster blue do not report.',
  ],
  MusterClusterMachineHeld: [
    { [`muster_cluster_machines{cluster="blue",state="held",${ON}}`]: '2x40' },
    31,
    BLUE,
    'The agents of 2 machines of cluster blue wait.',
  ],
  MusterEtcdMemberDown: [
    {
      [`muster_cluster_etcd_members{cluster="blue",health="serving",${ON}}`]: '2x20',
      [`muster_cluster_etcd_members{cluster="blue",health="silent",${ON}}`]: '1x20',
    },
    11,
    BLUE,
    '1 members of etcd of cluster blue do not serve.',
  ],
  MusterEtcdWithoutQuorum: [
    {
      [`muster_cluster_etcd_members{cluster="blue",health="serving",${ON}}`]: '1x9',
      [`muster_cluster_etcd_members{cluster="blue",health="alive",${ON}}`]: '1x9',
      [`muster_cluster_etcd_members{cluster="blue",health="down",${ON}}`]: '0x9',
    },
    4,
    BLUE,
    'Cluster blue has no quorum of etcd, or its members do not report.',
  ],
  MusterEtcdAlarm: [
    { [`muster_cluster_etcd_troubles{cluster="blue",trouble="nospace",${ON}}`]: '1x5' },
    1,
    { ...BLUE, trouble: 'nospace' },
    'etcd of cluster blue raised the alarm nospace and refuses writes.',
  ],
  MusterEtcdNearQuota: [
    { [`muster_cluster_etcd_troubles{cluster="blue",trouble="near_quota",${ON}}`]: '1x20' },
    11,
    { ...BLUE, trouble: 'near_quota' },
    'A database of etcd of cluster blue is near its quota.',
  ],
  MusterEtcdMemberBehind: [
    { [`muster_cluster_etcd_troubles{cluster="blue",trouble="behind",${ON}}`]: '1x20' },
    6,
    BLUE,
    '1 members of etcd of cluster blue lag or know no leader.',
  ],
  MusterApiServersDown: [
    {
      [`muster_cluster_apiservers{cluster="blue",health="ready",${ON}}`]: '0x9',
      [`muster_cluster_apiservers{cluster="blue",health="down",${ON}}`]: '3x9',
    },
    6,
    BLUE,
    'No API server of cluster blue is ready.',
  ],
  MusterPoolExhausted: [
    { [`muster_dhcp_packets_total{network="rack1",type="DISCOVER",outcome="exhausted",${ON}}`]: '0 0 1x10' },
    5,
    { instance: 'boot1', network: 'rack1' },
    'Network rack1 has no address left.',
  ],
  MusterOtherDhcpServer: [
    {
      [`muster_dhcp_packets_total{network="rack1",type="REQUEST",outcome="other_server",${ON}}`]: '0 0 1x10',
    },
    5,
    { instance: 'boot1', network: 'rack1' },
    'Machines on network rack1 took addresses of another DHCP server.',
  ],
  MusterChangeHeld: [
    { [`muster_change_held{cluster="blue",kind="rotation",${ON}}`]: '1x20' },
    16,
    { ...BLUE, kind: 'rotation' },
    'The rotation of cluster blue waits for an operator.',
  ],
  MusterWebhookFails: [
    {
      [`muster_webhook_waiting{webhook="alerts",${ON}}`]: '7x40',
      [`muster_webhook_events_total{webhook="alerts",outcome="delivered",${ON}}`]: '9x40',
      [`muster_webhook_events_total{webhook="alerts",outcome="failed",${ON}}`]: '0+1x40',
    },
    35,
    { instance: 'boot1', webhook: 'alerts' },
    'Webhook alerts takes no events; 7 wait.',
  ],
  MusterAuditLost: [
    { [`muster_audit_lost_total{${ON}}`]: '0 0 4x10' },
    5,
    { instance: 'boot1' },
    'boot1 lost entries of the security log.',
  ],
  MusterDocumentsFaulty: [
    { [`muster_document_faults{${ON}}`]: '1x20' },
    11,
    { instance: 'boot1' },
    '1 files of the configuration directory have faults.',
  ],
};

/** Series of a boot host and a cluster that are well. */
const WELL: Readonly<Record<string, string>> = {
  [`up{job="muster",${ON}}`]: '1x120',
  [`muster_state_free_bytes{${ON}}`]: '9000000000x120',
  [`muster_state_reserve_bytes{${ON}}`]: '268435456x120',
  [`muster_store_commits_total{outcome="done",${ON}}`]: '0+9x120',
  [`muster_pki_next_end_timestamp_seconds{scope="blue",what="ca",${ON}}`]: '90000000x120',
  [`muster_pki_next_end_timestamp_seconds{scope="green",what="ca",${ON}}`]: '0x120',
  [`muster_pki_alarms{scope="blue",level="urgent",${ON}}`]: '0x120',
  [`muster_clock_doubted{${ON}}`]: '0x120',
  [`muster_boots_total{outcome="ready",${ON}}`]: '0+1x120',
  [`muster_boots_total{outcome="failed",${ON}}`]: '0 1x119',
  [`muster_boot_seconds_bucket{le="120",${ON}}`]: '0+1x120',
  [`muster_boot_seconds_bucket{le="+Inf",${ON}}`]: '0+1x120',
  [`muster_machines{phase="ready",${ON}}`]: '5x120',
  [`muster_machines{phase="held",${ON}}`]: '0x120',
  // A machine restarts for five minutes.
  [`muster_cluster_machines{cluster="blue",state="silent",${ON}}`]: '0x20 1x4 0x94',
  [`muster_cluster_machines{cluster="blue",state="held",${ON}}`]: '0x120',
  [`muster_cluster_etcd_members{cluster="blue",health="serving",${ON}}`]: '3x20 2x4 3x94',
  [`muster_cluster_etcd_members{cluster="blue",health="silent",${ON}}`]: '0x20 1x4 0x94',
  [`muster_cluster_etcd_troubles{cluster="blue",trouble="nospace",${ON}}`]: '0x120',
  [`muster_cluster_etcd_troubles{cluster="blue",trouble="near_quota",${ON}}`]: '0x120',
  [`muster_cluster_etcd_troubles{cluster="blue",trouble="behind",${ON}}`]: '0x20 1x4 0x94',
  [`muster_cluster_apiservers{cluster="blue",health="ready",${ON}}`]: '3x120',
  // A cluster that is gone.
  [`muster_cluster_etcd_members{cluster="gone",health="serving",${ON}}`]: '0x120',
  [`muster_cluster_apiservers{cluster="gone",health="ready",${ON}}`]: '0x120',
  [`muster_dhcp_packets_total{network="rack1",type="DISCOVER",outcome="offered",${ON}}`]: '0+2x120',
  [`muster_change_held{cluster="blue",kind="rotation",${ON}}`]: '0x120',
  [`muster_webhook_waiting{webhook="alerts",${ON}}`]: '1x120',
  [`muster_webhook_events_total{webhook="alerts",outcome="delivered",${ON}}`]: '0+3x120',
  [`muster_audit_lost_total{${ON}}`]: '0x120',
  [`muster_document_faults{${ON}}`]: '0x120',
};

const seriesOf = (series: Readonly<Record<string, string>>) =>
  Object.entries(series).map(([name, values]) => ({ series: name, values }));

test('every alert is evaluated in a case here', () => {
  expect(Object.keys(FIRING)).toEqual(rules.map(({ alert }) => alert));
});

test('promtool accepts the alert rules', () => {
  promtool(['check', 'rules', '--lint=all', '--lint-fatal', RULES]);
});

test('every alert fires on its series, with its labels and texts', () => {
  const tests = rules.map(({ alert, labels, annotations }) => {
    const [series, minutes, expected, summary] = FIRING[alert]!;
    return {
      interval: '1m',
      input_series: seriesOf(series),
      alert_rule_test: [
        {
          eval_time: `${minutes}m`,
          alertname: alert,
          exp_alerts: [
            { exp_labels: { ...labels, ...expected }, exp_annotations: { ...annotations, summary } },
          ],
        },
      ],
    };
  });
  promtool(['test', 'rules', written('firing.yaml', { rule_files: [RULES], tests })]);
});

test('no alert fires on a boot host that is well', () => {
  const quiet = rules.flatMap(({ alert }) =>
    [10, 35, 110].map((minutes) => ({ eval_time: `${minutes}m`, alertname: alert, exp_alerts: [] })),
  );
  const tests = [{ interval: '1m', input_series: seriesOf(WELL), alert_rule_test: quiet }];
  promtool(['test', 'rules', written('quiet.yaml', { rule_files: [RULES], tests })]);
});

test('promtool accepts every expression of the dashboard', () => {
  const { panels } = JSON.parse(fs.readFileSync(DASHBOARD, 'utf8')) as {
    panels: { targets: { expr: string }[] }[];
  };
  const recorded = panels
    .flatMap(({ targets }) => targets)
    .map(({ expr }, n) => ({ record: `panel:${n}`, expr: expr.replaceAll('$instance', '.*') }));
  expect(recorded.length).toBeGreaterThan(15);
  promtool([
    'check',
    'rules',
    written('dashboard.yaml', { groups: [{ name: 'dashboard', rules: recorded }] }),
  ]);
});

test('promtool accepts the text of all metrics', async () => {
  const metrics = createMetrics();
  for (const [name, { type, labels }] of Object.entries(METRICS)) {
    const given = Object.fromEntries(labels.map((label) => [label, 'x']));
    if (type === 'counter') metrics.add(name as MetricName, given);
    else if (type === 'gauge') metrics.set(name as MetricName, given, 1);
    else metrics.observe(name as MetricName, 1, given);
  }
  promtool(['check', 'metrics'], await metrics.text());
});
