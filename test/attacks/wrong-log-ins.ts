/**
 * Sends wrong log-ins: `wrong-log-ins.ts HOST PORT FIRST COUNT PER_SECOND SECONDS`, from COUNT
 * addresses that begin at 10.77.0.FIRST, over connections that stay open. Prints `begun` after the
 * first second, and at the end how many were sent and answered, by status.
 */
import https from 'node:https';

const [host = '', ...numbers] = process.argv.slice(2);
const [port, first, count, perSecond, seconds] = numbers.map(Number) as [
  number,
  number,
  number,
  number,
  number,
];
const TICK_MS = 20;

const agents = Array.from({ length: count }, (_, n) => ({
  localAddress: `10.77.0.${first + n}`,
  agent: new https.Agent({ keepAlive: true, maxSockets: 8 }),
}));
const statuses: Record<string, number> = {};
let sent = 0;

function send(): void {
  const { localAddress, agent } = agents[sent % agents.length]!;
  const body = JSON.stringify({
    operator: sent % 2 === 0 ? 'ada' : `name-${sent}`,
    password: 'wrong password',
  });
  sent++;
  const options = { host, port, path: '/v1/login', method: 'POST', localAddress, agent };
  const request = https.request({ ...options, rejectUnauthorized: false }, (response) => {
    const status = String(response.statusCode);
    statuses[status] = (statuses[status] ?? 0) + 1;
    response.resume();
  });
  request.on('error', () => {
    statuses.failed = (statuses.failed ?? 0) + 1;
  });
  request.end(body);
}

const began = performance.now();
const timer = setInterval(() => {
  const elapsed = (performance.now() - began) / 1000;
  if (elapsed > seconds) {
    clearInterval(timer);
    process.stdout.write(`done ${JSON.stringify({ sent, seconds: elapsed, statuses })}\n`);
    process.exit(0);
  }
  // What the processors could not send in time is sent later: the rate is that of the whole.
  for (const due = elapsed * perSecond; sent < due; ) send();
}, TICK_MS);
setTimeout(() => process.stdout.write('begun\n'), 1000);
