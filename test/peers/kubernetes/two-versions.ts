/**
 * A rack of three control planes that have the programs of two versions of Kubernetes: the older
 * runs, and the boot host has the kubelets of both. Runs inside scripts/in-namespace.sh.
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { ARTIFACTS, FORMER_ARTIFACTS } from '../../artifacts.ts';
import { callApi } from '../etcd/api.ts';
import { DEBIAN_13, type Etcd, openRack, type Rack } from '../etcd/rack.ts';
import { unpacked } from '../unpacked.ts';

const PROGRAMS = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler'];
/** What stands for programs that have nothing to do without containers. */
const SCRIPTS: Readonly<Record<string, string>> = {
  containerd: 'exec sleep infinity',
  modprobe: 'exit 0',
  sysctl: 'exit 0',
  // An image is there once it was pulled.
  crictl: `image=$(printf '%s' "$2" | tr /:@ ___)
case $1 in
  inspecti) [ -e "/run/images/$image" ] ;;
  pull) mkdir -p /run/images && : >"/run/images/$image" ;;
esac`,
};

const versionOf = (program: string): string =>
  /\d+\.\d+\.\d+/.exec(execFileSync(program, ['--version'], { encoding: 'utf8' }))![0];

const CLUSTER = `apiVersion: muster/v1
kind: Cluster
metadata: {name: one}
spec:
  trust: segment
  kubernetes:
    version: VERSION
    endpoint: 10.9.0.9
    networks: {machines: [10.9.0.0/24]}
    controlPlanes: [MEMBERS]
    cni: none
    overrides:
      versions: {etcd: ETCD}
      checks: {fsyncMs: 10000, cpus: 1}
`;

export interface TwoVersions {
  readonly rack: Rack;
  readonly from: string;
  readonly to: string;
}

export async function openTwoVersions(): Promise<TwoVersions> {
  const [former, later] = [FORMER_ARTIFACTS!, ARTIFACTS!].map((one) => path.join(one, 'bin')) as [
    string,
    string,
  ];
  const [from, to] = [former, later].map((bin) => versionOf(path.join(bin, 'kube-apiserver'))) as [
    string,
    string,
  ];
  const made = fs.mkdtempSync('/run/programs-');
  const programs: Record<string, string> = { kubectl: path.join(later, 'kubectl') };
  for (const [name, text] of Object.entries(SCRIPTS)) {
    programs[name] = path.join(made, name);
    fs.writeFileSync(programs[name], `#!/bin/sh\n${text}\n`);
  }
  for (const [version, bin] of [
    [from, former],
    [to, later],
  ] as const) {
    for (const name of PROGRAMS) programs[`v${version}/${name}`] = path.join(bin, name);
    const kubelet = path.join(made, `kubelet-${version}`);
    execFileSync('cc', [
      '-O1',
      '-Wall',
      `-DVERSION="v${version}"`,
      '-o',
      kubelet,
      'test/peers/kubernetes/kubelet.c',
    ]);
  }
  programs.etcdctl = unpacked('etcd-client', 'usr/bin/etcdctl').command;
  // Kubernetes wants a newer 3.5 than Debian's.
  const etcd: Etcd = { ...DEBIAN_13, version: '3.5.24-0' };
  const cluster = CLUSTER.replace('VERSION', from);
  const kubelets = path.join(made, 'kubelets');
  const words = [from, to].flatMap((version) => [
    '--binary',
    `kubelet:${version}=${made}/kubelet-${version}`,
  ]);
  execFileSync('bin/muster', ['artifacts', 'pack', kubelets, ...words]);
  const rack = await openRack({ etcd, cluster, programs, diskMiB: 2560, document: 'api' });
  const { code, output } = await rack.muster('artifacts', 'import', kubelets);
  if (code !== 0) throw new Error(output);
  return { rack, from, to };
}

export async function get<T>(rack: Rack, what: string): Promise<T> {
  const { status, text } = await callApi(rack.host.socket, 'GET', `/v1/clusters/one/${what}`);
  if (status !== 200) throw new Error(text);
  return JSON.parse(text) as T;
}
