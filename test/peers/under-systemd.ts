/**
 * Runs a script as the first process of new namespaces, where it starts its own systemd. Needs root
 * and scripts/in-namespace.sh.
 */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { vi } from 'vitest';

const NAMESPACES = 'unshare --net --mount --pid --ipc --uts --cgroup --fork --kill-child --mount-proc';

/**
 * The mount point of cgroup v2, on hosts with only v2 and on hosts with both versions.
 */
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

/**
 * Runs `script` of this directory with `words`; returns the output of it and its systemd. Kills it
 * after `seconds`.
 */
export async function underSystemd(script: string, words: readonly string[], seconds = 90): Promise<string> {
  const group = path.join(cgroupRoot(), `muster-test-${process.pid}-${script.replace(/\W/g, '-')}`);
  fs.mkdirSync(group);
  const guest = path.join(import.meta.dirname, script);
  const enter = `echo $$ >"$0"/cgroup.procs && exec ${NAMESPACES} sh "$@"`;
  const limited = ['-k', '2', String(seconds), 'sh', '-c', enter, group, guest, ...words];
  const done = spawnSync('timeout', limited, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  await removeGroup(group);
  return done.stdout + done.stderr;
}
