/**
 * The virtual rack's BMCs with clients of others, which say whether they are BMCs: ipmitool and
 * FreeIPMI (cipher suites 3 and 17), Ironic's sushy, redfishtool, and two fence agents.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { openBmcAuthority } from '../../src/bmc/authority.ts';
import { openIpmi } from '../../src/bmc/ipmi/client.socket.ts';
import type { Reach } from '../../src/bmc/reach.ts';
import { openRedfish } from '../../src/bmc/redfish/client.socket.ts';
import { connectApi } from '../../src/cli/client.socket.ts';
import { CONSOLES } from '../../src/lab/bmc/redfish.ts';
import {
  certificateOf,
  ImaginedMachine,
  startVirtualBmc,
  type VirtualBmc,
} from '../../src/lab/bmc/virtual-bmc.server.ts';
import { openPki } from '../../src/pki/pki.ts';
import { newVaultKey, vaultFrom } from '../../src/pki/vault.ts';
import { openMemoryStore } from '../../src/store/memory.ts';
import { run as cli } from '../unit/cli/run.ts';
import { attach, bridge, remove, startMuster } from './dhcp-segment.ts';
import { PoweredMachine } from './powered-machine.ts';
import { type Unpacked, unpacked } from './unpacked.ts';

const HOME = mkdtempSync(join(tmpdir(), 'muster-virtual-bmc-'));
const ADA = { user: 'ada', password: 'secret-of-ada' };
const identity = { macs: ['52:54:00:aa:00:01'], serial: 'A-1' };
const started: VirtualBmc[] = [];

async function virtual(
  protocol: 'ipmi' | 'redfish',
  more: Partial<Parameters<typeof startVirtualBmc>[0]> = {},
  machine = new ImaginedMachine(),
) {
  const options = { protocol, address: '127.0.0.1', port: 0, ...ADA, identity, ...more };
  const bmc = await startVirtualBmc(options, machine);
  started.push(bmc);
  return { machine, bmc, access: { address: '127.0.0.1', port: bmc.port, ...ADA } };
}
type Virtual = Awaited<ReturnType<typeof virtual>>;

const HASH = 'a'.repeat(64);
/** A machine whose system lives on its disk, with its BMC behind this port. */
const installed = (port: number): string => `apiVersion: muster/v1
kind: Network
metadata: {name: lan}
spec: {subnet: 10.79.0.0/24, dhcp: {mode: server, probe: off, pools: [{start: 10.79.0.100, end: 10.79.0.109}]}}
---
apiVersion: muster/v1
kind: Image
metadata: {name: server}
spec: {os: debian, arch: x86_64, kernel: {sha256: ${HASH}}, disk: {sha256: ${HASH}}, pieces: {sha256: ${HASH}}, configFormat: cloud-init, cloudInitVersion: '22.4'}
---
apiVersion: muster/v1
kind: Profile
metadata: {name: installed}
spec: {image: server, home: disk, installDisk: {choose: smallest}}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: node-1}
spec:
  macs: ["52:54:00:aa:00:79"]
  profile: installed
  bmc: {address: 127.0.0.1, port: ${port}, protocol: redfish, credentials: {user: ada, password: {valueFrom: {secret: bmc, key: password}}}}
`;

let ipmi: Virtual;
let redfish: Virtual;
beforeAll(async () => {
  ipmi = await virtual('ipmi');
  redfish = await virtual('redfish');
});
afterAll(async () => {
  for (const one of started) await one.close();
  rmSync(HOME, { recursive: true, force: true });
});

/** What a program prints, whether it fails or not. */
async function said({ command, env }: Unpacked, ...args: readonly string[]): Promise<string> {
  // The clients are told not to check certificates; a CA of the environment would overrule that.
  const { REQUESTS_CA_BUNDLE: _, CURL_CA_BUNDLE: __, ...rest } = env;
  const words = { env: { ...rest, HOME }, timeout: 30_000 };
  const { stdout, stderr } = await promisify(execFile)(command, args, words).catch(
    (error: { readonly stdout: string; readonly stderr: string }) => error,
  );
  return `${stdout}${stderr}`;
}

