/**
 * A storm against dnsmasq and nginx, set up as people do who provision with them: a reservation and
 * a boot file for each kind of firmware in dnsmasq, and for each machine a script and a
 * configuration as plain files in nginx. Reports are answered with 204. There are no tickets.
 */
import type { ChildProcess } from 'node:child_process';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openSegment, runFleet } from '../src/lab/simulated/boot-host.files.ts';
import { orderOf, SERVER } from '../src/lab/simulated/documents.files.ts';
import type { MachineOrder } from '../src/lab/simulated/machine.socket.ts';
import { assign, readMix } from '../src/lab/simulated/personalities.ts';
import { LOADER_BYTES } from '../src/lab/simulated/storm.files.ts';
import { type StormFigures, stormFigures } from '../src/lab/simulated/storm.ts';
import { unpacked } from '../test/peers/unpacked.ts';
import { type Daemon, nginxProcesses, processorMicros, startDaemon, startNginx } from './served.ts';

const PORT = 8069;
const BASE = `http://${SERVER}:${PORT}`;
const LOADER = 'loader';
const IMAGE = ['kernel', 'initrd', 'root'];

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
const dashed = (mac: string): string => mac.replaceAll(':', '-');

/** Writes what nginx and the TFTP server of dnsmasq serve. */
function writeFiles(root: string, machines: readonly MachineOrder[]): void {
  const put = (path: string, text: string | Buffer): void => {
    mkdirSync(join(root, path, '..'), { recursive: true });
    writeFileSync(join(root, path), text);
  };
  put(LOADER, Buffer.alloc(LOADER_BYTES, 'a loader that no machine runs\n'));
  put('start.ipxe', `#!ipxe\nchain --autofree --replace ${BASE}/script.ipxe?mac=\${mac:hexhyp}\n`);
  for (const text of IMAGE) put(`assets/${sha256(text)}/${text}`, text);
  const [kernel, initrd] = IMAGE.map((text) => `${BASE}/assets/${sha256(text)}/${text}`);
  for (const { name, mac } of machines) {
    const session = `/session/${dashed(mac)}`;
    put(
      `scripts/${dashed(mac)}`,
      `#!ipxe\nkernel ${kernel} muster.url=${BASE}${session} root=${BASE}/assets/${sha256('root')}/root\ninitrd ${initrd}\nboot\n`,
    );
    put(`${session}/meta-data`, `{"instance-id":"${name}","local-hostname":"${name}"}\n`);
    put(
      `${session}/user-data`,
      `#cloud-config\nhostname: ${name}\nwrite_files:\n- {path: /etc/motd, content: This is ${name}.}\nusers:\n- {name: ops, groups: [sudo]}\n`,
    );
    put(`${session}/vendor-data`, '#cloud-config\n{}\n');
    put(`${session}/network-config`, 'version: 2\nethernets: {}\n');
  }
  execFileSync('chmod', ['-R', 'a+rX', root]);
}

const nginxServer = (root: string): string =>
  `listen ${SERVER}:${PORT} backlog=4096; root ${root};
    location = /script.ipxe { try_files /scripts/$arg_mac =404; }
    location ~ /report$ { return 204; }`;

function startDnsmasq(
  home: string,
  root: string,
  link: string,
  machines: readonly MachineOrder[],
): Promise<Daemon> {
  const { command, env } = unpacked('dnsmasq-base', 'usr/sbin/dnsmasq');
  const config = join(home, 'dnsmasq.conf');
  writeFileSync(
    config,
    `port=0
interface=${link}
bind-interfaces
user=root
no-ping
quiet-dhcp
dhcp-broadcast
dhcp-range=10.92.64.0,static,255.255.0.0,1h
dhcp-lease-max=100000
dhcp-leasefile=${home}/leases
dhcp-vendorclass=set:http,HTTPClient
dhcp-userclass=set:ipxe,iPXE
dhcp-boot=tag:!http,tag:!ipxe,${LOADER},,${SERVER}
dhcp-boot=tag:http,${BASE}/${LOADER}
dhcp-boot=tag:ipxe,${BASE}/start.ipxe
dhcp-option-force=tag:http,60,HTTPClient
enable-tftp
tftp-root=${root}
tftp-max=5000
${machines.map(({ mac, address }) => `dhcp-host=${mac},${address}`).join('\n')}
`,
  );
  const flags = ['--keep-in-foreground', `--conf-file=${config}`, '--log-facility=-'];
  return startDaemon([command, ...flags], (output) => output.includes('TFTP root is'), env);
}

/** Runs a storm of `count` machines with these kinds of firmware; none may ask port 4011. */
export async function stormAgainstPeers(count: number, mix: string): Promise<StormFigures> {
  const home = mkdtempSync(join(tmpdir(), 'muster-storm-peer-'));
  execFileSync('chmod', ['a+rx', home]);
  const root = join(home, 'root');
  const firmware = assign(readMix(mix), count);
  const machines = Array.from({ length: count }, (_, n) => ({ ...orderOf(n), firmware: firmware[n]! }));
  writeFiles(root, machines);
  const segment = openSegment();
  const daemons: Daemon[] = [];
  const fleets = new Set<ChildProcess>();
  try {
    const nginx = await startNginx(home, PORT, 16_384, nginxServer(root));
    daemons.push(nginx);
    const dnsmasq = await startDnsmasq(home, root, segment.link, machines);
    daemons.push(dnsmasq);
    const result = await runFleet(
      segment.namespace,
      home,
      { machines, members: 0, perSecond: 0, keep: false, until: 'ready', partial: true },
      fleets,
    );
    const pids = [...nginxProcesses(nginx), dnsmasq.pid];
    const micros = pids.reduce((sum, pid) => sum + processorMicros(pid), 0);
    const server = { peakMiB: Number.NaN, processorSeconds: micros / 1e6 };
    return stormFigures(result, { firmware, overSeconds: 0, server });
  } finally {
    for (const fleet of fleets) fleet.kill('SIGKILL');
    for (const daemon of daemons) await daemon.stop();
    segment.close();
    rmSync(home, { recursive: true, force: true });
  }
}
