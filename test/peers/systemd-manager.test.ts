/**
 * The unit as it is shipped under a real systemd: sandbox, sockets by the generator, reload, restart, activation. In namespaces
 * of its own with the host's file system read-only (systemd-guest.sh). Root, inside scripts/in-namespace.sh.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-manager-'));
const facts = new Map<string, string>();
let everything = '';

/** Where control groups of the second version are, on hosts that have only those and on those that have both. */
function cgroupRoot(): string {
  const line = fs
    .readFileSync('/proc/mounts', 'utf8')
    .split('\n')
    .find((mount) => mount.split(' ')[2] === 'cgroup2');
  if (!line) throw new Error('no cgroup2 file system is mounted; systemd needs one');
  return line.split(' ')[1]!;
}

/** Removes a control group, children first. Its last processes may take a moment to be gone. */
async function removeGroup(group: string): Promise<void> {
  for (const entry of fs.readdirSync(group, { withFileTypes: true }))
    if (entry.isDirectory()) await removeGroup(path.join(group, entry.name));
  await vi.waitFor(() => fs.rmdirSync(group), { timeout: 10_000, interval: 100 });
}

beforeAll(async () => {
  fs.chmodSync(dir, 0o755);
  execFileSync('make', ['install', `DESTDIR=${dir}`], { stdio: ['ignore', 'ignore', 'inherit'] });
  const group = path.join(cgroupRoot(), `muster-test-${process.pid}`);
  fs.mkdirSync(group);
  const guest = path.join(import.meta.dirname, 'systemd-guest.sh');
  const namespaces = 'unshare --net --mount --pid --ipc --uts --cgroup --fork --kill-child --mount-proc';
  const done = spawnSync(
    'timeout',
    [
      '-k',
      '2',
      '90',
      'sh',
      '-c',
      `echo $$ >"$0"/cgroup.procs && exec ${namespaces} sh "$1" "$2"`,
      group,
      guest,
      dir,
    ],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] },
  );
  await removeGroup(group);
  everything = done.stdout + done.stderr;
  const probe = /=== probe\n([\s\S]*?)\nEND/.exec(everything)?.[1] ?? '';
  for (const line of probe.split('\n')) {
    const at = line.indexOf(': ');
    if (at > 0) facts.set(line.slice(0, at), line.slice(at + 2).trim());
  }
}, 120_000);

afterAll(() => fs.rmSync(dir, { recursive: true, force: true }));

const fact = (name: string): string => {
  const value = facts.get(name);
  if (value === undefined) throw new Error(`the probe did not get to "${name}"; all it said:\n${everything}`);
  return value;
};

describe('the service under systemd', () => {
  it('starts in its sandbox, without a capability, and reports what it serves', () => {
    expect(fact('state')).toBe('active');
    expect(fact('status')).toMatch(/^1 networks/);
    expect(fact('uid')).toBe('muster');
    expect(fact('capabilities')).toBe('0000000000000000 0000000000000000');
    expect(fact('seccomp')).toBe('2');
  });

  it('has its sockets from the manager, bound to the interface', () => {
    expect(fact('bound')).toBe('rack0:4011 rack0:67 rack0:69');
    expect(fact('http')).toBe('200');
  });

  it('is ready for operators of its group', () => {
    expect(fact('socket')).toBe('660 muster muster');
    expect(fact('muster')).toMatch(/^muster [0-9.]+: ready/);
  });

  it('reloads, and says so when a document is invalid', () => {
    expect(fact('reload')).toBe('0');
    expect(fact('reload of nonsense')).not.toBe('0');
  });

  it('stops well, and is started again by the next machine that asks', () => {
    expect(fact('stopped')).toBe('inactive success');
    expect(fact('http starts it')).toBe('200 active');
  });

  it('listens on another interface after daemon-reload and restart', () => {
    expect(fact('with another interface')).toBe('0 3');
  });
});
