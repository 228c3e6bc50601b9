/**
 * `muster cluster check --with-binaries`: starts each component of a cluster with its final flags
 * and files, with keys that are thrown away, until it has read them. A component runs as nobody in
 * a network of its own and writes below a temporary directory, so it reaches and changes nothing.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { duration, type Millis } from '../../base/duration.ts';
import {
  addressOf,
  type ClusterMachine,
  COMPONENTS,
  type Component,
  type ResolvedCluster,
  withRole,
} from '../../cluster/model/resolved-cluster.ts';
import { apiserverLines } from '../../cluster/plan/apiserver.ts';
import { kubeletFiles } from '../../cluster/plan/kubelet.ts';
import { commandLine } from '../../cluster/plan/manifests.ts';
import { ENCRYPTION, encryptionConfig } from '../../pki/encryption.ts';
import { PrivateKey } from '../../pki/keys.ts';
import { kubeconfigText } from '../../pki/kubeconfig.ts';
import { selfSign } from '../../pki/x509.ts';

/** What a component said to its flags. */
export interface Verdict {
  readonly component: Component;
  readonly machine: string;
  /** missing: there is no binary. */
  readonly says: 'taken' | 'refused' | 'missing';
  /** Why it refuses them, in its own words. */
  readonly text: string;
}

/** How long a component that does not end is watched. It refuses flags in the first second. */
const WATCHED_MS = 10_000;

/** Ends that come from the sandbox, which has no network, no etcd, no API and no cgroups. */
const OF_THE_SANDBOX =
  /context deadline exceeded|connection refused|network is unreachable|no route to host|cannot assign requested address|cgroup|permission denied|operation not permitted|containerd\.sock|crio\.sock|node IP|failed to get API group resources|unable to get configmap|unable to load configmap|\/dev\/kmsg|oom_score_adj|swap|read-only file system/i;

/** kubelet's fault where this host has cgroups of version 1, alone or in a list of faults. */
const CGROUP_1 = /kubelet is configured to not run on a host using cgroup v1[^,\]]*/;

function isOfTheSandbox(text: string): boolean {
  const [, faults] = /failed to validate kubelet configuration, error: \[?(.*?)\]?, path:/.exec(text) ?? [];
  if (faults !== undefined) return faults.replace(CGROUP_1, '').replace(/[\s,]+/g, '') === '';
  return OF_THE_SANDBOX.test(text);
}

/** The machines that differ in flags: a control plane, a member of etcd and a worker. */
function placesOf(resolved: ResolvedCluster): readonly (readonly [Component, ClusterMachine])[] {
  const [controlPlane] = withRole(resolved, 'control-plane');
  const [member] = withRole(resolved, 'etcd');
  const nodes = [controlPlane, withRole(resolved, 'worker')[0]].filter((one) => one !== undefined);
  return COMPONENTS.flatMap((component): readonly (readonly [Component, ClusterMachine])[] => {
    if (component === 'kubelet') return nodes.map((machine) => [component, machine] as const);
    const machine = component === 'etcd' ? member : controlPlane;
    return machine === undefined ? [] : [[component, machine]];
  });
}

/**
 * Starts each component of the cluster that has a binary in `bin`, all at once.
 *
 * @param bin A directory with etcd, kube-apiserver and so on.
 * @param only The components to start; absent: all.
 */
export const judgeBinaries = (
  resolved: ResolvedCluster,
  bin: string,
  only: readonly Component[] = COMPONENTS,
): Promise<readonly Verdict[]> =>
  Promise.all(
    placesOf(resolved)
      .filter(([component]) => only.includes(component))
      .map(async ([component, machine]): Promise<Verdict> => {
        const binary = path.resolve(bin, component);
        const of = { component, machine: machine.name };
        if (!fs.existsSync(binary)) return { ...of, says: 'missing', text: `there is no ${binary}` };
        return { ...of, ...(await judge(resolved, component, machine, binary)) };
      }),
  );

async function judge(
  resolved: ResolvedCluster,
  component: Component,
  machine: ClusterMachine,
  binary: string,
): Promise<Pick<Verdict, 'says' | 'text'>> {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-check-'));
  try {
    const flags = await place(root, resolved, component, machine);
    const { ended, output } = await run(root, [binary, ...flags]);
    if (!ended) return { says: 'taken', text: '' };
    const last = lastWords(output);
    return isOfTheSandbox(last) ? { says: 'taken', text: '' } : { says: 'refused', text: last };
  } finally {
    fs.rmSync(root, { recursive: true, force: true });
  }
}

