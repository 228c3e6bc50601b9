/**
 * Muster's client of IPMI with OpenIPMI's simulator of a BMC, whose chassis is a script of this
 * test. What ipmitool does to the same BMC is the judge: each of both sees what the other did.
 */
import { execFile, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Bmc } from '../../src/bmc/bmc.ts';
import { openIpmi } from '../../src/bmc/ipmi/client.socket.ts';
import { unpacked } from './unpacked.ts';

const HOME = mkdtempSync(join(tmpdir(), 'muster-bmc-'));
const PORT = 9623;
const SERIAL = 9624;
const ADA = { address: '127.0.0.1', port: PORT, user: 'ada', password: 'secret-of-ada' };

/** What the simulator calls to look at the chassis and to change it; one line a call in `calls`. */
const CHASSIS = `#!/bin/sh
cd ${HOME} || exit 1
echo "$*" >>calls
what=$1
shift
case $what in
get) for one in "$@"; do echo "$one:$(cat "$one")"; done ;;
set) while [ $# -gt 1 ]; do echo "$2" >"$1"; shift 2; done ;;
esac
`;
const LAN = `name "sim"
set_working_mc 0x20
startlan 1
  addr 127.0.0.1 ${PORT}
  priv_limit admin
  allowed_auths_admin none md2 md5 straight
  guid a123456789abcdefa123456789abcdef
endlan
sol "tcp:127.0.0.1:${SERIAL}" 115200
chassis_control "${HOME}/chassis"
user 2 true "ada" "secret-of-ada" admin 10 none md2 md5 straight
`;

let simulator: ReturnType<typeof spawn> | undefined;
/** The machine's serial port, which the simulator connects to. */
const serial = createServer((socket) => {
  port = socket;
  socket.on('data', (octets) => (typed += octets));
});
let port: Socket | undefined;
let typed = '';

beforeAll(async () => {
  const write = (name: string, text: string) => writeFileSync(join(HOME, name), text);
  write('chassis', CHASSIS);
  chmodSync(join(HOME, 'chassis'), 0o755);
  await new Promise<void>((done) => serial.listen(SERIAL, '127.0.0.1', done));
  write('lan.conf', LAN);
  write(
    'sim.emu',
    'mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02\nsel_enable 0x20 100 0x0a\nmc_enable 0x20\n',
  );
  write('power', '0');
  write('boot', 'none');
  const { command, env } = unpacked('openipmi', 'usr/bin/ipmi_sim');
  const files = ['-c', join(HOME, 'lan.conf'), '-f', join(HOME, 'sim.emu'), '-s', HOME];
  simulator = spawn(command, ['-n', ...files], { env, stdio: 'ignore' });
  // It answers as soon as its socket is bound; a session tries for four seconds.
  await (await openIpmi(ADA)).close();
});
afterAll(() => {
  simulator?.kill('SIGKILL');
  serial.close();
  rmSync(HOME, { recursive: true, force: true });
});

/** What ipmitool prints for a command. */
async function ipmitool(...args: readonly string[]): Promise<string> {
  const { command, env } = unpacked('ipmitool', 'usr/bin/ipmitool');
  const { address, user, password } = ADA;
  const login = ['-I', 'lanplus', '-C', '3', '-H', address, '-p', `${PORT}`, '-U', user, '-P', password];
  return (await promisify(execFile)(command, [...login, ...args], { env })).stdout;
}

async function asked<T>(ask: (bmc: Bmc) => Promise<T>): Promise<T> {
  const bmc = await openIpmi(ADA);
  try {
    return await ask(bmc);
  } finally {
    await bmc.close();
  }
}
const inChassis = (name: string): string => readFileSync(join(HOME, name), 'utf8').trim();

