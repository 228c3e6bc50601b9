/**
 * A rack of three control planes with the binaries of Kubernetes (MUSTER_ARTIFACTS): the shipped
 * boot host, real agents, etcd, API servers, controller managers and schedulers; kubelet.ts takes
 * kubelet's place. Runs inside scripts/in-namespace.sh.
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { ARTIFACTS } from '../../artifacts.ts';
import { DEBIAN_13, type Machine, openRack, type Rack } from '../etcd/rack.ts';
import type { Lives } from '../etcd/short-lives.ts';
import { unpacked } from '../unpacked.ts';

const bin = (name: string): string => path.join(ARTIFACTS!, 'bin', name);

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
    pki: {PKI}
    overrides:
      versions: {etcd: ETCD}
      checks: {fsyncMs: 10000, cpus: 1}
`;

const PROGRAMS = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubectl'];
/** Scripts in the place of programs that have nothing to do without containers. */
const SCRIPTS: Readonly<Record<string, string>> = {
  containerd: 'exec sleep infinity',
  modprobe: 'exit 0',
  sysctl: 'exit 0',
  kubelet: 'exec /repo/node_modules/.bin/node /repo/test/peers/kubernetes/kubelet.ts',
};

export interface Kubectl {
  readonly run: (...words: readonly string[]) => string;
  /** The client's certificate and key, PEM. */
  readonly credentials: { readonly cert: string; readonly key: string };
}

export const versionOf = (program: string): string =>
  /\d+\.\d+\.\d+/.exec(execFileSync(bin(program), ['--version'], { encoding: 'utf8' }))![0];

/** How the keys of a rack grow old. */
interface Ageing {
  readonly lives: Lives;
  /** The age at which they rotate themselves. */
  readonly rotateAfter: string;
}

/** A rack of three control planes that are off. Without `ageing` its keys stay as they are. */
export async function openKubernetes(ageing?: Ageing): Promise<Rack> {
  const scripts = fs.mkdtempSync('/run/programs-');
  const programs: Record<string, string> = {};
  for (const [name, text] of Object.entries(SCRIPTS)) {
    programs[name] = path.join(scripts, name);
    fs.writeFileSync(programs[name], `#!/bin/sh\n${text}\n`);
  }
  for (const name of PROGRAMS) programs[name] = bin(name);
  // Members of etcd take snapshots with it.
  programs.etcdctl = unpacked('etcd-client', 'usr/bin/etcdctl').command;
  const pki = ['rehearsal: 10s', ...(ageing ? [`rotateAfter: ${ageing.rotateAfter}`] : [])].join(', ');
  const cluster = CLUSTER.replace('VERSION', versionOf('kube-apiserver')).replace('PKI', pki);
  const etcd = { ...DEBIAN_13, version: '3.5.24-0' };
  return openRack({ etcd, cluster, programs, diskMiB: 768, ...(ageing && { lives: ageing.lives }) });
}

/** How often each program of a machine was told to end. */
export function stops(machine: Machine): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const [, name] of (machine.read('/run/kubelet.pods.log') ?? '').matchAll(/ stop (\S+)/g))
    counts[name!] = (counts[name!] ?? 0) + 1;
  return counts;
}

/** A kubectl with the credentials that an administrator gets now. */
export async function kubectlOf(rack: Rack, at = rack.all[0]!): Promise<Kubectl> {
  const { code, output } = await rack.muster('kubeconfig', 'one');
  if (code !== 0) throw new Error(output);
  const file = path.join(fs.mkdtempSync(path.join(rack.host.home, 'admin-')), 'admin.conf');
  fs.writeFileSync(file, output.replace(/server: \S+/, `server: https://${at.address}:6443`));
  const data = (name: string): string =>
    Buffer.from(new RegExp(`${name}-data: (\\S+)`).exec(output)![1]!, 'base64').toString();
  return {
    run: (...words) =>
      execFileSync(bin('kubectl'), ['--kubeconfig', file, ...words], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'pipe'],
      }),
    credentials: { cert: data('client-certificate'), key: data('client-key') },
  };
}