const loginOf = (suite: number, { access }: Virtual, password = ADA.password): string[] => [
  ...['-I', 'lanplus', '-C', `${suite}`, '-H', access.address, '-p', `${access.port}`],
  ...['-U', ADA.user, '-P', password],
];
const ipmitool = (suite: number, to: Virtual, ...args: readonly string[]): Promise<string> =>
  said(unpacked('ipmitool', 'usr/bin/ipmitool'), ...loginOf(suite, to), ...args);
const freeipmi = (suite: number, to: Virtual, tool: string, ...args: readonly string[]): Promise<string> =>
  said(
    unpacked('freeipmi-tools', `usr/sbin/${tool}`),
    ...['-D', 'LAN_2_0', '-I', `${suite}`, '-h', `${to.access.address}:${to.access.port}`],
    ...['-u', ADA.user, '-p', ADA.password, ...args],
  );

/** Resolves when the program has printed it. */
async function shows(program: ChildProcess, text: string): Promise<void> {
  let seen = '';
  for await (const part of program.stdout!.iterator({ destroyOnReturn: false })) {
    seen += String(part);
    if (seen.includes(text)) return;
  }
  throw new Error(`it ended without "${text}": ${seen}`);
}

describe.each([3, 17])('IPMI with cipher suite %i', (suite) => {
  test('ipmitool and FreeIPMI switch the machine on and off, and see what the other did', async () => {
    expect(await ipmitool(suite, ipmi, 'chassis', 'power', 'status')).toContain('is off');
    expect(await freeipmi(suite, ipmi, 'ipmi-power', '--on')).toContain('ok');
    expect(ipmi.machine.on).toBe(true);
    expect(await ipmitool(suite, ipmi, 'chassis', 'power', 'status')).toContain('is on');
    expect(await ipmitool(suite, ipmi, 'chassis', 'identify', '30')).toContain('30 seconds');
    expect(await freeipmi(suite, ipmi, 'ipmi-chassis', '--get-chassis-status')).toMatch(
      /Identify.*: Timed on/,
    );
    await ipmitool(suite, ipmi, 'chassis', 'power', 'off');
    expect(await freeipmi(suite, ipmi, 'ipmi-power', '--stat')).toContain('off');
    expect(ipmi.bmc.controller.orders.slice(-2)).toEqual(['on', 'off']);
  });

  test('a boot once is read back, counts for one boot, and is gone then', async () => {
    await ipmitool(suite, ipmi, 'chassis', 'bootdev', 'pxe', 'options=efiboot');
    expect(await ipmitool(suite, ipmi, 'chassis', 'bootparam', 'get', '5')).toMatch(
      /only next boot.*EFI boot.*Force PXE/s,
    );
    await ipmitool(suite, ipmi, 'chassis', 'power', 'on');
    expect(await ipmitool(suite, ipmi, 'chassis', 'bootparam', 'get', '5')).toContain('Boot Flag Invalid');
    await ipmitool(suite, ipmi, 'chassis', 'power', 'reset');
    await ipmi.bmc.controller.settled();
    expect(ipmi.bmc.controller.starts.slice(-2)).toEqual(['network', 'none']);
    await ipmitool(suite, ipmi, 'chassis', 'power', 'off');
  });

  test('serial over LAN brings the first octet of the firmware, and what is typed', async () => {
    const { command, env } = unpacked('ipmitool', 'usr/bin/ipmitool');
    // Without a terminal it would keep what it prints until it ends.
    const words = ['-o0', command, ...loginOf(suite, ipmi), 'sol', 'activate'];
    const console = spawn('stdbuf', words, { env, stdio: ['pipe', 'pipe', 'ignore'] });
    try {
      await shows(console, 'operational');
      await ipmi.machine.start('network', { hang: false });
      await shows(console, 'BIOS (network)\r\nlogin: ');
      console.stdin.write('hello\r');
      await shows(console, 'hello');
      expect(ipmi.machine.typed).toContain('hello\r');
      console.stdin.write('\r~.');
      await once(console, 'close');
    } finally {
      console.kill();
      await ipmi.machine.cut();
    }
  });

  test('sensors, inventory and the event log are those of a BMC', async () => {
    expect(await freeipmi(suite, ipmi, 'ipmi-sensors')).toMatch(/CPU Temp +\| Temperature +\| 47.00/);
    expect(await ipmitool(suite, ipmi, 'sdr')).toMatch(/Fan 1 +\| 4000 RPM +\| ok/);
    expect(await ipmitool(suite, ipmi, 'fru')).toMatch(/Product Serial +: A-1/);
    expect(await ipmitool(suite, ipmi, 'sdr')).toMatch(/Power +\| 180 Watts +\| ok/);
    expect(await ipmitool(suite, ipmi, 'sel', 'list')).toMatch(/ACPI Power State.*S0/);
    const bmc = await openIpmi({ ...ipmi.access, suites: [suite as 3 | 17] });
    expect(await bmc.show('inventory')).toMatchObject({
      inventory: { manufacturer: 'Muster Lab', serial: 'A-1', firmware: [{ name: 'BMC', version: '1.00' }] },
    });
    const { sensors } = await bmc.show('sensors');
    expect(sensors?.map(({ name, value, unit }) => `${name} ${value} ${unit}`)).toEqual([
      ...['Inlet Temp 24 °C', 'CPU Temp 47 °C', 'Fan 1 4000 RPM', 'Power 180 W'],
    ]);
    expect((await bmc.show('log')).log?.map(({ text }) => text)).toContain('ACPI Power State #9: S0: on');
    await bmc.close();
  });

  test('an account that Muster makes is one of ipmitool, with its password', async () => {
    const own = { user: 'muster', password: 'Sixteen-octets-1' };
    const bmc = await openIpmi({ ...ipmi.access, suites: [suite as 3 | 17] });
    await bmc.setAccount(own);
    await bmc.close();
    expect(await ipmitool(suite, ipmi, 'user', 'list', '1')).toMatch(/2 +muster .*ADMINISTRATOR/);
    expect(await ipmitool(suite, ipmi, 'user', 'test', '2', '16', own.password)).toContain('Success');
    const again = await openIpmi({ ...ipmi.access, ...own });
    await again.switchOff('muster');
    await again.close();
    await expect(openIpmi({ ...ipmi.access, ...own })).rejects.toThrow();
  });

  test('a changed password is the only one that opens a session', async () => {
    await ipmitool(suite, ipmi, 'user', 'set', 'password', '1', 'another');
    expect(await ipmitool(suite, ipmi, 'mc', 'info')).toContain('Unable to establish');
    const { access } = ipmi;
    const bmc = await openIpmi({ ...access, password: 'another', suites: [suite as 3 | 17] });
    expect(await bmc.power()).toBe('off');
    await bmc.close();
    const login = loginOf(suite, ipmi, 'another');
    await said(
      unpacked('ipmitool', 'usr/bin/ipmitool'),
      ...login,
      'user',
      'set',
      'password',
      '1',
      ADA.password,
    );
    expect(await ipmitool(suite, ipmi, 'mc', 'info')).toContain('IPMI Version');
  });
});

