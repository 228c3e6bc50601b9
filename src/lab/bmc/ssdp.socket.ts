/** A simulated BMC's answers to searches for Redfish services (DSP0266, "Discovery"). */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { answerOf, isSearch, SSDP } from '../../bmc/redfish/ssdp.ts';

/** Answers at an address of this host. Returns what ends it. */
export async function answerSearches(of: {
  readonly address: string;
  readonly uuid: string;
  readonly location: string;
}): Promise<() => void> {
  const socket = createSocket({ type: 'udp4', reuseAddr: true });
  // Bound to the group: what is sent to the address alone is not for it.
  socket.bind(SSDP.port, SSDP.address);
  await once(socket, 'listening');
  socket.addMembership(SSDP.address, of.address);
  const answers = createSocket('udp4');
  answers.bind({ address: of.address, port: 0 });
  await once(answers, 'listening');
  socket.on('message', (datagram, { address, port }) => {
    if (isSearch(datagram)) answers.send(answerOf(of), port, address);
  });
  return () => {
    socket.close();
    answers.close();
  };
}
