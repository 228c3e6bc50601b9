/** Orders the installation of a system on the disk of a machine (`home: disk`). */
import type { Clock } from '../base/clock.ts';
import { MusterError } from '../base/errors.ts';
import type { EventSink } from '../events/event.ts';
import { serialWord } from '../resources/disk-spec.ts';
import type { KnownMachine } from './machine.ts';
import { memberNamed } from './member.ts';
import type { Roster } from './roster.ts';

interface OrderDeps {
  readonly roster: Roster;
  readonly clock: Pick<Clock, 'now'>;
  readonly events: EventSink;
  /** Where the documents say that the system of a machine lives. */
  readonly homeOf: (machine: string) => string | undefined;
}

/**
 * Lets a machine install its system at its next boot, or go on now if it waits with an installation
 * that was refused. `released`: the serial number of the disk whose data may go; without it, only a
 * blank disk is taken. Durable when it resolves.
 *
 * @throws {MusterError} E_NOT_FOUND for an unknown machine, E_HOME for one without `home: disk`
 */
export async function orderInstall(
  { roster, clock, events, homeOf }: OrderDeps,
  machine: string,
  released: string | undefined,
): Promise<KnownMachine> {
  const member = memberNamed(roster, machine);
  if (homeOf(machine) !== 'disk')
    throw new MusterError('E_HOME', `the profile of ${machine} does not have \`home: disk\``);
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
  return roster.view(member);
}