test.each([0, 1, 2])('cipher suite %i opens no session', async (suite) => {
  expect(await ipmitool(suite, ipmi, 'mc', 'info')).toContain('Unable to establish');
});

test('three wrong passwords lock an account, and a right one in between does not count with them', async () => {
  const locking = await virtual('ipmi', { traits: { lockOut: { after: 3, forMs: 60_000 } } });
  const wrong = () => expect(openIpmi({ ...locking.access, password: 'wrong' })).rejects.toThrow();
  await wrong();
  await wrong();
  await (await openIpmi(locking.access)).close();
  for (let n = 0; n < 3; n++) await wrong();
  expect(await ipmitool(17, locking, 'mc', 'info')).toContain('Unable to establish');
});

describe('Redfish', () => {
  const python = (name: string, path = 'usr/lib/python3/dist-packages'): Unpacked => ({
    command: 'python3',
    env: { ...process.env, PYTHONPATH: resolve('.cache/peers', name, path) },
  });

  test('sushy finds the system, boots it once from the network, and switches it off', async () => {
    const url = `https://127.0.0.1:${redfish.bmc.port}/redfish/v1/`;
    const words = [url, ADA.user, ADA.password];
    const printed = await said(python('python3-sushy'), 'test/peers/ask-sushy.py', ...words);
    const each = [
      'resets ForceOff ForceRestart GracefulShutdown On PowerCycle',
      'boot Pxe Once UEFI',
      'on Disabled',
      'lamp Blinking',
      'cards 52:54:00:aa:00:01',
      'off',
    ];
    // Once with a session, once with the password in each request.
    expect(printed.trim().split('\n')).toEqual([...each, ...each]);
    expect(redfish.bmc.controller.starts).toEqual(['network', 'network']);
  });

  test('redfishtool changes power and the next boot', async () => {
    const tool = resolve('.cache/peers/redfishtool/usr/bin/redfishtool');
    const login = ['-r', `127.0.0.1:${redfish.bmc.port}`, '-u', ADA.user, '-p', ADA.password, '-S', 'Always'];
    const ask = (...words: readonly string[]) =>
      said(python('redfishtool'), tool, ...login, '-I', '1', ...words);
    await ask('Systems', 'setBootOverride', 'Once', 'BiosSetup');
    await ask('Systems', 'reset', 'On');
    expect(JSON.parse(await ask('Systems', 'get'))).toMatchObject({ PowerState: 'On' });
    expect(redfish.bmc.controller.starts.at(-1)).toBe('setup');
    expect(await ask('Chassis', 'Thermal')).toContain('"ReadingCelsius": 24');
    expect(await ask('Chassis', 'Power')).toContain('"PowerConsumedWatts": 180');
    const bmc = await openRedfish({ ...redfish.access, trust: { pin: undefined, pinned: () => {} } });
    expect(await bmc.show('inventory')).toMatchObject({ inventory: { serial: 'A-1' } });
    expect((await bmc.show('sensors')).sensors).toContainEqual({
      ...{ name: 'CPU Temp', kind: 'temperature', value: 47, unit: '°C', state: 'ok' },
    });
    expect((await bmc.show('log')).log?.map(({ text }) => text)).toContain('power: on');
    await bmc.close();
    await ask('Systems', 'reset', 'ForceOff');
    expect(redfish.machine.on).toBe(false);
  });

  test('a fence agent of each protocol turns the machine off, and it comes back', async () => {
    const { env } = unpacked('fence-agents', 'usr/sbin/fence_redfish');
    const places = ['usr/lib/python3/dist-packages', 'usr/share/fence'];
    const own = places.map((place) => resolve('.cache/peers/fence-agents', place)).join(':');
    const agent = { command: 'python3', env: { ...env, PYTHONPATH: own } };
    // Its ipmitool needs other libraries than the agent.
    const wrapped = unpacked('ipmitool', 'usr/bin/ipmitool');
    const wrapper = join(HOME, 'ipmitool');
    const line = `LD_LIBRARY_PATH=${wrapped.env.LD_LIBRARY_PATH} exec ${wrapped.command} "$@"`;
    writeFileSync(wrapper, `#!/bin/sh\n${line}\n`);
    chmodSync(wrapper, 0o755);
    const program = (name: string) => resolve('.cache/peers/fence-agents/usr/sbin', name);
    const own17 = ['-P', '--cipher', '17', '--ipmitool-path', wrapper];
    for (const [name, to, more] of [
      ['fence_redfish', redfish, ['--ssl-insecure']],
      ['fence_ipmilan', ipmi, own17],
    ] as const) {
      const login = ['-a', '127.0.0.1', '-u', `${to.access.port}`, '-l', ADA.user, '-p', ADA.password];
      const fence = (what: string) => said(agent, program(name), ...login, ...more, '-o', what);
      expect(await fence('on')).toContain('Powered ON');
      expect(await fence('off')).toContain('Powered OFF');
      expect(to.machine.on).toBe(false);
    }
  });

  test("Node's own websocket reads and types into the console of each kind", async () => {
    for (const [console, path] of Object.entries(CONSOLES)) {
      const certificate = await certificateOf('127.0.0.1');
      const { bmc, machine } = await virtual('redfish', {
        certificate,
        traits: { console: console as keyof typeof CONSOLES },
      });
      const file = join(HOME, `${console}.pem`);
      writeFileSync(file, certificate.certificate);
      const script = `
        const base = 'https://127.0.0.1:${bmc.port}';
        const login = { UserName: '${ADA.user}', Password: '${ADA.password}' };
        const sessions = base + '/redfish/v1/SessionService/Sessions';
        const answer = await fetch(sessions, { method: 'POST', body: JSON.stringify(login) });
        const headers = { 'x-auth-token': answer.headers.get('x-auth-token') };
        const socket = new WebSocket(base.replace('https', 'wss') + '${path}', { headers });
        socket.binaryType = 'arraybuffer';
        socket.onopen = () => socket.send('hello');
        socket.onmessage = ({ data }) => {
          console.log(Buffer.from(data).toString());
          socket.close();
        };`;
      const words = ['--input-type=module', '-e', script];
      const env = { ...process.env, NODE_EXTRA_CA_CERTS: file };
      expect(await said({ command: process.execPath, env }, ...words)).toContain('hello');
      expect(machine.typed).toBe('hello');
    }
  });

  test('openssl takes the request of a BMC, and then its certificate for its address', async () => {
    const authority = openBmcAuthority(
      openPki({ store: openMemoryStore(), vault: vaultFrom(newVaultKey(), 'test'), clock: systemClock }),
    );
    const { bmc, access } = await virtual('redfish');
    const client = await openRedfish({ ...access, trust: {} });
    const request = await client.certificates!.request();
    const openssl = async (stdin: string, ...words: readonly string[]) => {
      const child = execFile('openssl', words);
      let text = '';
      for (const stream of [child.stdout!, child.stderr!])
        stream.on('data', (part) => {
          text += part;
        });
      child.stdin!.end(stdin);
      await once(child, 'close');
      return text;
    };
    expect(await openssl(request, 'req', '-verify', '-noout', '-text')).toMatch(
      /verify OK.*CN ?= ?bmc.*prime256v1/s,
    );
    const to: Reach = { address: '127.0.0.1', name: 'bmc-1.lab.example', protocol: 'redfish' };
    const { pem } = await authority.sign('node-1', to, request);
    await client.certificates!.replace(pem);
    await client.close();
    const file = join(HOME, 'bmcs.pem');
    writeFileSync(file, await authority.bundle());
    const connecting = ['s_client', '-connect', `127.0.0.1:${bmc.port}`, '-CAfile', file];
    const strictly = ['-verify_return_error', '-x509_strict', '-purpose', 'sslserver'];
    for (const name of [
      ['-verify_ip', '127.0.0.1'],
      ['-verify_hostname', 'bmc-1.lab.example'],
    ])
      expect(await openssl('', ...connecting, ...strictly, ...name)).toContain('Verify return code: 0 (ok)');
    expect(await openssl('', ...connecting, '-verify_hostname', 'muster')).toContain('hostname mismatch');
  });

  test("Muster's own client needs the pinned certificate, and closes its sessions", async () => {
    const few = await virtual('redfish', { traits: { sessions: 1 } });
    let pin: string | undefined;
    const pinned = (seen: string) => {
      pin = seen;
    };
    const open = () => openRedfish({ ...few.access, trust: { pin, pinned } });
    for (let n = 0; n < 3; n++) {
      const bmc = await open();
      expect(await bmc.power()).toBe('off');
      await bmc.close();
    }
    const kept = await open();
    await expect(open()).rejects.toMatchObject({ code: 'sessions-exhausted' });
    await kept.close();
    await few.bmc.changeCertificate();
    await expect(open()).rejects.toMatchObject({ code: 'pin-changed' });
  });
});

