/** Which images a machine has before its kubelet starts, and under which names. */
import { expect, test } from 'vitest';
import { imagesLines } from '../../../src/cluster/content/images-unit.ts';
import type { FullCluster } from '../../../src/cluster/full.ts';
import { full } from './kit.ts';

/** What the script pulls on machine `name`, in order. */
function pulled(cluster: FullCluster, name: string): readonly string[] {
  const machine = cluster.machines.find((one) => one.name === name)!;
  const [script] = imagesLines(cluster, machine);
  const text = script?.do === 'put' && 'text' in script.content ? script.content.text : '';
  return /^for image in (.*); do /m.exec(text)![1]!.split(' ');
}

const short = (images: readonly string[]): readonly string[] =>
  images.map((image) => /[^/]+(?=:[^:]*$)/.exec(image)![0]);

test('a control plane pulls etcd first, then the apiserver, since each waits for the one before', () => {
  expect(short(pulled(full(), 'cp1'))).toEqual([
    'etcd',
    'kube-apiserver',
    'kube-controller-manager',
    'kube-scheduler',
    'kube-proxy',
    'flannel',
    'flannel-cni-plugin',
  ]);
});

test('a worker pulls what runs on every node', () => {
  expect(short(pulled(full(), 'w1'))).toEqual(['kube-proxy', 'flannel', 'flannel-cni-plugin']);
});

test('an image with a digest is pulled under that alone, as containerd looks for it', () => {
  const digest = `sha256:${'5'.repeat(64)}`;
  const cluster = full({ overrides: { images: { 'kube-proxy': `proxy.example/kube-proxy:v1@${digest}` } } });
  expect(pulled(cluster, 'w1')[0]).toBe(`proxy.example/kube-proxy@${digest}`);
});
