/** A process with many simulated BMCs on loopback addresses: PROTOCOL COUNT FIRST. */
import { certificateOf, ImaginedMachine, startVirtualBmc } from '../src/lab/bmc/virtual-bmc.server.ts';
import { FLEET } from './bmc-host.ts';

const protocol = process.argv[2] as 'ipmi' | 'redfish';
const [count = 1, first = 0] = process.argv.slice(3).map(Number);
const certificate = await certificateOf('127.0.0.1');
for (let n = 0; n < count; n++) {
  const machine = new ImaginedMachine();
  const { user, password, port } = FLEET;
  const options = {
    protocol,
    address: FLEET.address(first + n),
    port: port[protocol],
    user,
    password,
    certificate,
  };
  await startVirtualBmc(options, machine);
}
process.send?.('ready');
process.on('disconnect', () => process.exit(0));
