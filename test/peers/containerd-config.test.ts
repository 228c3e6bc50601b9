/**
 * Debian's containerd reads the configuration that machines get and has the settings that were
 * meant.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { containerdConfig } from '../../src/cluster/plan/containerd.ts';
import { resolved } from '../unit/cluster/kit.ts';
import { unpacked } from './unpacked.ts';

const { command, env } = unpacked('containerd', 'usr/bin/containerd');
const VERSION = /(\d+\.\d+\.\d+)/.exec(execFileSync(command, ['--version'], { env, encoding: 'utf8' }))![1]!;

/** The lines of the table with this name in containerd's dump, without indentation. */
function table(dump: string, name: string): string[] {
  const lines = dump.split('\n').map((line) => line.trim());
  const from = lines.indexOf(`[${name}]`);
  const to = lines.findIndex((line, n) => n > from && line.startsWith('['));
  return from < 0 ? [] : lines.slice(from + 1, to < 0 ? undefined : to);
}

it('containerd uses the configured pause image, control groups of systemd, mirrors and CNI plugins', () => {
  const cluster = resolved({
    overrides: { versions: { containerd: VERSION }, cniPlugins: '/opt/other/bin' },
  });
  const home = mkdtempSync(join(tmpdir(), 'muster-containerd-'));
  try {
    const file = join(home, 'config.toml');
    writeFileSync(file, containerdConfig(cluster));
    const dump = execFileSync(command, ['--config', file, 'config', 'dump'], { env, encoding: 'utf8' });
    const cri = 'plugins."io.containerd.grpc.v1.cri"';
    expect(table(dump, cri)).toContain(`sandbox_image = "${cluster.images.pause}"`);
    expect(table(dump, `${cri}.registry`)).toContain('config_path = "/etc/containerd/certs.d"');
    expect(table(dump, `${cri}.cni`)).toContain('bin_dir = "/opt/other/bin"');
    const runc = `${cri}.containerd.runtimes.runc`;
    expect(table(dump, runc)).toContain('runtime_type = "io.containerd.runc.v2"');
    expect(table(dump, `${runc}.options`)).toContain('SystemdCgroup = true');
    // A setting that is not in the configuration keeps containerd's default.
    expect(table(dump, `${cri}.containerd`)).toContain('snapshotter = "overlayfs"');
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
});
