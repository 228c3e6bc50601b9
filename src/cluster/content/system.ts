/** The host below Kubernetes: its name, kernel modules and settings. */
import type { PlanLine } from '../../agent/plan.ts';
import type { ClusterMachine } from '../full.ts';
import { digestOf, put } from './lines.ts';

const FILES = {
  hostname: '/etc/hostname',
  modules: '/etc/modules-load.d/muster.conf',
  sysctl: '/etc/sysctl.d/90-muster.conf',
} as const;

/** overlay for containerd's snapshots; br_netfilter so that Services work between pods of one machine. */
export const MODULES = ['overlay', 'br_netfilter'] as const;

const SYSCTL: readonly (readonly [string, string])[] = [
  ['net.ipv4.ip_forward', '1'],
  ['net.bridge.bridge-nf-call-iptables', '1'],
  ['net.bridge.bridge-nf-call-ip6tables', '1'],
  // kubelet sets these itself unless it is told to protect the kernel's defaults, and then refuses to start without them.
  ['kernel.panic', '10'],
  ['kernel.panic_on_oops', '1'],
  ['vm.overcommit_memory', '1'],
  ['vm.panic_on_oom', '0'],
  // The kernel's 128 watching programs are not enough for a machine full of pods that follow their logs.
  ['fs.inotify.max_user_instances', '8192'],
  ['fs.inotify.max_user_watches', '524288'],
];
const FORWARD_IPV6: readonly (readonly [string, string])[] = [['net.ipv6.conf.all.forwarding', '1']];

/** For every machine: its name; for those with kubelet the kernel as well. */
export function systemLines(machine: ClusterMachine, kubernetes: boolean): readonly PlanLine[] {
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
  return [...files, load('hostname'), ...(kubernetes ? [load('modules'), load('sysctl')] : [])];
}

function settings({ addresses }: ClusterMachine): string {
  const dual = addresses.some((text) => text.includes(':'));
  return [...SYSCTL, ...(dual ? FORWARD_IPV6 : [])].map(([key, value]) => `${key} = ${value}\n`).join('');
}
