/**
 * CRI-O instead of containerd: cgroups by systemd, the pause image, mirrors. Written after
 * crio.conf(5), containers-registries.conf(5) and containers-certs.d(5); CRI-O reads drop-ins after
 * its own defaults, so that only what differs from them is said.
 */
import type { PlanLine } from '../../agent/plan.ts';
import { parseReference } from '../../artifacts/reference.ts';
import type { ResolvedCluster } from '../spec/resolved-cluster.ts';
import { crictlLine, networkLines } from './cri.ts';
import { digestOf, put, sections } from './lines.ts';

const CONFIG = '/etc/crio/crio.conf.d/90-muster.conf';
const POLICY = '/etc/crio/policy.json';
const REGISTRIES = '/etc/containers/registries.conf.d/90-muster.conf';
const UNIT = '/etc/systemd/system/crio.service';
/** Where supplies.ts puts its publisher's bundle; a directory `cri-o` is in it. */
export const CRIO_BUNDLE = '/usr/local/lib/muster/crio';
export const CRIO_SOCKET = 'unix:///var/run/crio/crio.sock';

/** Text in TOML: a basic string. JSON's escapes are TOML's. */
const toml = (text: string): string => JSON.stringify(text);

export const crioConfig = (resolved: ResolvedCluster): string =>
  [
    '[crio.runtime]',
    'cgroup_manager = "systemd"',
    '',
    '[crio.image]',
    `pause_image = ${toml(resolved.images.pause)}`,
    // Without a policy nothing is pulled. Images are held to their digests, not to signatures.
    `signature_policy = ${toml(POLICY)}`,
    '',
    '[crio.network]',
    'network_dir = "/etc/cni/net.d/"',
    `plugin_dirs = [${toml(resolved.cniPlugins)}]`,
    '',
  ].join('\n');

/** Where images of add-ons come from, besides the registries of what is built in. */
const COMMON_REGISTRIES = ['docker.io', 'gcr.io', 'ghcr.io', 'quay.io', 'registry.k8s.io'] as const;

function registriesOf({ images, cni, virtualAddress }: ResolvedCluster): readonly string[] {
  const references = [...Object.values(images), ...Object.values(cni.images ?? {}), virtualAddress?.image];
  const found = references.flatMap((text) => parseReference(text ?? '')?.registry ?? []);
  return [...new Set([...COMMON_REGISTRIES, ...found])].sort();
}

/**
 * Registries that are asked first, registry by registry: there is no entry that stands for all of
 * them. A mirror is asked for `MIRROR/REGISTRY/NAME`, as ours is by everybody but containerd.
 */
export function crioRegistries(resolved: ResolvedCluster): string {
  const mirror = (registry: string) => (url: string) => {
    const { protocol, host, pathname } = new URL(url);
    return [
      '[[registry.mirror]]',
      `location = ${toml(`${host}${pathname.replace(/\/$/, '')}/${registry}`)}`,
      ...(protocol === 'http:' ? ['insecure = true'] : []),
    ];
  };
  return registriesOf(resolved)
    .flatMap((registry) => [
      '[[registry]]',
      `prefix = ${toml(registry)}`,
      `location = ${toml(registry)}`,
      ...resolved.mirrors.flatMap(mirror(registry)),
      '',
    ])
    .join('\n');
}

/** Muster's CA for each mirror that is asked by TLS. */
const authorities = (mirrors: readonly string[]): readonly PlanLine[] =>
  [...new Set(mirrors.filter((url) => url.startsWith('https:')).map((url) => new URL(url).host))].map(
    (host): PlanLine => ({
      do: 'link',
      to: '/etc/muster/ca.crt',
      path: `/etc/containers/certs.d/${host}/ca.crt`,
      onlyIfAbsent: false,
    }),
  );

/**
 * As its publisher's, but that `crio` is found where systemd looks for programs, and is started
 * again however it ended.
 */
const unit = sections(
  [
    'Unit',
    [
      'Description=CRI-O, set up by Muster',
      'Wants=network-online.target',
      'After=network-online.target local-fs.target',
      'Before=kubelet.service',
    ],
  ],
  [
    'Service',
    [
      'ExecStartPre=-/sbin/modprobe overlay',
      'ExecStart=crio',
      'ExecReload=/bin/kill -s HUP $MAINPID',
      'Type=notify',
      'TimeoutStartSec=0',
      'WatchdogSec=60s',
      'Restart=always',
      'RestartSec=5',
      'LimitNOFILE=1048576',
      'LimitNPROC=1048576',
      'LimitCORE=infinity',
      'TasksMax=infinity',
      'OOMScoreAdjust=-999',
    ],
  ],
  ['Install', ['WantedBy=multi-user.target']],
);

/** `binaries`: what is put down besides; another CRI-O is started anew, its containers run on. */
export function crioLines(
  resolved: ResolvedCluster,
  binaries: readonly PlanLine[] = [],
): {
  readonly files: readonly PlanLine[];
  readonly run: PlanLine;
} {
  const files = [
    put(CONFIG, crioConfig(resolved)),
    put(POLICY, `${JSON.stringify({ default: [{ type: 'insecureAcceptAnything' }] })}\n`),
    ...(resolved.mirrors.length > 0
      ? [put(REGISTRIES, crioRegistries(resolved)), ...authorities(resolved.mirrors)]
      : []),
    put(UNIT, unit),
    crictlLine(CRIO_SOCKET),
    ...networkLines(resolved),
  ];
  const read = [CONFIG, POLICY, REGISTRIES, UNIT, CRIO_BUNDLE];
  const digest = digestOf([...files, ...binaries], (path) => read.includes(path));
  return { files, run: { do: 'run', unit: 'crio.service', digest } };
}
