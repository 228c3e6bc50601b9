/** DHCP: the shipped command against other projects' clients, relays and servers. */
import { execFile, execFileSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { formatIpv4 } from '../../src/base/ipv4.ts';
import { type Mac, macToBytes } from '../../src/base/mac.ts';
import type { Finding } from '../../src/cli/doctor/judge.ts';
import { BROADCAST_FLAG, type DhcpPacket, decode } from '../../src/pxe/dhcp/packet.ts';
import { BIOS, message, UEFI } from '../unit/pxe/dhcp/kit.ts';
import { attach, bridge, daemon, ip, type Muster, remove, run, startMuster } from './dhcp-segment.ts';
import { unpacked } from './unpacked.ts';

const HOME = mkdtempSync(join(tmpdir(), 'muster-dhcp-test-'));
const NODE = process.execPath;

const rack = (dhcp: string) => `apiVersion: muster/v1
kind: Network
metadata: {name: rack}
spec:
  subnet: 10.77.0.0/24
  gateway: 10.77.0.254
  dns: [10.77.0.1]
  dhcp: ${dhcp}
`;
const POOL = 'pools: [{start: 10.77.0.100, end: 10.77.0.199}]';

/** A script that prints what a DHCP client received, and configures the address. */
function script(name: string, text: string): string {
  const file = join(HOME, name);
  writeFileSync(file, text);
  chmodSync(file, 0o755);
  return file;
}
const UDHCPC = script(
  'udhcpc.sh',
  '#!/bin/sh\n[ "$1" = bound ] && echo "GOT ip=$ip siaddr=$siaddr boot=$boot_file serverid=$serverid lease=$lease router=$router dns=$dns"\nexit 0\n',
);
const DHCLIENT = script(
  'dhclient.sh',
  `#!/bin/sh
echo "DID $reason $new_ip_address"
case $reason in
BOUND | RENEW | REBIND | REBOOT)
  ip addr replace "$new_ip_address/24" dev "$interface"
  # What is behind the router, the server included.
  ip route replace 10.0.0.0/8 via "$new_routers" 2>/dev/null
  ;;
RELEASE | STOP | EXPIRE | FAIL) ip addr flush dev "$interface" ;;
esac
exit 0
`,
);

const udhcpc = (namespace: string, ...more: string[]) =>
  run(namespace, ['udhcpc', '-i', 'eth0', '-n', '-q', '-t', '5', '-T', '2', '-s', UDHCPC, ...more]);

/** How long an answer is waited for: a busy host gives it late. */
const PATIENCE_MS = 20_000;

/** How long it takes to believe that nothing (more) is answered. */
const SILENCE_MS = 3000;

/** Sends hand-made packets from a namespace and returns the first replies. */
async function byHand(
  namespace: string,
  packets: readonly Buffer[],
  { wait = PATIENCE_MS, replies = 1, port = 68, to = '255.255.255.255:67' } = {},
): Promise<{ from: string; port: number; packet: DhcpPacket }[]> {
  const { output, code } = await run(namespace, [
    NODE,
    resolve('test/peers/dhcp-client.ts'),
    String(wait),
    String(replies),
    String(port),
    to,
    ...packets.map((packet) => packet.toString('hex')),
  ]);
  if (code !== 0) throw new Error(output);
  return output
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => {
      const { from, port: via, hex } = JSON.parse(line) as { from: string; port: number; hex: string };
      const decoded = decode(Buffer.from(hex, 'hex'));
      if (!decoded.ok) throw new Error(decoded.fault);
      return { from, port: via, packet: decoded.packet };
    });
}

/** Waits for other replies as long as the test lets it. */
const ALL = 1000;

const macOf = (namespace: string) =>
  (JSON.parse(ip('-n', namespace, '-j', 'link', 'show', 'eth0')) as { address: Mac }[])[0]!.address;

