/** The host below Kubernetes: its name, its time, kernel modules and settings. */
import type { PlanLine } from '../../agent/plan.ts';
import type { ClusterMachine, ResolvedCluster } from '../spec/resolved-cluster.ts';
import { digestOf, put, sections } from './lines.ts';

const FILES = {
  hostname: '/etc/hostname',
  modules: '/etc/modules-load.d/muster.conf',
  sysctl: '/etc/sysctl.d/90-muster.conf',
} as const;

/**
 * In addition to what the network says; the empty line takes away what other files of the image
 * name.
 */
const TIME = '/etc/systemd/timesyncd.conf.d/90-muster.conf';

/**
 * overlay for containerd's snapshots; br_netfilter so that Services work between pods of one
 * machine.
 */
export const MODULES = ['overlay', 'br_netfilter'] as const;

const SYSCTL: readonly (readonly [string, string])[] = [
  ['net.ipv4.ip_forward', '1'],
  ['net.bridge.bridge-nf-call-iptables', '1'],
  ['net.bridge.bridge-nf-call-ip6tables', '1'],
  // kubelet sets these itself unless it is told to protect the kernel's defaults, and then refuses
  // to start without them.
  ['kernel.panic', '10'],
  ['kernel.panic_on_oops', '1'],
  ['vm.overcommit_memory', '1'],
  ['vm.panic_on_oom', '0'],
  // The kernel's 128 watching programs are not enough for a machine full of pods that follow their
  // logs.
  ['fs.inotify.max_user_instances', '8192'],
  ['fs.inotify.max_user_watches', '524288'],
];
const FORWARD_IPV6: readonly (readonly [string, string])[] = [['net.ipv6.conf.all.forwarding', '1']];

function timeLines({ timeServers }: ResolvedCluster): readonly PlanLine[] {
  if (timeServers.length === 0) return [];
  const files = [put(TIME, sections(['Time', ['NTP=', `NTP=${timeServers.join(' ')}`]]))];
  return [...files, { do: 'run', unit: 'systemd-timesyncd.service', digest: digestOf(files, () => true) }];
}

/** For every machine: its name and time; for those with kubelet the kernel as well. */
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
  // Modules first: br_netfilter brings the settings that are set then.
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