test('a machine that is to be installed again is restarted by its BMC, and asks for its boot', async () => {
  bridge('racks', '10.79.0.1/24');
  attach('server', 'racks', '52:54:00:aa:00:79');
  const machine = new PoweredMachine('server');
  machine.on = true;
  const { bmc } = await virtual('redfish', {}, machine);
  const muster = await startMuster(['racks'], installed(bmc.port));
  const command = (...words: string[]) => cli(words, { socket: muster.socket });
  try {
    await connectApi(muster.socket).call('PUT', '/v1/secrets/bmc/password', { body: ADA.password });
    const ordered = await command('machine', 'install', 'node-1', '--release', 'S4EVNF0M', '--restart');
    expect(ordered).toMatchObject({ code: 0, err: '' });
    const event = await muster.event(
      'the end of the order',
      ({ kind, reason }) => kind === 'machine.power' && reason?.code !== 'ordered',
    );
    expect(event.reason).toMatchObject({
      code: 'proved',
      text: expect.stringContaining('its firmware asked for a boot after the order'),
    });
    expect(bmc.controller.orders).toEqual(['cycle']);
    expect(bmc.controller.starts).toEqual(['network']);
  } finally {
    await machine.settled();
    await muster.stop();
    remove(['server'], ['racks']);
  }
});