/** Writes a component's files below `root`, and returns its flags with `root` in their paths. */
async function place(
  root: string,
  resolved: ResolvedCluster,
  component: Component,
  machine: ClusterMachine,
): Promise<readonly string[]> {
  const members = withRole(resolved, 'etcd').map((one) => ({ name: one.name, address: addressOf(one) }));
  const founding = { state: 'new', token: 'check', members } as const;
  const placed = (text: string): string =>
    text.replace(/(?<![\w.])\/(etc|var|run|srv|opt)\/(?!ssl\/certs)/g, `${root}/$1/`);
  const write = (file: string, text: string): void => {
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, text);
  };
  const files = kubeletFiles(resolved, machine).map(({ path: file, text }) => [file, text] as const);
  const lines = apiserverLines(resolved, machine).flatMap((line) =>
    line.do === 'put' && 'text' in line.content ? [[line.path, line.content.text] as const] : [],
  );
  for (const [file, text] of [...files, ...lines]) write(path.join(root, file), placed(text));
  write(path.join(root, ENCRYPTION.path), encryptionConfig(undefined, false));
  const flags = commandLine(resolved.flags[component], machine, founding).map(placed);
  const texts = [...flags, ...[...files, ...lines].map(([, text]) => placed(text))].join('\n');
  const credentials = await throwaway();
  for (const file of new Set(texts.match(/(?<=[="' ])\/[^\s"',]+/g) ?? []))
    if (file.startsWith(`${root}/`) && !fs.existsSync(file)) writeMissing(file, write, credentials);
  return flags;
}

const DAY = duration('1d');

type Credentials = Readonly<Record<'key' | 'publicKey' | 'certificate' | 'kubeconfig', string>>;

/** A key with its own CA certificate, for everything that a component reads. */
async function throwaway(): Promise<Credentials> {
  const key = await PrivateKey.generate('ECDSA-P256');
  const now = Date.now();
  const { pem } = await selfSign(
    {
      subject: { commonName: 'check' },
      sans: { dns: ['localhost'], ips: [] },
      publicKey: key.publicKey(),
      purposes: [],
      ca: true,
      notBefore: (now - DAY) as Millis,
      notAfter: (now + DAY) as Millis,
    },
    key,
  );
  const kubeconfig = kubeconfigText({
    cluster: 'check',
    server: 'https://127.0.0.1:6443',
    caBundle: pem,
    user: 'check',
    credential: { kind: 'embedded', certificate: pem, key },
  });
  return { key: key.pem(), publicKey: key.publicKey().pem(), certificate: pem, kubeconfig };
}

/** A file that Muster's PKI or a Secret would bring, by the end of its name; else a directory. */
function writeMissing(
  file: string,
  write: (file: string, text: string) => void,
  { key, publicKey, certificate, kubeconfig }: Credentials,
): void {
  if (/\.key$/.test(file)) write(file, key);
  else if (/\.pub$/.test(file)) write(file, publicKey);
  else if (/\.crt$/.test(file)) write(file, certificate);
  else if (/client.*\.pem$/.test(file)) write(file, certificate + key);
  else if (/\.conf$/.test(file)) write(file, kubeconfig);
  else if (/\.token$/.test(file)) write(file, 'token');
  else fs.mkdirSync(path.extname(file) === '' ? file : path.dirname(file), { recursive: true });
}

/**
 * How programs begin the line that says what is wrong with a flag, why they end, and anything else.
 * Connections that fail meanwhile may log after the line that says why a program ends.
 */
const COMPLAINTS = [
  /flag provided but not defined|unknown flag|invalid argument|invalid value|unknown shorthand/,
  /"command failed"|^Error:|^F\d{4}/i,
  /failed|error/i,
];

/** What a program says about its end, without its usage. */
function lastWords(output: string): string {
  const lines = output.split('\n').filter((line) => line.trim() !== '');
  const [flags, ends, others] = COMPLAINTS.map((complaint) => lines.filter((line) => complaint.test(line)));
  const last = flags?.[0] ?? ends?.at(-1) ?? others?.at(-1) ?? lines.at(-1);
  return (last ?? 'it ended without a word').slice(0, 600);
}

/** Runs a program as nobody, in a network of its own, until it ends or was watched long enough. */
async function run(
  root: string,
  command: readonly string[],
): Promise<{ readonly ended: boolean; readonly output: string }> {
  const isRoot = process.getuid?.() === 0;
  const log = path.join(root, 'output');
  const out = fs.openSync(log, 'w');
  if (isRoot)
    for (const file of ['', ...fs.readdirSync(root, { recursive: true })])
      fs.lchownSync(path.join(root, String(file)), NOBODY, NOBODY);
  const asNobody = isRoot ? ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'] : [];
  const [program = '', ...args] = [
    ...asNobody,
    'unshare',
    '--user',
    '--map-root-user',
    '--net',
    '--',
    ...command,
  ];
  const child: ChildProcess = spawn(program, args, {
    cwd: root,
    env: { PATH: process.env.PATH ?? '', HOME: root },
    stdio: ['ignore', out, out],
    detached: true,
  });
  fs.closeSync(out);
  const ended = new Promise<boolean>((resolve, reject) => {
    child.once('exit', () => resolve(true));
    child.once('error', reject);
  });
  const stop = new AbortController();
  const first = await Promise.race([ended, pause(WATCHED_MS, false, { signal: stop.signal })]);
  stop.abort();
  if (!first && child.pid !== undefined) {
    process.kill(-child.pid, 'SIGKILL');
    await ended;
  }
  return { ended: first, output: fs.readFileSync(log, 'utf8') };
}

/** The user nobody, with the same number on all distributions. */
const NOBODY = 65534;
