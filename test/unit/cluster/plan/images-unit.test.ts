/** Which images a machine has before its kubelet starts, and under which names. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { ResolvedCluster } from '../../../../src/cluster/model/resolved-cluster.ts';
import { imagesLines } from '../../../../src/cluster/plan/images-unit.ts';
import { resolved } from '../kit.ts';

function script(cluster: ResolvedCluster, name: string): string {
  const machine = cluster.machines.find((one) => one.name === name)!;
  const [line] = imagesLines(cluster, machine);
  return line?.do === 'put' && 'text' in line.content ? line.content.text : '';
}

/** What the script pulls on machine `name`, in order. */
const pulled = (cluster: ResolvedCluster, name: string): readonly string[] =>
  /^for image in ([^;]*); do$/m.exec(script(cluster, name))![1]!.split(/[\s\\]+/);

const short = (images: readonly string[]): readonly string[] =>
  images.map((image) => /[^/]+(?=:[^:]*$)/.exec(image)![0]);

test('a control plane pulls etcd first, then the apiserver, since each waits for the one before', () => {
  expect(short(pulled(resolved(), 'cp1'))).toEqual([
    'etcd',
    'kube-apiserver',
    'kube-controller-manager',
    'kube-scheduler',
    'kube-proxy',
    'flannel',
    'flannel-cni-plugin',
  ]);
});

test('a worker pulls the images of every node', () => {
  expect(short(pulled(resolved(), 'w1'))).toEqual(['kube-proxy', 'flannel', 'flannel-cni-plugin']);
});

test('an image with a digest is pulled under that alone, as containerd looks for it', () => {
  const digest = `sha256:${'5'.repeat(64)}`;
  const cluster = resolved({
    overrides: { images: { 'kube-proxy': `proxy.example/kube-proxy:v1@${digest}` } },
  });
  expect(pulled(cluster, 'w1')[0]).toBe(`proxy.example/kube-proxy@${digest}`);
});

test('an image that nobody has keeps none of the others away, and the unit says that it failed', () => {
  const home = mkdtempSync(join(tmpdir(), 'muster-images-'));
  try {
    // Nothing is there yet, and the registry has all but one.
    const crictl = `#!/bin/sh
[ "$1" = pull ] || exit 1
echo "$2" >>${join(home, 'asked')}
case $2 in */etcd:*) exit 1 ;; esac
`;
    writeFileSync(join(home, 'crictl'), crictl, { mode: 0o755 });
    const { status } = spawnSync('sh', ['-c', script(resolved(), 'cp1')], {
      env: { PATH: `${home}:${process.env.PATH}` },
    });
    expect(status).toBe(1);
    expect(readFileSync(join(home, 'asked'), 'utf8').trim().split('\n')).toEqual(pulled(resolved(), 'cp1'));
  } finally {
    rmSync(home, { recursive: true });
  }
});