describe('on a segment with no other server', () => {
  let muster: Muster;
  beforeAll(async () => {
    bridge('br-a', '10.77.0.1/24');
    attach('one', 'br-a');
    attach('two', 'br-a');
    // Hand-made packets are sent over the default route.
    for (const name of ['one', 'two']) ip('-n', name, 'route', 'add', 'default', 'dev', 'eth0');
    // perfdhcp is a relay on the segment itself.
    muster = await startMuster(
      ['br-a'],
      rack(`{mode: server, probe: off, leaseTime: 30s, relays: [10.77.0.2], ${POOL}}`),
    );
  });
  afterAll(async () => {
    await muster.stop();
    remove(['one', 'two'], ['br-a']);
  });

  it('udhcpc gets a lease with the network’s options', async () => {
    const { output } = await udhcpc('one');
    expect(output).toContain(
      'GOT ip=10.77.0.100 siaddr= boot= serverid=10.77.0.1 lease=30 router=10.77.0.254 dns=10.77.0.1',
    );
    expect(await muster.leases()).toMatchObject([{ address: '10.77.0.100', state: 'bound' }]);
  });

  it('udhcpc with another client identifier gets the same address, and as PXE firmware a loader', async () => {
    const uefi = ['-V', 'PXEClient:Arch:00007:UNDI:003016', '-x', '93:0007', '-x', '94:010310'];
    const { output } = await udhcpc('one', '-x', '61:ff112233', ...uefi);
    expect(output).toMatch(/GOT ip=10\.77\.0\.100 siaddr=10\.77\.0\.1 boot=[a-z]+\.efi .* lease=120 /);
  });

  it('dhclient is bound, renews by unicast, releases, and returns to its address (INIT-REBOOT)', async () => {
    const files = ['-lf', join(HOME, 'leases'), '-pf', join(HOME, 'pid')];
    const client = ['dhclient', '-4', '-v', '-sf', DHCLIENT, ...files, 'eth0'];
    const dhclient = await daemon('two', ['dhclient', '-d', ...client.slice(1)], /bound to/);
    const address = /bound to ([0-9.]+)/.exec(dhclient.output())![1]!;
    await muster.event('a renewal', (e) => e.reason?.code === 'renewed' && e.fields?.address === address);
    await dhclient.stop();
    // Its lease file has a valid lease, for which it asks first.
    const pid = () => readFileSync(join(HOME, 'pid'), { encoding: 'utf8', flag: 'a+' });
    const before = pid();
    const again = await run('two', ['dhclient', '-1', ...client.slice(1)]);
    expect(again.output).toContain(`DHCPREQUEST for ${address} on eth0`);
    // It lets go of its output before it writes its pid, by which it is ended. Otherwise it would
    // flush the address of a later test.
    await expect.poll(pid, { timeout: 20_000 }).not.toBe(before);
    expect(again.output).not.toContain('DHCPDISCOVER');
    const released = await run('two', ['dhclient', '-r', ...client.slice(1)]);
    expect(released.output).toContain(`DHCPRELEASE of ${address}`);
    await muster.event('the release', (e) => e.kind === 'dhcp.release' && e.fields?.address === address);
    expect((await muster.leases()).find((l) => l.address === address)).toMatchObject({ state: 'released' });
    ip('-n', 'two', 'addr', 'flush', 'dev', 'eth0');
    ip('-n', 'two', 'route', 'replace', 'default', 'dev', 'eth0');
  });

  it('a lease outlives a restart of the server', async () => {
    const before = (await udhcpc('one')).output.match(/GOT ip=([0-9.]+)/)![1];
    await muster.restart();
    expect((await udhcpc('one')).output).toContain(`GOT ip=${before} `);
  });

  it('an address that its client declines is set aside if another machine answers on it', async () => {
    const fields = { mac: '52:54:00:00:77:01' as Mac };
    const [offer] = await byHand('one', [message('DISCOVER', fields)]);
    const address = formatIpv4(offer!.packet.yiaddr);
    expect([offer!.from, offer!.port]).toEqual(['10.77.0.1', 67]);
    await byHand('one', [
      message('REQUEST', { ...fields, address, server: '10.77.0.1', flags: BROADCAST_FLAG }),
    ]);
    ip('-n', 'two', 'addr', 'add', `${address}/24`, 'dev', 'eth0');
    await byHand('one', [message('DECLINE', { ...fields, address, server: '10.77.0.1' })], { wait: 100 });
    await muster.event('the decline', (e) => e.reason?.code === 'declined' && e.fields?.address === address);
    ip('-n', 'two', 'addr', 'del', `${address}/24`, 'dev', 'eth0');
    ip('-n', 'two', 'route', 'replace', 'default', 'dev', 'eth0');
    const [next] = await byHand('one', [message('DISCOVER', { ...fields, xid: 7 })]);
    expect(formatIpv4(next!.packet.yiaddr)).not.toBe(address);
  });

  it('a client that asks for an address of another network is refused', async () => {
    const [nak] = await byHand('one', [
      message('REQUEST', { mac: '52:54:00:00:77:02' as Mac, address: '192.168.9.9' }),
    ]);
    expect(nak!.packet.options.get(53)).toEqual(Buffer.of(6));
  });

  it('hostile packets change nothing for the next client', async () => {
    const junk = Array.from({ length: 40 }, (_, n) => message('DISCOVER').subarray(0, n * 7));
    await byHand('one', [...junk, message('DISCOVER').fill(0xfe, 240)], { wait: 200, replies: ALL });
    expect((await udhcpc('one')).output).toContain('GOT ip=');
    expect(muster.log()).not.toContain('"level":"error"');
  });

  it('perfdhcp, as a relay, loses nothing', async () => {
    ip('-n', 'one', 'addr', 'add', '10.77.0.2/24', 'dev', 'eth0');
    const words = ['-4', '-r', '50', '-R', '60', '-p', '2', '-l', '10.77.0.2', '-W', '500000', '10.77.0.1'];
    const { output } = await run('one', ['perfdhcp', ...words]);
    expect(output.match(/drops: 0\n/g)).toHaveLength(2);
    expect(output.match(/rejected leases: 0/g)).toHaveLength(2);
    ip('-n', 'one', 'addr', 'flush', 'dev', 'eth0');
    ip('-n', 'one', 'route', 'replace', 'default', 'dev', 'eth0');
  });
});

