/**
 * CRI-O instead of containerd: cgroups by systemd, the pause image, mirrors. Follows crio.conf(5),
 * containers-registries.conf(5) and containers-certs.d(5). CRI-O reads drop-ins after its own
 * defaults, so the drop-in contains only differences.
 */
import type { PlanLine } from '../../agent/plan.ts';
import { parseReference } from '../../artifacts/reference.ts';
import type { ResolvedCluster } from '../spec/resolved-cluster.ts';
import { crictlLine, networkLines } from './cri.ts';
import { digestOf, proxyLines, put, sections } from './lines.ts';

const CONFIG = '/etc/crio/crio.conf.d/90-muster.conf';
const POLICY = '/etc/crio/policy.json';
const REGISTRIES = '/etc/containers/registries.conf.d/90-muster.conf';
const UNIT = '/etc/systemd/system/crio.service';
/**
 * The directory into which supplies.ts unpacks the publisher's bundle, which has a directory
 * `cri-o`.
 */
export const CRIO_BUNDLE = '/usr/local/lib/muster/crio';
const CRIO_SOCKET = 'unix:///var/run/crio/crio.sock';

/** A basic string of TOML. TOML has the same escapes as JSON. */
const toml = (text: string): string => JSON.stringify(text);

/** The text of CRI-O's drop-in configuration file. */
export const crioConfig = (resolved: ResolvedCluster): string =>
  [
    '[crio.runtime]',
    'cgroup_manager = "systemd"',
    '',
    '[crio.image]',
    `pause_image = ${toml(resolved.images.pause)}`,
    // Without a policy CRI-O pulls nothing. Images are verified by digest, not by signature.
    `signature_policy = ${toml(POLICY)}`,
    '',
    '[crio.network]',
    'network_dir = "/etc/cni/net.d/"',
    `plugin_dirs = [${toml(resolved.cniPlugins)}]`,
    '',
  ].join('\n');

/** Registries of add-ons' images, in addition to those of the cluster's own images. */
const COMMON_REGISTRIES = ['docker.io', 'gcr.io', 'ghcr.io', 'quay.io', 'registry.k8s.io'] as const;

function registriesOf({ images, cni, virtualAddress }: ResolvedCluster): readonly string[] {
  const references = [...Object.values(images), ...Object.values(cni.images ?? {}), virtualAddress?.image];
  const found = references.flatMap((text) => parseReference(text ?? '')?.registry ?? []);
  return [...new Set([...COMMON_REGISTRIES, ...found])].sort();
}

/**
 * The mirrors, repeated for each registry, because CRI-O's configuration has no entry for all
 * registries. A mirror is asked for `MIRROR/REGISTRY/NAME`; every client except containerd asks
 * Muster's registry in this form.
 */
export function crioRegistries(resolved: ResolvedCluster): string {
  const mirror = (registry: string) => (url: string) => {
    const { protocol, host, pathname } = new URL(url);
    return [
      '[[registry.mirror]]',
      `location = ${toml(locationOf(host, pathname.replace(/\/$/, ''), registry))}`,
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

/**
 * CRI-O adds `/v2` behind the host itself. A path that names the place of the API, as that of a
 * cache for one registry, has the images right below it.
 */
function locationOf(host: string, path: string, registry: string): string {
  const below = /^\/v2(\/.*)?$/.exec(path);
  return below ? `${host}${below[1] ?? ''}` : `${host}${path}/${registry}`;
}

/** Muster's CA for each mirror that is reached over TLS. */
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
 * The publisher's unit with two differences: systemd finds `crio` in its search path, and restarts
 * it however it exited.
 */
const unit = (resolved: ResolvedCluster): string =>
  sections(
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
        ...proxyLines(resolved),
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

/**
 * The files and the unit of CRI-O. `binaries`: lines that install binaries. A new version of CRI-O
 * restarts it; its containers keep running.
 */
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
    put(UNIT, unit(resolved)),
    crictlLine(CRIO_SOCKET),
    ...networkLines(resolved),
  ];
  const read = [CONFIG, POLICY, REGISTRIES, UNIT, CRIO_BUNDLE];
  const digest = digestOf([...files, ...binaries], (path) => read.includes(path));
  return { files, run: { do: 'run', unit: 'crio.service', digest } };
}
