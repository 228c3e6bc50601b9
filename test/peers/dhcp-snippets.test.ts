/**
 * Other projects' DHCP servers with the snippets of `muster network snippet`: a machine gets its
 * address from them, and boots from Muster.
 */
import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ipv4 } from '../../src/base/ipv4.ts';
import type { Mac } from '../../src/base/mac.ts';
import { OPTION } from '../../src/pxe/dhcp/options.ts';
import { BROADCAST_FLAG, decode } from '../../src/pxe/dhcp/packet.ts';
import type { DhcpProgram } from '../../src/pxe/firmware/snippets.ts';
import { message } from '../unit/pxe/dhcp/kit.ts';
import { attach, bridge, daemon, ip, type Muster, remove, run, startMuster } from './dhcp-segment.ts';
import { callApi } from './etcd/api.ts';
import { unpacked } from './unpacked.ts';

const HOME = mkdtempSync(join(tmpdir(), 'muster-snippets-'));
const KERNEL = Buffer.from('a kernel');
const SHA256 = createHash('sha256').update(KERNEL).digest('hex');
const MAC = '52:54:00:aa:00:01' as Mac;
const DOCUMENTS = `apiVersion: muster/v1
kind: Network
metadata: {name: rack}
spec: {subnet: 10.77.0.0/24, dhcp: {mode: off}}
---
apiVersion: muster/v1
kind: Image
metadata: {name: small}
spec: {os: debian, arch: x86_64, kernel: {sha256: ${SHA256}}, configFormat: none}
---
apiVersion: muster/v1
kind: Profile
metadata: {name: small}
spec: {image: small}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: node-1}
spec: {macs: ["${MAC}"], profile: small}
`;

/** A DHCP server: how it checks a configuration that has the snippet, and how it is started. */
interface Server {
  readonly program: Extract<DhcpProgram, 'dnsmasq' | 'kea' | 'isc'>;
  readonly package: string;
  readonly path: string;
  /** The configuration that includes the snippet in `file`. */
  readonly config: (file: string) => string;
  readonly check: (config: string) => readonly string[];
  readonly serve: (config: string) => readonly string[];
  readonly ready: RegExp;
}

const SERVERS: readonly Server[] = [
  {
    ...{ program: 'dnsmasq', package: 'dnsmasq-base', path: 'usr/sbin/dnsmasq' },
    config: (file) =>
      [
        'port=0',
        'user=root',
        'no-ping',
        'dhcp-authoritative',
        `dhcp-leasefile=${HOME}/dnsmasq.leases`,
        'dhcp-range=10.77.0.50,10.77.0.60,1h',
        `conf-file=${file}`,
        '',
      ].join('\n'),
    check: (config) => ['--test', `--conf-file=${config}`],
    serve: (config) => ['--keep-in-foreground', '--log-facility=-', `--conf-file=${config}`],
    ready: /DHCP, IP range/,
  },
  {
    ...{ program: 'kea', package: 'kea-dhcp4-server', path: 'usr/sbin/kea-dhcp4' },
    config: (file) => `{"Dhcp4": {
  "interfaces-config": {"interfaces": ["eth0"]},
  "lease-database": {"type": "memfile", "persist": false},
  "client-classes": <?include "${file}"?>,
  "subnet4": [{"subnet": "10.77.0.0/24", "pools": [{"pool": "10.77.0.50 - 10.77.0.60"}]}],
  "loggers": [{"name": "kea-dhcp4", "output_options": [{"output": "stdout"}], "severity": "INFO"}]
}}
`,
    check: (config) => ['-t', config],
    serve: (config) => ['-c', config],
    ready: /DHCP4_STARTED/,
  },
  {
    ...{ program: 'isc', package: 'isc-dhcp-server', path: 'usr/sbin/dhcpd' },
    config: (file) => `include "${file}";
authoritative;
ping-check false;
subnet 10.77.0.0 netmask 255.255.255.0 { range 10.77.0.50 10.77.0.60; }
`,
    check: (config) => ['-t', '-cf', config],
    serve: (config) => [
      ...['-f', '-d', '-cf', config, '-lf', `${HOME}/isc.leases`, '-pf', `${HOME}/isc.pid`],
      'eth0',
    ],
    ready: /Server starting service/,
  },
];

/** Software that asks, by its DHCP options, and the file that it has to get. */
const CLIENTS = [
  ['a BIOS', ['-V', 'PXEClient:Arch:00000:UNDI:002001', '-x', '93:0000'], 'undionly.kpxe'],
  ['x64 UEFI', ['-V', 'PXEClient:Arch:00007:UNDI:003016', '-x', '93:0007'], 'ipxe.efi'],
  ['UEFI that prefers x64', ['-V', 'PXEClient:Arch:00009:UNDI:003016', '-x', '93:00090007'], 'ipxe.efi'],
  [
    'UEFI HTTP boot',
    ['-V', 'HTTPClient:Arch:00016:UNDI:003001', '-x', '93:0010', '-O', '60'],
    'http://10.77.0.1:8080/loaders/ipxe.efi',
  ],
  [
    'iPXE',
    ['-V', 'PXEClient:Arch:00007:UNDI:003010', '-x', '93:0007', '-x', '77:69505845'],
    'http://10.77.0.1:8080/boot.ipxe',
  ],
] as const;

