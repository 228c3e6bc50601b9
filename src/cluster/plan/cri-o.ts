/**
 * CRI-O instead of containerd: cgroups by systemd, the pause image, mirrors. Follows crio.conf(5),
 * containers-registries.conf(5) and containers-certs.d(5). CRI-O reads drop-ins after its own
 * defaults, so the drop-in contains only differences.
 */
import type { PlanLine } from '../../agent/wire/plan.ts';
import { parseReference } from '../../artifacts/reference.ts';
import type { ResolvedCluster, ResolvedRegistry } from '../model/resolved-cluster.ts';
import { crictlLine, networkLines } from './cri.ts';
import { digestOf, proxyLines, put, sections } from './lines.ts';
import {
  accessByHost,
  authorityLines,
  authorityOf,
  type Cluster,
  type Login,
  type Mirror,
  mirrorsOf,
} from './registries.ts';

const CONFIG = '/etc/crio/crio.conf.d/90-muster.conf';
const POLICY = '/etc/crio/policy.json';
const REGISTRIES = '/etc/containers/registries.conf.d/90-muster.conf';
/** Read with every pull, as containers-auth.json(5) says. */
const LOGINS = '/etc/crio/auth.json';
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
export const crioConfig = (resolved: ResolvedCluster, logins: readonly Login[] = []): string =>
  [
    '[crio.runtime]',
    'cgroup_manager = "systemd"',
    '',
    '[crio.image]',
    `pause_image = ${toml(resolved.images.pause)}`,
    // Without a policy CRI-O pulls nothing. Images are verified by digest, not by signature.
    `signature_policy = ${toml(POLICY)}`,
    ...(logins.length > 0 ? [`global_auth_file = ${toml(LOGINS)}`] : []),
    '',
    '[crio.network]',
    'network_dir = "/etc/cni/net.d/"',
    `plugin_dirs = [${toml(resolved.cniPlugins)}]`,
    '',
  ].join('\n');

/** Registries of add-ons' images, in addition to those of the cluster's own images. */
const COMMON_REGISTRIES = ['docker.io', 'gcr.io', 'ghcr.io', 'quay.io', 'registry.k8s.io'] as const;

function registriesOf({ images, cni, virtualAddress, registries }: ResolvedCluster): readonly string[] {
  const references = [...Object.values(images), ...Object.values(cni.images ?? {}), virtualAddress?.image];
  const found = references.flatMap((text) => parseReference(text ?? '')?.registry ?? []);
  const listed = registries.map(({ registry }) => registry);
  return [...new Set([...COMMON_REGISTRIES, ...found, ...listed])].sort();
}

/** A registry for which documents say nothing. */
const unlisted = (registry: string): ResolvedRegistry => ({ registry, mirrors: [], upstream: true });

/**
 * The mirrors, repeated for each registry, because CRI-O's configuration has no entry for all
 * registries. A mirror of all registries is asked for `MIRROR/REGISTRY/NAME`; every client except
 * containerd asks Muster's registry in this form. A registry that is never asked itself has its
 * last mirror as location.
 */
export function crioRegistries(resolved: ResolvedCluster): string {
  const listed = new Map(resolved.registries.map((one) => [one.registry, one]));
  return registriesOf(resolved)
    .flatMap((registry) => {
      const one = listed.get(registry) ?? unlisted(registry);
      const asked = mirrorsOf(resolved, one).map((mirror) => location(mirror, registry));
      const last = one.upstream ? undefined : asked.at(-1);
      return [
        '[[registry]]',
        `prefix = ${toml(registry)}`,
        ...(last ?? [`location = ${toml(registry)}`]),
        ...asked.slice(0, last ? -1 : undefined).flatMap((keys) => ['[[registry.mirror]]', ...keys]),
        '',
      ];
    })
    .join('\n');
}

function location({ url, general }: Mirror, registry: string): readonly string[] {
  const { protocol, host, pathname } = new URL(url);
  const at = locationOf(host, pathname.replace(/\/$/, ''), general ? registry : undefined);
  return [`location = ${toml(at)}`, ...(protocol === 'http:' ? ['insecure = true'] : [])];
}

/**
 * CRI-O adds `/v2` behind the host itself. A path that names the place of the API, as that of a
 * cache for one registry, has the images right below it.
 */
function locationOf(host: string, path: string, registry: string | undefined): string {
  const below = /^\/v2(\/.*)?$/.exec(path);
  if (below) return `${host}${below[1] ?? ''}`;
  return registry === undefined ? `${host}${path}` : `${host}${path}/${registry}`;
}

/** For each host that is reached over TLS: its own CA, or Muster's for mirrors. */
function authorities(cluster: Cluster): readonly PlanLine[] {
  const access = accessByHost(cluster);
  const mirrors = [
    ...cluster.mirrors,
    ...cluster.registries.flatMap((one) => one.mirrors.map(({ url }) => url)),
  ];
  const hosts = [
    ...mirrors.filter((url) => url.startsWith('https:')).map((url) => new URL(url).host),
    ...cluster.registries.flatMap(({ registry, ca }) => (ca === undefined ? [] : [registry])),
  ];
  return [...new Set(hosts)].map(
    (host): PlanLine => ({
      do: 'link',
      to: authorityOf(access, host),
      path: `/etc/containers/certs.d/${host}/ca.crt`,
      onlyIfAbsent: false,
    }),
  );
}

/** The logins as containers-auth.json(5) writes them. */
function crioLogins(logins: readonly Login[]): string {
  const auths = logins.map(({ host, username, password }) => [
    host,
    { auth: Buffer.from(`${username}:${password}`).toString('base64') },
  ]);
  return `${JSON.stringify({ auths: Object.fromEntries(auths) }, undefined, 2)}\n`;
}

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

const loginsLine = (logins: readonly Login[]): PlanLine => ({
  do: 'put',
  mode: 0o600,
  path: LOGINS,
  content: { text: crioLogins(logins), secret: true },
});

/**
 * The files and the unit of CRI-O. `binaries`: lines that install binaries. A new version of CRI-O
 * restarts it; its containers keep running.
 */
export function crioLines(
  resolved: ResolvedCluster,
  binaries: readonly PlanLine[] = [],
  logins: readonly Login[] = [],
): {
  readonly files: readonly PlanLine[];
  readonly run: PlanLine;
} {
  const files = [
    put(CONFIG, crioConfig(resolved, logins)),
    put(POLICY, `${JSON.stringify({ default: [{ type: 'insecureAcceptAnything' }] })}\n`),
    ...(resolved.mirrors.length + resolved.registries.length > 0
      ? [put(REGISTRIES, crioRegistries(resolved)), ...authorityLines(resolved), ...authorities(resolved)]
      : []),
    ...(logins.length > 0 ? [loginsLine(logins)] : []),
    put(UNIT, unit(resolved)),
    crictlLine(CRIO_SOCKET),
    ...networkLines(resolved),
  ];
  const read = [CONFIG, POLICY, REGISTRIES, UNIT, CRIO_BUNDLE];
  const digest = digestOf([...files, ...binaries], (path) => read.includes(path));
  return { files, run: { do: 'run', unit: 'crio.service', digest } };
}
