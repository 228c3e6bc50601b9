/** What kubelet's unit does before kubelet, done by the shell in a directory of its own. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { temporary } from '../../pki/kit.ts';
import { rig, settle, TestMachine } from '../planner-kit.ts';

/** The text after `ExecStartPre=` as sh runs it, with `root` in front of its paths. */
async function before(root: string): Promise<() => string> {
  const { planner } = await rig();
  await settle(planner, new TestMachine('cp1'));
  const plan = await settle(planner, new TestMachine('w1'));
  const unit = plan.lines.find((line) => line.do === 'put' && line.path.endsWith('/kubelet.service'));
  const text = unit?.do === 'put' && 'text' in unit.content ? unit.content.text : '';
  const command = /^ExecStartPre=\/bin\/sh -c '(.*)'$/m.exec(text)?.[1] ?? '';
  const placed = command.replaceAll(/(?<= )\/(run|etc)\//g, `${root}/$1/`);
  for (const directory of ['run', 'etc']) fs.mkdirSync(path.join(root, directory), { recursive: true });
  return () => {
    execFileSync('/bin/sh', ['-c', placed]);
    return fs.readlinkSync(path.join(root, 'run/muster/resolv.conf')).slice(root.length);
  };
}

test("pods ask the machine's own servers: the stub of systemd-resolved is nobody inside a pod", async () => {
  using directory = temporary();
  const root = directory.path;
  const run = await before(root);
  fs.mkdirSync(path.join(root, 'run/systemd/resolve'), { recursive: true });
  fs.writeFileSync(path.join(root, 'run/systemd/resolve/resolv.conf'), 'nameserver 10.0.0.1\n');
  expect(run()).toBe('/run/systemd/resolve/resolv.conf');
});

test('without systemd-resolved pods get /etc/resolv.conf, also when it has gone since', async () => {
  using directory = temporary();
  const root = directory.path;
  const run = await before(root);
  expect(run()).toBe('/etc/resolv.conf');
  expect(run()).toBe('/etc/resolv.conf');
});