/**
 * Runs dnsmasq in a namespace, only as a DHCP server or relay. `ready`: what it prints when it is
 * ready.
 */
function dnsmasq(namespace: string, options: readonly string[], ready: RegExp) {
  const { command, env } = unpacked('dnsmasq-base', 'usr/sbin/dnsmasq');
  const plain = [
    '--keep-in-foreground',
    '--port=0',
    '--conf-file=/dev/null',
    '--log-facility=-',
    '--user=root',
  ];
  return daemon(namespace, [command, ...plain, ...options], ready, env);
}

describe('behind a relay (dnsmasq --dhcp-relay)', () => {
  let muster: Muster;
  let relay: Awaited<ReturnType<typeof daemon>>;
  beforeAll(async () => {
    bridge('br-a', '10.77.0.1/24');
    attach('relay', 'br-a');
    ip('-n', 'relay', 'addr', 'add', '10.77.0.2/24', 'dev', 'eth0');
    ip('netns', 'add', 'far');
    ip('-n', 'relay', 'link', 'add', 'eth1', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', 'far');
    ip('-n', 'relay', 'addr', 'add', '10.88.0.1/24', 'dev', 'eth1');
    ip('-n', 'relay', 'link', 'set', 'eth1', 'up');
    ip('-n', 'far', 'link', 'set', 'eth0', 'up');
    ip('route', 'add', '10.88.0.0/24', 'via', '10.77.0.2');
    execFileSync('ip', ['netns', 'exec', 'relay', 'sh', '-c', 'echo 1 > /proc/sys/net/ipv4/ip_forward']);
    relay = await dnsmasq('relay', ['--log-dhcp', '--dhcp-relay=10.88.0.1,10.77.0.1'], /DHCP relay/);
    muster = await startMuster(
      ['br-a'],
      `${rack(`{mode: server, probe: off, ${POOL}}`)}---
apiVersion: muster/v1
kind: Network
metadata: {name: far}
spec:
  subnet: 10.88.0.0/24
  address: 10.77.0.1
  gateway: 10.88.0.1
  dhcp: {mode: server, leaseTime: 30s, pools: [{start: 10.88.0.100, end: 10.88.0.110}]}
`,
    );
  });
  afterAll(async () => {
    await muster.stop();
    await relay.stop();
    ip('route', 'del', '10.88.0.0/24');
    remove(['relay', 'far'], ['br-a']);
  });

  it('a client behind a relay gets an address of its own subnet and renews it past the relay', async () => {
    const files = ['-lf', join(HOME, 'far.leases'), '-pf', join(HOME, 'far.pid')];
    const client = await daemon(
      'far',
      ['dhclient', '-4', '-v', '-d', '-sf', DHCLIENT, ...files, 'eth0'],
      /bound to 10\.88\.0\.10/,
    );
    const renewed = await muster.event(
      'a renewal',
      (e) => e.network === 'far' && e.reason?.code === 'renewed',
    );
    expect(renewed.fields).toMatchObject({ address: '10.88.0.100' });
    await client.stop();
    expect(await muster.leases()).toMatchObject([{ network: 'far', address: '10.88.0.100' }]);
  });
});

/** What `muster doctor` of this host finds. */
async function doctor(...words: string[]): Promise<readonly Finding[]> {
  const asked = promisify(execFile)('bin/muster', ['doctor', ...words, '-o', 'json'], { env: process.env });
  const { stdout } = await asked.catch((error: { readonly stdout: string }) => error);
  return JSON.parse(stdout) as Finding[];
}

describe('where another DHCP server (dnsmasq) gives the addresses', () => {
  let muster: Muster;
  let other: Awaited<ReturnType<typeof daemon>>;
  beforeAll(async () => {
    bridge('br-a', '10.77.0.1/24');
    attach('other', 'br-a');
    attach('one', 'br-a');
    ip('-n', 'other', 'addr', 'add', '10.77.0.9/24', 'dev', 'eth0');
    ip('-n', 'one', 'route', 'add', 'default', 'dev', 'eth0');
    const leases = `--dhcp-leasefile=${join(HOME, 'dnsmasq.leases')}`;
    const range = '--dhcp-range=10.77.0.50,10.77.0.60';
    other = await dnsmasq('other', ['--no-ping', leases, range], /DHCP, IP range/);
    muster = await startMuster(['br-a'], rack('{mode: proxy}'));
  });
  afterAll(async () => {
    await muster.stop();
    await other.stop();
    remove(['other', 'one'], ['br-a']);
  });

  it('in proxy mode an ordinary client gets only the replies of the other DHCP server', async () => {
    const answers = await byHand('one', [message('DISCOVER', { flags: BROADCAST_FLAG })], {
      wait: SILENCE_MS,
      replies: ALL,
    });
    expect(answers.map(({ from }) => from)).toEqual(['10.77.0.9']);
    expect((await udhcpc('one')).output).toMatch(/GOT ip=10\.77\.0\.(5[0-9]|60) .*serverid=10\.77\.0\.9/);
  });

  it('in proxy mode a boot client gets its address from the other DHCP server and its file from Muster', async () => {
    for (const options of [UEFI!, BIOS!]) {
      const answers = await byHand('one', [message('DISCOVER', { options, flags: BROADCAST_FLAG })], {
        replies: 2,
      });
      const [ours, theirs] = answers.sort((a, b) => (a.from < b.from ? -1 : 1));
      expect([ours!.from, theirs!.from]).toEqual(['10.77.0.1', '10.77.0.9']);
      expect(ours!.packet.yiaddr).toBe(0);
      expect(ours!.packet.file).toMatch(/\.(efi|kpxe)$/);
      expect(formatIpv4(theirs!.packet.yiaddr)).toMatch(/^10\.77\.0\.[56][0-9]$/);
    }
    expect(await muster.leases()).toEqual([]);
  });

  it('muster doctor finds the other DHCP server, and fetches by TFTP and HTTP as machines do', async () => {
    const kept = async () =>
      (await muster.events()).filter(({ kind }) => kind === 'boot.session' || kind === 'machine.discovered');
    const before = await kept();
    const findings = (await doctor('--socket', muster.socket)).filter(({ network }) => network !== undefined);
    expect(findings.map(({ check, state }) => [check, state])).toEqual([
      ['address', 'ok'],
      ['link', 'ok'],
      ['mtu', 'ok'],
      ['dhcp servers', 'ok'],
      ['tftp', 'ok'],
      ['http', 'ok'],
    ]);
    // Its address, its hardware, and what it offered.
    expect(findings[3]!.text).toMatch(
      new RegExp(
        `^10\\.77\\.0\\.9 \\(${macOf('other')}\\) gives the addresses, such as 10\\.77\\.0\\.(5[0-9]|60) \\(asked for 8 s\\)$`,
      ),
    );
    expect(await muster.leases()).toEqual([]);
    // It asks as firmware does, and is no machine for that.
    expect(await kept()).toEqual(before);
  });

  it('port 4011 answers by unicast to the address and port of the request', async () => {
    ip('-n', 'one', 'addr', 'add', '10.77.0.55/24', 'dev', 'eth0');
    const request = message('REQUEST', { ciaddr: '10.77.0.55', options: UEFI! });
    const [answer] = await byHand('one', [request], { port: 4011, to: '10.77.0.1:4011' });
    expect(answer).toMatchObject({
      from: '10.77.0.1',
      port: 4011,
      packet: { file: expect.stringMatching(/\.efi$/) },
    });
    ip('-n', 'one', 'addr', 'flush', 'dev', 'eth0');
  });
});

describe('on a segment of others, while no server of ours runs', () => {
  const others: Awaited<ReturnType<typeof daemon>>[] = [];
  /** As it ships: it probes an address for 3 s before it offers it. */
  const start = async (name: string, address: string, ...options: string[]) => {
    attach(name, 'br-a');
    ip('-n', name, 'addr', 'add', `${address}/24`, 'dev', 'eth0');
    const leases = `--dhcp-leasefile=${join(HOME, `${name}.leases`)}`;
    others.push(await dnsmasq(name, [leases, ...options], /DHCP, (IP range|proxy)/));
  };
  const alone = async () => {
    const socket = join(HOME, 'no-server.sock');
    const findings = await doctor('--socket', socket, '--interface', 'br-a');
    return findings
      .filter(({ check }) => ['server', 'dhcp servers', 'tftp', 'http'].includes(check))
      .map(({ check, state, text }) => `${check} ${state}: ${text}`);
  };
  beforeAll(() => bridge('br-a', '10.77.0.1/24'));
  afterAll(async () => {
    for (const one of others) await one.stop();
    remove(['slow', 'second', 'proxy'], ['br-a']);
  });

  it('muster doctor finds two slow DHCP servers, and a proxy that answers firmware only', async () => {
    await start('slow', '10.77.0.9', '--dhcp-range=10.77.0.50,10.77.0.60');
    await start('second', '10.77.0.8', '--dhcp-range=10.77.0.70,10.77.0.80');
    const service = '--pxe-service=x86-64_EFI,Other,other.efi';
    await start('proxy', '10.77.0.7', '--dhcp-range=10.77.0.0,proxy', service);
    expect(await alone()).toEqual([
      expect.stringMatching(/^server fail: it does not run/),
      expect.stringMatching(
        /^dhcp servers fail: 10\.77\.0\.7 \([0-9a-f:]+\) offers .*other\.efi.* \(asked for 8 s\)$/,
      ),
      expect.stringMatching(
        /^dhcp servers warn: 10\.77\.0\.[89] \([0-9a-f:]+\), 10\.77\.0\.[89] \([0-9a-f:]+\) gives addresses, such as [0-9.]+: /,
      ),
      'tftp fail: nothing listens on UDP port 69',
      'http fail: nothing listens on the TCP port for machines',
    ]);
  });
});

describe('with a machine on a free address', () => {
  let muster: Muster;
  beforeAll(async () => {
    bridge('br-a', '10.77.0.1/24');
    attach('squatter', 'br-a');
    attach('one', 'br-a');
    ip('-n', 'squatter', 'addr', 'add', '10.77.0.100/24', 'dev', 'eth0');
    muster = await startMuster(['br-a'], rack(`{mode: server, ${POOL}}`));
  });
  afterAll(async () => {
    await muster.stop();
    remove(['squatter', 'one'], ['br-a']);
  });

  it('the probe finds a machine on a free address in advance, and no client is offered that address', async () => {
    const found = await muster.event('the conflict', (e) => e.kind === 'dhcp.conflict');
    expect(found).toMatchObject({ subject: macOf('squatter'), fields: { address: '10.77.0.100' } });
    expect((await muster.leases()).find((l) => l.address === '10.77.0.100')).toMatchObject({
      state: 'conflict',
    });
    expect((await udhcpc('one')).output).toContain('GOT ip=10.77.0.101 ');
    // A few addresses are probed in advance, not the whole pool.
    const asked = readFileSync('/proc/net/arp', 'utf8')
      .split('\n')
      .filter((line) => line.includes('br-a'));
    expect(asked.length).toBeLessThanOrEqual(40);
    expect(macToBytes(macOf('squatter'))).toHaveLength(6);
  });
});

describe('while the disk of the boot host is full', () => {
  const state = join(HOME, 'full');
  const filler = join(state, 'filler');
  const [reserved, guest, stranger] = [1, 2, 3].map((n) => `52:54:00:00:78:0${n}` as Mac) as [Mac, Mac, Mac];
  let muster: Muster;
  beforeAll(async () => {
    bridge('br-f', '10.77.0.1/24');
    attach('full', 'br-f');
    ip('-n', 'full', 'route', 'add', 'default', 'dev', 'eth0');
    mkdirSync(state);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', state]);
    const documents = `${rack(`{mode: server, probe: off, ${POOL}}`)}---
apiVersion: muster/v1
kind: Profile
metadata: {name: held}
spec: {boot: hold}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: n1}
spec: {macs: ['${reserved}'], profile: held, addresses: [10.77.0.21]}
`;
    muster = await startMuster(['br-f'], documents, ['--state', state]);
  });
  afterAll(async () => {
    await muster.stop();
    execFileSync('umount', [state]);
    remove(['full'], ['br-f']);
  });

  /** The address of an OFFER and of the ACK after it; undefined where none comes. */
  async function joins(mac: Mac, wait = PATIENCE_MS): Promise<(string | undefined)[]> {
    const [offer] = await byHand('full', [message('DISCOVER', { mac })], { wait });
    if (offer === undefined) return [undefined, undefined];
    const address = formatIpv4(offer.packet.yiaddr);
    const [ack] = await byHand('full', [message('REQUEST', { mac, address, server: '10.77.0.1' })]);
    return [address, ack && formatIpv4(ack.packet.yiaddr)];
  }

  it('reserved addresses and renewals are confirmed, nothing new is offered, and all of it is stored when there is room', async () => {
    const [address] = await joins(guest);
    expect(address).toBe('10.77.0.100');
    // The answer to a renewal is sent to the client's address.
    ip('-n', 'full', 'addr', 'add', `${address}/24`, 'dev', 'eth0');
    try {
      for (;;) appendFileSync(filler, Buffer.alloc(4096));
    } catch (error) {
      expect(error).toMatchObject({ code: 'ENOSPC' });
    }
    expect(await joins(reserved)).toEqual(['10.77.0.21', '10.77.0.21']);
    const [renewed] = await byHand('full', [message('REQUEST', { mac: guest, ciaddr: address! })]);
    expect(renewed && formatIpv4(renewed.packet.yiaddr)).toBe(address);
    expect(await joins(stranger, SILENCE_MS)).toEqual([undefined, undefined]);
    const { checks } = await muster.get<{ checks: { name: string; detail?: string }[] }>('/v1/status');
    expect(checks.find(({ name }) => name === 'store')?.detail).toMatch(/2 addresses were confirmed/);
    rmSync(filler);
    await muster.event('a lease is stored again', () => muster.log().includes('the store can write again'));
    expect((await joins(stranger))[1]).toBe('10.77.0.101');
    await muster.restart();
    expect(await muster.leases()).toMatchObject([
      { address: '10.77.0.21', mac: reserved },
      { address: '10.77.0.100', mac: guest },
      { address: '10.77.0.101', mac: stranger },
    ]);
  });
});

describe('the launcher', () => {
  const launch = (...words: string[]) =>
    run('launch', ['perl', resolve('systemd/bind-sockets.pl'), NODE, '-', 'serve', ...words]);
  beforeAll(() => {
    ip('netns', 'add', 'launch');
    ip('-n', 'launch', 'link', 'add', 'v0', 'type', 'veth', 'peer', 'name', 'v1');
    for (const name of ['lo', 'v0', 'v1']) ip('-n', 'launch', 'link', 'set', name, 'up');
  });
  afterAll(() => remove(['launch'], []));

  it('the launcher opens one socket per interface and port and one for HTTP, and passes their names', async () => {
    const show = script(
      'show.pl',
      'print "$ENV{LISTEN_FDS} $ENV{LISTEN_FDNAMES} ", $ENV{LISTEN_PID} == $$ ? "mine" : "not", "\\n"; print join(" ", map { -S "/proc/self/fd/$_" ? "s" : "-" } 3 .. 9), "\\n"',
    );
    const words = [
      'perl',
      resolve('systemd/bind-sockets.pl'),
      '/usr/bin/perl',
      show,
      'serve',
      '--interface',
      'v0',
      '--interface=v1',
    ];
    const { output } = await run('launch', words);
    expect(output).toBe('7 dhcp-v0:pxe-v0:tftp-v0:dhcp-v1:pxe-v1:tftp-v1:http mine\ns s s s s s s\n');
  });

  it.each([
    [
      'no interface is named',
      [],
      /^muster: serve: say which interfaces .* there are: v[01] v[01] \(E_USAGE\)\n$/,
    ],
    [
      'there is no such interface',
      ['--interface', 'nope'],
      /^muster: --interface nope: there is no such interface; there are: v[01] v[01] \(E_USAGE\)\n$/,
    ],
    [
      'the port is none',
      ['--interface', 'v0', '--http-port', '0'],
      /^muster: --http-port 0: not a port; give a number from 1 to 65535 \(E_USAGE\)\n$/,
    ],
  ])('says in one line what to do when %s', async (_what, words, expected) => {
    const { code, output } = await launch(...words);
    expect(output).toMatch(expected);
    expect(code).toBe(2);
  });

  it('the launcher names the process that uses a port', async () => {
    const wait = script('wait.pl', '$| = 1; print "up\\n"; sleep 60');
    const words = [
      'perl',
      resolve('systemd/bind-sockets.pl'),
      '/usr/bin/perl',
      wait,
      'serve',
      '--interface',
      'v0',
    ];
    const first = await daemon('launch', words, /up/);
    const { output } = await launch('--interface', 'v0');
    expect(output).toMatch(
      /^muster: DHCP, port 67 on v0: already in use by perl wait\.pl, pid [0-9]+; stop that program or take it off this interface \(E_PORT_IN_USE\)\n$/,
    );
    expect((await launch('--interface', 'v1')).output).toMatch(
      /^muster: HTTP, port 8080: already in use by perl wait\.pl, pid /,
    );
    await first.stop();
  });

  it('the launcher names the program that uses the port on that interface, and neither another one nor itself', async () => {
    const holder = (device: string, port: string) => {
      const wait = script(`wait-${device}.pl`, '$| = 1; print "up\\n"; sleep 60');
      const words = ['serve', '--interface', device, '--http-port', port];
      return daemon(
        'launch',
        ['perl', resolve('systemd/bind-sockets.pl'), '/usr/bin/perl', wait, ...words],
        /up/,
      );
    };
    const holders = [await holder('v0', '8081'), await holder('v1', '8082')];
    try {
      for (const device of ['v0', 'v1']) {
        // The first interface is free: the launcher itself has port 67 on it when it fails.
        const { output } = await launch('--interface', 'lo', '--interface', device);
        expect(output).toMatch(
          new RegExp(`^muster: DHCP, port 67 on ${device}: already in use by perl wait-${device}\\.pl, pid `),
        );
      }
    } finally {
      for (const one of holders) await one.stop();
    }
  });

  it('the launcher says how to run it when it lacks permission', async () => {
    // A copy that everybody can read, wherever the checkout is.
    const copy = join(mkdtempSync(join(tmpdir(), 'muster-launcher-')), 'bind-sockets.pl');
    chmodSync(dirname(copy), 0o755);
    copyFileSync('systemd/bind-sockets.pl', copy);
    const words = [
      'setpriv',
      '--reuid',
      '65534',
      '--clear-groups',
      'perl',
      copy,
      '/bin/true',
      '-',
      'serve',
      '--interface',
      'v0',
    ];
    expect((await run('launch', words)).output).toMatch(
      /not permitted; run as root, or install the units in systemd\//,
    );
  });
});

describe('an interface that is deleted and created again', () => {
  let muster: Muster;
  const segment = (name: string, subnet: string) => `apiVersion: muster/v1
kind: Network
metadata: {name: ${name}}
spec:
  subnet: ${subnet}.0/24
  dhcp: {mode: server, pools: [{start: ${subnet}.100, end: ${subnet}.199}]}
`;
  const there = (...words: string[]) => ip('-n', 'server', ...words);
  const make = (name: string, address: string) => {
    there('link', 'add', name, 'type', 'bridge', 'forward_delay', '0');
    there('link', 'set', name, 'up');
    there('addr', 'add', address, 'dev', name);
  };
  beforeAll(async () => {
    ip('netns', 'add', 'server');
    for (const [name, subnet] of [
      ['new', '10.83.0'],
      ['stays', '10.84.0'],
    ] as const) {
      make(`br-${name}`, `${subnet}.1/24`);
      bridge('br-passing');
      attach(name, 'br-passing');
      ip('link', 'set', `p-${name}`, 'netns', 'server');
      ip('link', 'del', 'br-passing');
      there('link', 'set', `p-${name}`, 'master', `br-${name}`, 'up');
    }
    const documents = `${segment('new', '10.83.0')}---\n${segment('stays', '10.84.0')}`;
    muster = await startMuster(['br-new', 'br-stays'], documents, [], 'server');
  });
  afterAll(async () => {
    await muster.stop();
    remove(['new', 'stays', 'server'], []);
  });

  it('an interface that is deleted and created again is a fault with its remedy; a restart serves it again, and the others work meanwhile', async () => {
    expect((await udhcpc('new')).output).toContain('GOT ip=10.83.0.');
    there('link', 'del', 'br-new');
    make('br-new', '10.83.0.1/24');
    there('link', 'set', 'p-new', 'master', 'br-new');
    const asks = ['-s', '--unix-socket', muster.socket, 'http://muster/readyz'];
    const ready = () => execFileSync('curl', asks, { encoding: 'utf8' });
    await expect
      .poll(ready, { timeout: 30_000 })
      .toMatch(/br-new was deleted and created again.*restart Muster/);
    expect((await udhcpc('stays')).output).toContain('GOT ip=10.84.0.');
    await muster.restart();
    expect((await udhcpc('new')).output).toContain('GOT ip=10.83.0.');
    expect(ready()).not.toContain('deleted and created again');
  });
});
