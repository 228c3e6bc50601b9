/** The host below Kubernetes: its name, its clock, kernel modules and kernel settings. */
import type { PlanLine } from '../../agent/wire/plan.ts';
import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';
import { digestOf, put, sections } from './lines.ts';

const FILES = {
  hostname: '/etc/hostname',
  modules: '/etc/modules-load.d/muster.conf',
  sysctl: '/etc/sysctl.d/90-muster.conf',
} as const;

/**
 * This file adds to the time servers that the network gives. Its empty `NTP=` removes the servers
 * that other files of the image name.
 */
const TIME = '/etc/systemd/timesyncd.conf.d/90-muster.conf';

/** overlay is for containerd's snapshots, br_netfilter for Services between pods of one machine. */
export const MODULES = ['overlay', 'br_netfilter'] as const;

const SYSCTL: readonly (readonly [string, string])[] = [
  ['net.ipv4.ip_forward', '1'],
  ['net.bridge.bridge-nf-call-iptables', '1'],
  ['net.bridge.bridge-nf-call-ip6tables', '1'],
  // With protectKernelDefaults kubelet refuses to start without these; otherwise it sets them
  // itself.
  ['kernel.panic', '10'],
  ['kernel.panic_on_oops', '1'],
  ['vm.overcommit_memory', '1'],
  ['vm.panic_on_oom', '0'],
  // The kernel's default of 128 instances is too small for a machine full of pods that follow logs.
  ['fs.inotify.max_user_instances', '8192'],
  ['fs.inotify.max_user_watches', '524288'],
];
const FORWARD_IPV6: readonly (readonly [string, string])[] = [['net.ipv6.conf.all.forwarding', '1']];

function timeLines({ timeServers }: ResolvedCluster): readonly PlanLine[] {
  if (timeServers.length === 0) return [];
  const files = [put(TIME, sections(['Time', ['NTP=', `NTP=${timeServers.join(' ')}`]]))];
  return [...files, { do: 'run', unit: 'systemd-timesyncd.service', digest: digestOf(files, () => true) }];
}

/** Host name and clock of every machine. With `kubernetes`, also kernel modules and settings. */
export function systemLines(
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  kubernetes: boolean,
): readonly PlanLine[] {
  const files = [
    put(FILES.hostname, `${machine.name}\n`),
    ...(kubernetes
      ? [
          put(FILES.modules, MODULES.map((name) => `${name}\n`).join('')),
          put(FILES.sysctl, settings(machine)),
        ]
      : []),
  ];
  const load = (what: 'hostname' | 'modules' | 'sysctl'): PlanLine => ({
    do: 'load',
    what,
    digest: digestOf(files, (path) => path === FILES[what]),
  });
  // Modules first: some settings exist only once br_netfilter is loaded.
  return [
    ...files,
    load('hostname'),
    ...(kubernetes ? [load('modules'), load('sysctl')] : []),
    ...timeLines(resolved),
  ];
}

function settings({ addresses }: ClusterMachine): string {
  const dual = addresses.some((text) => text.includes(':'));
  return [...SYSCTL, ...(dual ? FORWARD_IPV6 : [])].map(([key, value]) => `${key} = ${value}\n`).join('');
}