describe('IPMI 2.0', () => {
  test('power goes on and off, as ipmitool sees it, and the other way round', async () => {
    expect(await asked((bmc) => bmc.power())).toBe('off');
    await asked((bmc) => bmc.order('on'));
    expect(inChassis('power')).toBe('1');
    expect(await ipmitool('chassis', 'power', 'status')).toContain('is on');
    await ipmitool('chassis', 'power', 'off');
    expect(await asked((bmc) => bmc.power())).toBe('off');
  });

  test('its event log and its version are what ipmitool reads there', async () => {
    // Revision, kind of sensor, its number, threshold, above the upper critical one.
    writeFileSync(join(HOME, 'events'), '0x04 0x01 0x30 0x01 0x09 0x50 0x64\n');
    await ipmitool('sel', 'add', join(HOME, 'events'));
    expect(await ipmitool('sel', 'list')).toContain('Upper Critical going high');
    const { log } = await asked((bmc) => bmc.show('log'));
    expect(log).toMatchObject([{ severity: 'critical', text: 'Temperature #48: high, critical' }]);
    expect(await ipmitool('mc', 'info')).toMatch(/Firmware Revision +: 9.08/);
    expect(await asked((bmc) => bmc.show('inventory'))).toMatchObject({
      inventory: { firmware: [{ name: 'BMC', version: '9.08' }] },
    });
    expect(await asked((bmc) => bmc.show('sensors'))).toEqual({ sensors: [] });
  });

  test('a machine resets, and shuts its system down', async () => {
    await asked((bmc) => bmc.order('reset'));
    expect(existsSync(join(HOME, 'reset'))).toBe(true);
    await asked((bmc) => bmc.order('shut-down'));
    expect(existsSync(join(HOME, 'shutdown'))).toBe(true);
  });

  test('the next boot comes from where it is told to, which both read back', async () => {
    await asked((bmc) => bmc.bootOnce('network', { uefi: false }));
    expect(inChassis('boot')).toBe('pxe');
    expect(await ipmitool('chassis', 'bootparam', 'get', '5')).toContain('Force PXE');
    await ipmitool('chassis', 'bootdev', 'disk');
    expect((await asked((bmc) => bmc.boot())).persistent).toBe(false);
    await asked((bmc) => bmc.bootOnce('none', { uefi: false }));
    expect(inChassis('boot')).toBe('none');
  });

  test('the serial console carries what the machine prints, and what is typed into it', async () => {
    const bmc = await openIpmi(ADA);
    let shown = '';
    const console = await bmc.console!({
      printed: (octets) => (shown += octets),
      ended: () => {},
      take: true,
    });
    await expect.poll(() => port).toBeDefined();
    const boot = Array.from({ length: 300 }, (_, n) => `line ${n} of the firmware\r\n`).join('');
    port!.write(boot);
    await expect.poll(() => shown, { timeout: 10_000 }).toBe(boot);
    const words = 'setenv '.repeat(100);
    expect(console.type(Buffer.from(words))).toBe(true);
    await expect.poll(() => typed, { timeout: 10_000 }).toBe(words);
    expect(await bmc.power()).toBe('off');
    const other = await openIpmi(ADA);
    await expect(other.console!({ printed: () => {}, ended: () => {} })).rejects.toMatchObject({
      code: 'busy',
    });
    await console.close();
    const again = await other.console!({ printed: () => {}, ended: () => {} });
    await again.close();
    await Promise.all([bmc.close(), other.close()]);
  });

  test('an account that Muster makes opens a session, gets a new password, and is switched off', async () => {
    const own = { user: 'muster', password: 'Sixteen-octets-1' };
    const opens = (password: string) =>
      openIpmi({ ...ADA, ...own, password }).then(async (bmc) => {
        await bmc.close();
        return true;
      });
    await asked((bmc) => bmc.setAccount(own));
    expect(await ipmitool('user', 'list', '1')).toMatch(/3 +muster .*ADMINISTRATOR/);
    expect(await ipmitool('user', 'test', '3', '16', own.password)).toContain('Success');
    expect(await opens(own.password)).toBe(true);
    await asked((bmc) => bmc.setAccount({ ...own, password: 'Sixteen-octets-2' }));
    await expect(opens(own.password)).rejects.toMatchObject({ code: 'password' });
    expect(await opens('Sixteen-octets-2')).toBe(true);
    await asked((bmc) => bmc.switchOff('muster'));
    await expect(opens('Sixteen-octets-2')).rejects.toThrow();
  });

  test('a wrong password and a stranger get no session, and the BMC none of the password', async () => {
    await expect(openIpmi({ ...ADA, password: 'wrong' })).rejects.toMatchObject({ code: 'password' });
    await expect(openIpmi({ ...ADA, user: 'eve' })).rejects.toMatchObject({ code: 'password' });
  });

  test('sessions are closed: more than the BMC has room for follow each other', async () => {
    for (let n = 0; n < 70; n++) expect(await asked((bmc) => bmc.power())).toBe('off');
  });

  test('commands in one session at the same time get their own answers', async () => {
    const answers = await asked((bmc) => Promise.all(Array.from({ length: 90 }, () => bmc.power())));
    expect(new Set(answers)).toEqual(new Set(['off']));
  });
});
