/**
 * What a component of a cluster reads when it starts: its final flags, and its files with keys that
 * are thrown away. A component that is asked about its values sees these files and no others.
 */
import { createHash } from 'node:crypto';
import path from 'node:path';
import { systemClock } from '../../base/clock.ts';
import { duration, type Millis } from '../../base/duration.ts';
import { ENCRYPTION, encryptionConfig } from '../../pki/encryption.ts';
import { PrivateKey } from '../../pki/keys.ts';
import { kubeconfigText } from '../../pki/kubeconfig.ts';
import { selfSign } from '../../pki/x509.ts';
import {
  addressOf,
  type ClusterMachine,
  COMPONENTS,
  type ResolvedCluster,
  withRole,
} from '../model/resolved-cluster.ts';
import { kubeProxyFiles } from '../objects/kube-proxy.ts';
import { apiserverLines } from '../plan/apiserver.ts';
import { kubeletFiles } from '../plan/kubelet.ts';
import { commandLine } from '../plan/manifests.ts';

export const JUDGED = [...COMPONENTS, 'kube-proxy'] as const;
/** A component that is asked about its values. */
export type Judged = (typeof JUDGED)[number];

/** A component on one machine of a cluster, with what it reads there. */
export interface Placed {
  readonly component: Judged;
  readonly machine: string;
  readonly flags: readonly string[];
  /** Absolute path → text; without the keys, certificates and directories that flags name. */
  readonly files: ReadonlyMap<string, string>;
}

/**
 * The components of a cluster on the machines that differ in what they read: a control plane, a
 * member of etcd and a worker.
 */
export function placedIn(resolved: ResolvedCluster): readonly Placed[] {
  const [controlPlane] = withRole(resolved, 'control-plane');
  const [member] = withRole(resolved, 'etcd');
  const nodes = [controlPlane, withRole(resolved, 'worker')[0]].filter((one) => one !== undefined);
  const machinesOf = (component: Judged): readonly (ClusterMachine | undefined)[] => {
    if (component === 'kubelet') return nodes;
    if (component === 'kube-proxy' && resolved.serviceProxy === 'none') return [];
    return [component === 'etcd' ? member : controlPlane];
  };
  return JUDGED.flatMap((component) =>
    machinesOf(component)
      .flatMap((machine) => machine ?? [])
      .map((machine) => ({
        component,
        machine: machine.name,
        flags: flagsOf(resolved, component, machine),
        files: filesOf(resolved, component, machine),
      })),
  );
}

function flagsOf(resolved: ResolvedCluster, component: Judged, machine: ClusterMachine): readonly string[] {
  if (component === 'kube-proxy')
    return ['--config=/var/lib/kube-proxy/config.conf', `--hostname-override=${machine.name}`];
  const members = withRole(resolved, 'etcd').map((one) => ({ name: one.name, address: addressOf(one) }));
  return commandLine(resolved.flags[component], machine, { state: 'new', token: 'judge', members });
}

function filesOf(
  resolved: ResolvedCluster,
  component: Judged,
  machine: ClusterMachine,
): ReadonlyMap<string, string> {
  if (component === 'kube-proxy')
    return new Map(
      Object.entries(kubeProxyFiles(resolved)).map(([name, text]) => [`/var/lib/kube-proxy/${name}`, text]),
    );
  // The boot host's cgroups say nothing about the machine's, and no program sees them.
  if (component === 'kubelet')
    return new Map(
      kubeletFiles(resolved, machine).map(({ path: file, text }) => [
        file,
        file.endsWith('/config.yaml')
          ? `${text.replace(/^failCgroupV1: .*\n/m, '')}failCgroupV1: false\n`
          : text,
      ]),
    );
  if (component !== 'kube-apiserver') return new Map();
  const lines = apiserverLines(resolved, machine).flatMap((line): (readonly [string, string])[] =>
    line.do === 'put' && 'text' in line.content ? [[line.path, line.content.text]] : [],
  );
  return new Map([...lines, [ENCRYPTION.path, encryptionConfig(undefined, false)]]);
}

/** Names what a component reads, for comparing and for remembering a verdict. */
export const digestOf = ({ component, flags, files }: Placed): string =>
  createHash('sha256')
    .update(JSON.stringify([component, flags, [...files]]))
    .digest('hex');

/** How many paths of flags and files become files; Muster's own flags name some twenty. */
const MOST_PATHS = 200;

/**
 * The paths that flags and files name, and that are none of the files. A path never leaves the
 * root: it is made absolute, and its dots are resolved.
 */
export function namedIn({ flags, files }: Placed): ReadonlySet<string> {
  const named = [...flags, ...files.values()].join('\n').match(/(?<=[="' ])\/[^\s"',]+/g) ?? [];
  const own = new Set([...files.keys()].map(inside));
  return new Set(
    named
      .map(inside)
      .filter((file) => !own.has(file))
      .slice(0, MOST_PATHS),
  );
}

const inside = (file: string): string => path.posix.normalize(`/${file}`);

/** All files of a component; directories that it needs have no text. */
export async function wholeOf(placed: Placed): Promise<ReadonlyMap<string, string | undefined>> {
  const credentials = await throwaway();
  const made = [...namedIn(placed)].map((file): [string, string | undefined] => {
    const text = madeUp(file, credentials);
    return [text === undefined && path.extname(file) !== '' ? path.dirname(file) : file, text];
  });
  return new Map([
    ...made,
    ...[...placed.files].map(([file, text]): [string, string] => [inside(file), text]),
  ]);
}

const DAY = duration('1d');

type Credentials = Readonly<Record<'key' | 'publicKey' | 'certificate' | 'kubeconfig', string>>;

/** A key with its own CA certificate, for everything that a component reads. */
async function throwaway(): Promise<Credentials> {
  const key = await PrivateKey.generate('ECDSA-P256');
  const now = systemClock.now();
  const { pem } = await selfSign(
    {
      subject: { commonName: 'judge' },
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
    cluster: 'judge',
    server: 'https://127.0.0.1:6443',
    caBundle: pem,
    user: 'judge',
    credential: { kind: 'embedded', certificate: pem, key },
  });
  return { key: key.pem(), publicKey: key.publicKey().pem(), certificate: pem, kubeconfig };
}

/** A file that Muster's PKI or a Secret would bring, by the end of its name; else a directory. */
function madeUp(file: string, { key, publicKey, certificate, kubeconfig }: Credentials): string | undefined {
  if (/\.key$/.test(file)) return key;
  if (/\.pub$/.test(file)) return publicKey;
  if (/client.*\.pem$/.test(file)) return certificate + key;
  if (/\.(crt|pem)$/.test(file)) return certificate;
  if (/\.conf$/.test(file)) return kubeconfig;
  return /[./]token$/.test(file) ? 'token' : undefined;
}
