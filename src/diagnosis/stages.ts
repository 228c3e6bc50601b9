/** The stages of a boot, and which stage an event belongs to. */
import type { MusterEvent } from '../events/event.ts';

/** In the order in which a boot goes through them. */
export const STAGES = {
  firmware: 'The firmware gets an address and fetches a loader.',
  loader: 'The loader gets an address and fetches script, kernel and initrd.',
  kernel: 'Kernel and initrd start and fetch the root image.',
  discovery: 'The discovery system reports what an unknown machine is made of, and waits.',
  system: 'The system fetches its configuration and applies it.',
  agent: 'The agent gets its certificate and carries out its plan.',
  cluster: 'The programs of the cluster start: etcd, kubelet, the node.',
} as const;
export type Stage = keyof typeof STAGES;

const ORDER = Object.keys(STAGES) as Stage[];
const later = (one: Stage, other: Stage): Stage => (ORDER.indexOf(one) >= ORDER.indexOf(other) ? one : other);

/** The client's software as DHCP saw it → the stage that it is in. */
const OF_CLIENTS: ReadonlyMap<unknown, Stage> = new Map([
  ['pxe', 'firmware'],
  ['http', 'firmware'],
  ['ipxe', 'loader'],
  ['ipxe-tftp', 'loader'],
]);

/** The stage of an event whose boot was in stage `now` before it. */
export function stageOf(event: MusterEvent, now: Stage): Stage {
  const { kind, fields } = event;
  if (kind.startsWith('dhcp.') || kind === 'boot.session')
    return OF_CLIENTS.get(fields?.stage) ?? later(now, 'kernel');
  if (kind === 'boot.decision')
    return fields?.stage === 'script' ? 'loader' : (OF_CLIENTS.get(fields?.stage) ?? now);
  if (kind === 'boot.script' || kind === 'boot.discovery') return 'loader';
  if (kind === 'machine.waits' || kind === 'machine.inventory' || kind === 'machine.restarts')
    return 'discovery';
  if (kind === 'machine.install') return later(now, 'kernel');
  if (kind === 'config.served') return later(now, 'system');
  if (kind === 'report.believed') return fields?.step === 'kernel' ? 'kernel' : later(now, 'system');
  if (kind.startsWith('cluster.')) return 'cluster';
  if (kind === 'agent.step')
    return fields?.step === 'units' || fields?.step === 'objects' ? 'cluster' : later(now, 'agent');
  if (kind.startsWith('agent.')) return later(now, 'agent');
  return now;
}
