/**
 * Secrets on their way to a machine outside of clusters: documents, first configuration, ticket,
 * the real agent under both shells with curl, openssl and chpasswd, and back as a tag.
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { newSalt, sha512Crypt } from '../../src/pki/password-hash.ts';
import {
  document,
  IMAGE,
  MAC3,
  machine as machineDocument,
  NETWORK,
  WORKER,
} from '../unit/pxe/boot/world.ts';
import * as bootHost from './agent-boot-host.ts';
import { Machine, SHELLS } from './agent-kit.ts';

const TOKEN = 'a-token-that-nobody-else-uses-7d21\n';
const HASH = sha512Crypt('a password', newSalt());

const DOCUMENTS = [
  NETWORK,
  IMAGE,
  WORKER,
  document('Profile', 'app', {
    image: 'debian',
    config: {
      users: [{ name: 'ops', passwordHash: { valueFrom: { secret: 'admin', key: 'hash' } } }],
      files: [
        {
          path: '/etc/app-of/${machine.name}/token',
          mode: '0640',
          owner: 'daemon',
          group: 'adm',
          content: { valueFrom: { secret: 'app', key: 'token' } },
        },
      ],
    },
  }),
  machineDocument('alone', [MAC3], { profile: 'app' }),
];
const FILE = '/etc/app-of/alone/token';

let host: bootHost.AgentBootHost;
let machine: Machine;
let userData: string;

beforeEach(async () => {
  host = await bootHost.open(DOCUMENTS);
  await host.given.put('app', 'token', Buffer.from(TOKEN));
  await host.given.put('admin', 'hash', Buffer.from(`${HASH}\n`));
  const { session, ticket } = await host.configured(MAC3);
  const served = host.boot.config(session, 'user-data', {
    baseUrl: 'http://10.77.0.1:8080',
    peer: host.leases.get(MAC3)!,
  });
  if (!served.ok) throw new Error(served.why);
  userData = served.body;
  const { authority } = host.settings.get('alone')!;
  const url = `https://127.0.0.1:${host.agents.port()}`;
  machine = new Machine({ url, authority, ticket }, { machine: 'alone', session });
  machine.write('/etc/passwd', 'root:x:0:0::/root:/bin/sh\nops:x:1000:1000::/home/ops:/bin/sh\n');
  machine.write('/etc/shadow', 'root:*:19000:0:99999:7:::\nops:!:19000:0:99999:7:::\n');
});

afterEach(async () => {
  machine.close();
  await host.close();
});

const status = () => host.roster.get('alone')!.status.agent!;
const poll = async (shell = SHELLS[0] as readonly string[]) => {
  expect(await machine.poll(shell)).toMatchObject({ status: 0 });
};

describe.for(SHELLS)('by %s', (shell) => {
  test('a machine without a cluster gets its file and its password by its agent, and reports their tags', async () => {
    await poll(shell);
    expect(machine.read(FILE)).toBe(TOKEN);
    expect(machine.mode(FILE)).toBe('640');
    expect(String(execFileSync('stat', ['-c', '%U:%G', machine.path(FILE)]))).toBe('daemon:adm\n');
    expect(machine.read('/etc/shadow')).toContain(`ops:${HASH}:`);
    expect(machine.read('/etc/shadow')).toMatch(/^root:\*:/);
    await poll(shell);
    expect(status().secrets).toEqual({
      'admin:hash': host.given.tag('alone', 'admin', 'hash'),
      'app:token': host.given.tag('alone', 'app', 'token'),
    });
    const said = JSON.stringify([host.events.list({}), host.roster.list()]);
    for (const secret of [TOKEN.trim(), HASH]) {
      expect(userData).not.toContain(secret);
      expect(said).not.toContain(secret);
      expect(host.boot.render('alone').files['user-data']).not.toContain(secret);
    }
    expect(userData).toContain('muster-agent.sh');
    expect(userData).not.toContain(FILE);
  });

  test('a new value replaces the old one, which the machine is known to have until then', async () => {
    await poll(shell);
    await poll(shell);
    const before = status().secrets!['app:token'];
    const inode = fs.statSync(machine.path('/etc/shadow')).ino;
    await host.given.put('app', 'token', Buffer.from('the next'));
    expect(status().secrets!['app:token']).toBe(before);
    expect(host.given.tag('alone', 'app', 'token')).not.toBe(before);
    await poll(shell);
    expect(machine.read(FILE)).toBe('the next');
    expect(fs.statSync(machine.path('/etc/shadow')).ino).toBe(inode);
    await poll(shell);
    expect(status().secrets!['app:token']).toBe(host.given.tag('alone', 'app', 'token'));
  });
});

test('a file that a user changed, or that has another owner, gets the value again', async () => {
  await poll();
  fs.writeFileSync(machine.path(FILE), 'changed');
  machine.reboot();
  await poll();
  expect(machine.read(FILE)).toBe(TOKEN);
  fs.chownSync(machine.path(FILE), 0, 0);
  machine.reboot();
  await poll();
  expect(String(execFileSync('stat', ['-c', '%U:%G', machine.path(FILE)]))).toBe('daemon:adm\n');
});

test('no value is on a command line or in a file below /run', async () => {
  const log = machine.path('/argv');
  for (const name of ['curl', 'cp', 'mv', 'tar', 'chpasswd', 'chown', 'sha256sum', 'sync']) {
    const real = ['/usr/bin', '/bin', '/usr/sbin']
      .map((at) => path.join(at, name))
      .find((at) => fs.existsSync(at))!;
    machine.command(name, `#!/bin/sh\nprintf '%s\\n' "$*" >>"${log}"\nexec ${real} "$@"\n`);
  }
  await poll();
  const argv = fs.readFileSync(log, 'utf8');
  expect(argv).toContain('/agent/redeem');
  for (const name of fs.readdirSync(machine.path('/run/muster'), { recursive: true, encoding: 'utf8' })) {
    const full = machine.path(`/run/muster/${name}`);
    if (fs.statSync(full).isFile()) expect(fs.readFileSync(full, 'utf8')).not.toMatch(/a-token-that|\$6\$/);
  }
  for (const secret of [TOKEN.trim(), HASH]) expect(argv).not.toContain(secret);
});

test('a Secret that is missing holds its machine with the command that writes it, and the rest is done', async () => {
  await host.given.remove('admin');
  await machine.poll();
  expect(machine.read(FILE)).toBe(TOKEN);
  await machine.poll();
  expect(status().hold).toEqual({
    code: 'secret-missing',
    text: 'Secret admin has no key hash; `muster secret put admin hash` writes it.',
  });
  expect(Object.keys(status().secrets!)).toEqual(['app:token']);
  await host.given.put('admin', 'hash', Buffer.from(HASH));
  await poll();
  expect(machine.read('/etc/shadow')).toContain(`ops:${HASH}:`);
});

test('a machine whose documents refer to no Secret any more is refused, as one that left its cluster is', async () => {
  await poll();
  await host.catalog.apply([machineDocument('alone', [MAC3], { profile: 'worker' })]);
  expect((await machine.poll()).status).toBe(1);
  expect(host.events.list({ subject: 'alone' }).map(({ reason }) => reason?.code)).toContain('no_cluster');
});
