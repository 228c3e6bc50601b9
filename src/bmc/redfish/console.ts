/** Where a system's serial console is by a websocket, as its Redfish says. Pure. */
import { fieldsOf, textOf } from '../../base/foreign-json.ts';
import { BmcFault } from '../bmc.ts';
import type { Resource } from './model.ts';

/** OpenBMC's console, which no resource names (quirk `console-not-named`). */
const OPENBMC = '/console0';

/** A path with a query. One that begins with two slashes names another host. */
const PATH = /^\/(?!\/)[\w.~@:%()=,&?/-]{1,512}$/;

/**
 * The path of the console that a system names (DMTF ComputerSystem, SerialConsole.WebSocket);
 * undefined: it names none.
 *
 * @throws {BmcFault} for one that is switched off, or elsewhere
 */
export function namedConsole({ body }: Resource): string | undefined {
  const { ServiceEnabled, ConsoleURI } = fieldsOf(fieldsOf(body.SerialConsole).WebSocket);
  if (ServiceEnabled === false) throw new BmcFault('refused', 'its console by websocket is switched off');
  const said = textOf(ConsoleURI);
  if (said === '' || PATH.test(said)) return said || undefined;
  throw new BmcFault('refused', 'its console is said to be at another host');
}

/** Whether a manager is OpenBMC, by its own part. */
export function isOpenBmc({ body }: Resource): boolean {
  const oem = fieldsOf(body.Oem);
  return oem.OpenBmc !== undefined || oem.OpenBMC !== undefined;
}

/**
 * The path of the console of a system. `manager` reads what manages it, which is asked only where
 * the system says nothing; `isOne`: the BMC has no other system.
 *
 * @throws {BmcFault} where there is none
 */
export async function consolePath(
  system: Resource,
  manager: () => Promise<Resource | undefined>,
  isOne: boolean,
): Promise<string> {
  const said = namedConsole(system);
  if (said !== undefined) return said;
  const by = await manager();
  if (by === undefined || !isOpenBmc(by))
    throw new BmcFault('refused', 'its Redfish names no console by websocket; `console: sol` asks by IPMI');
  if (!isOne) throw new BmcFault('refused', 'it has several machines, and its console names none of them');
  return OPENBMC;
}
