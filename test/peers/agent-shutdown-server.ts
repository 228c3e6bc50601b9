/**
 * A boot server for the machine of agent-shutdown-guest.sh: prints the requests, and switches the
 * machine off after a poll with the last words of a program.
 */
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import { Planner } from './agent-kit.ts';

const [directory] = process.argv.slice(2);
const planner = await Planner.open();
fs.writeFileSync(`${directory}/ca.crt`, planner.authority);
const settings = { server: planner.url, machine: 'cp1', session: 'S-1', ticket: planner.ticket };
const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`);
// Written last, because it shows that the server is ready.
fs.writeFileSync(`${directory}/agent.conf.new`, lines.join(''), { mode: 0o600 });
fs.renameSync(`${directory}/agent.conf.new`, `${directory}/agent.conf`);

let told = 0;
setInterval(() => {
  for (const { path, by = '-', form } of planner.asked.slice(told)) {
    told++;
    process.stdout.write(`asked: ${path} ${by} ${form.get('bootid') ?? '-'}\n`);
    const ended = form.get('ended') ?? '';
    if (ended === '') continue;
    process.stdout.write(`ended: ${ended}\n`);
    execFile('systemctl', ['--no-block', 'isolate', 'poweroff.target']);
  }
}, 50);
