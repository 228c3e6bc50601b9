/** Orders the installation of a system on the disk of a machine (`home: disk`). */
import type { Clock } from '../base/clock.ts';
import { MusterError } from '../base/errors.ts';
import type { EventSink } from '../events/event.ts';
import { serialWord } from '../resources/disk-spec.ts';
import { nextIn } from './life/life.ts';
import type { KnownMachine } from './machine.ts';
import { type Member, memberNamed } from './member.ts';
import type { Roster } from './roster.ts';

interface OrderDeps {
  readonly roster: Roster;
  readonly clock: Pick<Clock, 'now'>;
  readonly events: EventSink;
  /** Where the documents say that the system of a machine lives. */
  readonly homeOf: (machine: string) => string | undefined;
  readonly power: RestartPower;
}

/** What restarts a machine through its BMC. */
interface RestartPower {
  /** Whether documents name its BMC. */
  has(machine: string): boolean;
  /** Why the cluster of a machine cannot do without it now. */
  needed(machine: string): Promise<string | undefined>;
  /** Orders that it is switched off and on, and boots from the network. */
  restart(machine: string, by: string): Promise<unknown>;
}

export interface InstallOrder {
  /** Serial number of the disk whose data may go; without it, only a blank disk is taken. */
  readonly released?: string | undefined;
  /** Its BMC restarts it now, whatever runs on it. */
  readonly restarts: boolean;
  readonly by: string;
}

/**
 * Lets a machine install its system at its next boot, or go on now if it waits with an installation
 * that was refused. Durable when it resolves.
 *
 * @throws {MusterError} E_NOT_FOUND for an unknown machine, E_HOME for one without `home: disk`;
 *   for one that is to be restarted E_BMC without a BMC, and E_LIFE while its cluster needs it
 */
export async function orderInstall(
  { roster, clock, events, homeOf, power }: OrderDeps,
  machine: string,
  { released, restarts, by }: InstallOrder,
): Promise<KnownMachine> {
  const member = memberNamed(roster, machine);
  if (homeOf(machine) !== 'disk')
    throw new MusterError('E_HOME', `the profile of ${machine} does not have \`home: disk\``);
  if (restarts) await checkRestart(power, member);
  const serial = released === undefined ? undefined : serialWord(released);
  roster.change(member, {
    bootsWithoutReady: 0,
    install: { at: clock.now(), state: 'ordered', ...(serial !== undefined && { released: serial }) },
  });
  events.record({
    kind: 'machine.install',
    subject: machine,
    fields: { step: 'order', state: 'begin', ...(serial !== undefined && { disk: serial }) },
  });
  await roster.commit([member], []);
  // It installs at its next boot, whatever becomes of this one.
  if (restarts) await power.restart(machine, by);
  return roster.view(member);
}

/** @throws {MusterError} E_BMC, E_LIFE when it cannot be restarted now */
async function checkRestart(power: RestartPower, { name: machine, status }: Member): Promise<void> {
  const { life } = status;
  if (life)
    throw new MusterError(
      'E_LIFE',
      `${machine} is ${life.state}, and installs nothing at its boot; next: ${nextIn(life.state, machine)}`,
    );
  if (!power.has(machine)) throw new MusterError('E_BMC', `no document names a BMC of ${machine}`);
  const why = await power.needed(machine);
  if (why === undefined) return;
  throw new MusterError(
    'E_LIFE',
    `${machine} is not restarted, because its cluster needs it: ${why}; without --restart it installs at its next boot`,
  );
}