const CLIENT = join(HOME, 'udhcpc.sh');
const udhcpc = (...more: readonly string[]) =>
  run('one', ['udhcpc', '-i', 'eth0', '-n', '-q', '-t', '5', '-T', '2', '-s', CLIENT, ...more]);
const fetched = async (url: string) => {
  const { code, output } = await run('one', ['curl', '-sS', '--fail', '--max-time', '20', url]);
  if (code !== 0) throw new Error(`${url}: ${output}`);
  return output;
};

let muster: Muster;
beforeAll(async () => {
  writeFileSync(
    CLIENT,
    `#!/bin/sh
[ "$1" = bound ] || exit 0
ip addr replace "$ip/24" dev eth0
echo "GOT server=$serverid siaddr=$siaddr boot=$boot_file"
`,
  );
  chmodSync(CLIENT, 0o755);
  bridge('br-a', '10.77.0.1/24');
  attach('other', 'br-a');
  attach('one', 'br-a', MAC);
  ip('-n', 'other', 'addr', 'add', '10.77.0.9/24', 'dev', 'eth0');
  mkdirSync('/run/kea', { recursive: true });
  muster = await startMuster(['br-a'], DOCUMENTS);
  await callApi(muster.socket, 'PUT', `/v1/assets/${SHA256}`, KERNEL);
});
afterAll(async () => {
  await muster.stop();
  remove(['other', 'one'], ['br-a']);
  rmSync(HOME, { recursive: true });
});

describe.each(SERVERS)('$program with our snippet', ({ program, config, path, ...server }) => {
  const { command, env } = unpacked(server.package, path);
  const own = { ...env, KEA_PIDFILE_DIR: HOME, KEA_LOCKFILE_DIR: HOME };
  const [snippet, whole] = [join(HOME, `${program}.snippet`), join(HOME, `${program}.conf`)];
  let running: Awaited<ReturnType<typeof daemon>>;
  beforeAll(async () => {
    ip('-n', 'one', 'route', 'replace', 'default', 'dev', 'eth0');
    const { text } = await muster.get<{ text: string }>(`/v1/networks/rack/snippet?for=${program}`);
    writeFileSync(snippet, text);
    writeFileSync(whole, config(snippet));
    writeFileSync(join(HOME, 'isc.leases'), '');
    const checked = await run('other', [command, ...server.check(whole)], 60, own);
    expect(checked, checked.output).toMatchObject({ code: 0 });
    running = await daemon('other', [command, ...server.serve(whole)], server.ready, own);
  });
  afterAll(async () => {
    await running?.stop();
    ip('-n', 'one', 'addr', 'flush', 'dev', 'eth0');
  });

  it.each(CLIENTS)('%s gets its file', async (_who, options, file) => {
    const { output } = await udhcpc(...options);
    expect(output, running.output()).toContain(`GOT server=10.77.0.9 siaddr=10.77.0.1 boot=${file}\n`);
  });

  it('UEFI HTTP boot hears HTTPClient, without which EDK2 drops the offer', async () => {
    const options: [number, Buffer][] = [
      [OPTION.vendorClass, Buffer.from('HTTPClient:Arch:00016:UNDI:003001')],
      [OPTION.architecture, Buffer.from([0, 16])],
    ];
    const discover = message('DISCOVER', { mac: MAC, options, flags: BROADCAST_FLAG }).toString('hex');
    const client = resolve('test/peers/dhcp-client.ts');
    const asking = [process.execPath, client, '20000', '1', '68', '255.255.255.255:67', discover];
    const { output } = await run('one', asking);
    const heard = decode(Buffer.from((JSON.parse(output) as { hex: string }).hex, 'hex'));
    if (!heard.ok) throw new Error(heard.fault);
    expect(heard.packet.options.get(OPTION.vendorClass)?.toString()).toBe('HTTPClient');
    expect(heard.packet.siaddr).toBe(ipv4('10.77.0.1'));
  });

  it('a machine fetches its loader by TFTP and HTTP, and boots by its document', async () => {
    await udhcpc(...CLIENTS[1][1]);
    const loader = await run('one', ['curl', '-sS', '-o', '/dev/null', 'tftp://10.77.0.1/ipxe.efi']);
    expect(loader).toEqual({ code: 0, output: '' });
    expect(await fetched('http://10.77.0.1:8080/boot.ipxe')).toContain('http://10.77.0.1:8080/script.ipxe?');
    // As iPXE fills in the URL of that script.
    const script = await fetched(
      `http://10.77.0.1:8080/script.ipxe?mac=${MAC.replaceAll(':', '-')}&arch=x86_64&platform=efi`,
    );
    expect(script).toContain('node-1 boots small as small');
    const kernel = /http:\/\/10\.77\.0\.1:8080\/assets\/[^ ]+/.exec(script)![0];
    expect(await fetched(kernel)).toBe(KERNEL.toString());
  });
});
