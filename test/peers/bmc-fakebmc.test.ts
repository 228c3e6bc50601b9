/**
 * Muster's client of IPMI with pyghmi's fakebmc, which has cipher suite 3 alone and answers with
 * code that neither OpenIPMI nor Muster has a part in. What ipmitool says of it is the judge.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Bmc } from '../../src/bmc/bmc.ts';
import { openIpmi } from '../../src/bmc/ipmi/client.socket.ts';
import { unpacked } from './unpacked.ts';

const ADMIN = { address: '127.0.0.1', port: 9624, user: 'admin', password: 'password' };
const STARTS_WITHIN_MS = 60_000;

let fakebmc: ChildProcess | undefined;

beforeAll(async () => {
  const { command, env } = unpacked('python3-pyghmi', 'usr/bin/fakebmc');
  fakebmc = spawn('python3', [command, '--port', `${ADMIN.port}`], { env, stdio: 'ignore' });
  // It answers as soon as its socket is bound; a session tries for four seconds.
  const deadline = Date.now() + STARTS_WITHIN_MS;
  let opened: Bmc | undefined;
  while (opened === undefined && Date.now() < deadline) opened = await openIpmi(ADMIN).catch(() => undefined);
  await opened?.close();
}, STARTS_WITHIN_MS + 10_000);
afterAll(() => fakebmc?.kill('SIGKILL'));

/** What ipmitool prints for a command. */
async function ipmitool(...args: readonly string[]): Promise<string> {
  const { command, env } = unpacked('ipmitool', 'usr/bin/ipmitool');
  const { address, user, password, port } = ADMIN;
  const login = ['-I', 'lanplus', '-C', '3', '-H', address, '-p', `${port}`, '-U', user, '-P', password];
  return (await promisify(execFile)(command, [...login, ...args], { env })).stdout;
}

test('a BMC without suite 17 is spoken with by suite 3: power and the next boot are as ipmitool sees them', async () => {
  const bmc = await openIpmi(ADMIN);
  try {
    expect(await bmc.power()).toBe('off');
    await bmc.order('on');
    expect(await ipmitool('chassis', 'power', 'status')).toContain('is on');
    await bmc.bootOnce('network', { uefi: false });
    expect(await ipmitool('chassis', 'bootparam', 'get', '5')).toContain('Force PXE');
    expect((await bmc.boot()).target).toBe('network');
    await ipmitool('chassis', 'power', 'off');
    expect(await bmc.power()).toBe('off');
  } finally {
    await bmc.close();
  }
  await expect(openIpmi({ ...ADMIN, password: 'wrong' })).rejects.toMatchObject({ code: 'password' });
});
