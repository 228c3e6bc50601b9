/**
 * Runs inside a namespace: sends the packets of its arguments, which are in hexadecimal, and prints
 * the replies that arrive in time, each as a line of JSON. It ends after the last reply that is
 * wanted.
 *
 *     node dhcp-client.ts MILLISECONDS REPLIES LOCALPORT TO:PORT HEX...
 */
import { createSocket } from 'node:dgram';

const [wait, replies, local, to, ...packets] = process.argv.slice(2) as [
  ...[string, string, string, string],
  ...string[],
];
const [host, port] = to.split(':') as [string, string];
const socket = createSocket({ type: 'udp4', reuseAddr: true });
let left = Number(replies);
socket.on('message', (bytes, from) => {
  process.stdout.write(
    `${JSON.stringify({ from: from.address, port: from.port, hex: bytes.toString('hex') })}\n`,
  );
  if (--left === 0) process.exit();
});
socket.bind(Number(local), () => {
  socket.setBroadcast(true);
  for (const packet of packets) socket.send(Buffer.from(packet, 'hex'), Number(port), host);
  setTimeout(() => socket.close(), Number(wait));
});
