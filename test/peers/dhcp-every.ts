/**
 * Runs inside a namespace: sends a DISCOVER every so often and prints as JSON how many were sent
 * and answered, and after how many milliseconds the latest answer came.
 *
 *     node dhcp-every.ts EVERY_MS FOR_MS HEX
 */
import { createSocket } from 'node:dgram';

const [every, span, hex] = process.argv.slice(2) as [string, string, string];
const socket = createSocket({ type: 'udp4', reuseAddr: true });
const sent = new Map<number, number>();
let [answered, worst] = [0, 0];
socket.on('message', (bytes) => {
  const at = sent.get(bytes.readUInt32BE(4));
  if (at === undefined) return;
  sent.delete(bytes.readUInt32BE(4));
  answered++;
  worst = Math.max(worst, performance.now() - at);
});
socket.bind(68, () => {
  socket.setBroadcast(true);
  let xid = 1;
  const timer = setInterval(() => {
    const packet = Buffer.from(hex, 'hex');
    packet.writeUInt32BE(xid, 4);
    sent.set(xid++, performance.now());
    socket.send(packet, 67, '255.255.255.255');
  }, Number(every));
  setTimeout(() => {
    clearInterval(timer);
    // The last ones have as long for their answers as a client would wait.
    setTimeout(() => {
      console.log(JSON.stringify({ sent: xid - 1, answered, worst: Math.round(worst) }));
      process.exit();
    }, 4000);
  }, Number(span));
});
