/**
 * What the boot host hears of machines that start: a packet of their firmware, or the first poll of
 * their system. It is in memory only, and a restart of the server reads it from the events again.
 */
import { AgedMap } from '../base/aged.ts';
import type { EventLog, MusterEvent } from '../events/event.ts';
import type { Sign } from './order.ts';

/** When each kind of sign was last seen, ms since 1970. */
type Seen = Partial<Readonly<Record<Sign, number>>>;

export interface Signs {
  /** What was first heard of a machine since then. */
  of(machine: string, since: number): Sign | undefined;
  /** Machines, and addresses of unknown ones, that began to boot since then. */
  since(since: number): readonly string[];
  close(): void;
}

/** Who floods the network with invented machines makes the oldest signs forgotten. */
const MAX_SUBJECTS = 20_000;

/** The software of a packet is a boot client's; that of a running system has no stage. */
const isBooting = ({ fields }: MusterEvent): boolean =>
  fields?.stage !== undefined && fields.stage !== 'none';

/** What an event shows of its machine. */
export function signIn(event: MusterEvent): Sign | undefined {
  switch (event.kind) {
    case 'boot.decision':
    case 'boot.session':
    case 'boot.script':
      return 'network';
    case 'dhcp.offer':
      return isBooting(event) ? 'network' : 'system';
    case 'dhcp.ack':
    case 'dhcp.noted':
      return isBooting(event) ? 'network' : undefined;
    case 'agent.alive':
    case 'report.believed':
      return 'system';
    default:
      return undefined;
  }
}

/**
 * Follows the events.
 *
 * @param nameOf the machine of a subject, which is an address where a packet got no answer
 */
export function followSigns(
  events: Pick<EventLog, 'subscribe' | 'list'>,
  nameOf: (subject: string) => string,
): Signs {
  const seen = new AgedMap<string, Seen>();
  const note = (event: MusterEvent): void => {
    const sign = signIn(event);
    if (sign === undefined) return;
    const name = nameOf(event.subject);
    const before = seen.get(name);
    seen.set(name, { ...before, [sign]: Math.max(before?.[sign] ?? 0, event.at) });
    if (seen.size > MAX_SUBJECTS) seen.delete(seen.oldest()!.key);
  };
  let isRead = false;
  /** What was recorded before matters to an order alone, so no start waits for it. */
  const readOnce = (): void => {
    if (isRead) return;
    isRead = true;
    for (const event of events.list({})) note(event);
  };
  const unsubscribe = events.subscribe(note);
  const isSince = (at: number | undefined, since: number): boolean => at !== undefined && at >= since;
  return {
    of(machine, since) {
      readOnce();
      const { network, system } = seen.get(machine) ?? {};
      if (isSince(network, since)) return 'network';
      return isSince(system, since) ? 'system' : undefined;
    },
    since(since) {
      readOnce();
      return [...seen].filter(([, { network }]) => isSince(network, since)).map(([subject]) => subject);
    },
    close: unsubscribe,
  };
}
