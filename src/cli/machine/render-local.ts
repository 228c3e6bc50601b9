/**
 * `muster render -f DIRECTORY MACHINE`: computes the configuration that a boot host with these
 * documents would serve.
 */
import { findMachine } from '../../api/find-machine.ts';
import { type MachineConfiguration, shownConfiguration } from '../../api/shown-configuration.ts';
import { systemClock } from '../../base/clock.ts';
import { openLocal } from '../documents/local.ts';
import type { Io } from '../io.ts';

/**
 * Renders a machine's configuration.
 *
 * @throws {MusterError} the documents' faults, E_NOT_FOUND for an unknown machine, or the reason
 *   why its configuration does not render.
 */
export async function renderLocally(
  directory: string,
  machine: string,
  io: Io,
): Promise<MachineConfiguration> {
  const world = await openLocal({ directory, now: systemClock.now() });
  try {
    const { name } = findMachine(machine, world);
    const rendered = world.boot.render(name);
    for (const supposed of world.suppositions) io.err(`note: ${supposed}\n`);
    return shownConfiguration(name, rendered);
  } finally {
    await world.close();
  }
}
