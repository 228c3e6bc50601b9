/**
 * containerd, set up for kubelet: cgroups by systemd, the pause image, mirrors. The configuration
 * file has version 2 for containerd 1.6 and 1.7, and version 3 for 2.x (containerd's manual,
 * cri/config.md): 2.x would convert a file of version 2 at each start, with a warning.
 */
import type { PlanLine } from '../../agent/wire/plan.ts';
import { formatReference, parseReference } from '../../artifacts/reference.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import { parseVersion } from '../model/versions.ts';
import { crictlLine, networkLines } from './cri.ts';
import { digestOf, proxyLines, put, sections } from './lines.ts';
import {
  accessByHost,
  authorityLines,
  authorityOf,
  type Cluster,
  generalMirrors,
  type Login,
  mirrorsOf,
} from './registries.ts';

const CONFIG = '/etc/containerd/config.toml';
const CERTS = '/etc/containerd/certs.d';
/** containerd reads this file for every registry that has no directory of its own. */
const MIRRORS = `${CERTS}/_default/hosts.toml`;
const UNIT = '/etc/systemd/system/containerd.service';
/** Where supplies.ts installs containerd: from an archive, or as a single file. */
const PROGRAM = ['/usr/local', '/usr/local/bin/containerd'];
const CONTAINERD_SOCKET = 'unix:///run/containerd/containerd.sock';

/** A basic string of TOML. TOML has the same escapes as JSON. */
const toml = (text: string): string => JSON.stringify(text);

/** Docker Hub answers at another host than its images' names have. */
const HOSTS: Readonly<Record<string, string>> = { 'docker.io': 'registry-1.docker.io' };

/**
 * The text of containerd's configuration file. hosts.toml has no logins, and the authorization
 * header that it could have does not reach token services before containerd 2.1; `auth` works in
 * all versions from 1.6 on, and containerd asks mirrors with it as well.
 */
export function containerdConfig(resolved: ResolvedCluster, logins: readonly Login[] = []): string {
  const newer = parseVersion(resolved.versions.containerd)![0] >= 2;
  const images = newer ? 'io.containerd.cri.v1.images' : 'io.containerd.grpc.v1.cri';
  const runtime = newer ? 'io.containerd.cri.v1.runtime' : 'io.containerd.grpc.v1.cri';
  const table = (plugin: string, name: string, lines: readonly string[]): string =>
    `\n[plugins.${toml(plugin)}${name}]\n${lines.map((line) => `${line}\n`).join('')}`;
  return [
    `version = ${newer ? 3 : 2}\n`,
    newer
      ? table(images, '.pinned_images', [`sandbox = ${toml(resolved.images.pause)}`])
      : table(images, '', [`sandbox_image = ${toml(resolved.images.pause)}`]),
    table(images, '.registry', [`config_path = ${toml(CERTS)}`]),
    ...logins.map(({ host, username, password }) =>
      table(images, `.registry.configs.${toml(HOSTS[host] ?? host)}.auth`, [
        `username = ${toml(username)}`,
        `password = ${toml(password)}`,
      ]),
    ),
    table(runtime, '.cni', [
      `bin_dir = ${toml(resolved.cniPlugins)}`,
      `conf_dir = ${toml('/etc/cni/net.d')}`,
    ]),
    table(runtime, '.containerd.runtimes.runc', [`runtime_type = ${toml('io.containerd.runc.v2')}`]),
    table(runtime, '.containerd.runtimes.runc.options', ['SystemdCgroup = true']),
  ].join('');
}

/** Whether the path of a mirror names the place of the registry's API itself. */
const hasApiPath = (url: string): boolean => /\/v2(\/|$)/.test(new URL(url).pathname);

/** One place that containerd asks, as keys of a table of hosts.toml. */
function hostKeys(url: string, authority: string): readonly string[] {
  return [
    'capabilities = ["pull", "resolve"]',
    // Otherwise containerd adds another /v2 to the path.
    ...(hasApiPath(url) ? ['override_path = true'] : []),
    ...(url.startsWith('https:') ? [`ca = ${toml(authority)}`] : []),
  ];
}

const hostTable = (url: string, authority: string): string =>
  [`[host.${toml(url)}]`, ...hostKeys(url, authority), ''].join('\n');

/** The mirrors, which containerd asks first; it asks the registry in the image's name last. */
const mirrorHosts = (mirrors: readonly string[]): string =>
  mirrors.map((url) => hostTable(url, '/etc/muster/ca.crt')).join('\n');

/**
 * The hosts.toml of each registry that has its own. containerd always asks the server of the file
 * last, and without one the registry itself: so the last mirror is the server where the registry is
 * never asked.
 */
function registryHosts(cluster: Cluster): ReadonlyMap<string, string> {
  const access = accessByHost(cluster);
  return new Map(
    cluster.registries.map((one) => {
      const asked = mirrorsOf(cluster, one).map(({ url }) => url);
      const authority = (url: string) => authorityOf(access, new URL(url).host);
      const last = one.upstream ? undefined : asked.at(-1);
      const server =
        last !== undefined
          ? [`server = ${toml(last)}`, ...hostKeys(last, authority(last)), '']
          : one.ca === undefined
            ? []
            : [`ca = ${toml(authorityOf(access, one.registry))}`, ''];
      const tables = asked.slice(0, last === undefined ? undefined : -1);
      return [
        `${CERTS}/${one.registry}/hosts.toml`,
        [
          ...(server.length > 0 ? [server.join('\n')] : []),
          ...tables.map((url) => hostTable(url, authority(url))),
        ].join('\n'),
      ] as const;
    }),
  );
}

/**
 * The name under which containerd stores an image: with its registry, and without the tag if the
 * reference also has a digest (containerd's ParseDockerRef). kubelet looks for this name before it
 * pulls.
 */
export function nameInContainerd(reference: string): string {
  const read = parseReference(reference);
  if (read === undefined) return reference;
  const { digest, tag, ...name } = read;
  return formatReference({ ...name, ...(digest === undefined ? { tag: tag! } : { digest }) });
}

/**
 * Muster's own unit, because an archive of binaries contains none. It differs from Debian's unit
 * only in the path.
 */
const unit = (resolved: ResolvedCluster): string =>
  sections(
    ['Unit', ['Description=containerd, set up by Muster', 'After=network.target local-fs.target']],
    [
      'Service',
      [
        'ExecStartPre=-/sbin/modprobe overlay',
        'ExecStart=containerd',
        ...proxyLines(resolved),
        'Type=notify',
        // Containers outlive a restart of containerd.
        'KillMode=process',
        'Delegate=yes',
        'Restart=always',
        'RestartSec=5',
        'LimitNOFILE=1048576',
        'LimitNPROC=infinity',
        'LimitCORE=infinity',
        'TasksMax=infinity',
        'OOMScoreAdjust=-999',
      ],
    ],
    ['Install', ['WantedBy=multi-user.target']],
  );

/**
 * The files and the unit of containerd. `binaries`: lines that install binaries. A new version of
 * containerd restarts it; its containers keep running.
 */
export function containerdLines(
  resolved: ResolvedCluster,
  binaries: readonly PlanLine[] = [],
  logins: readonly Login[] = [],
): {
  readonly files: readonly PlanLine[];
  readonly run: PlanLine;
} {
  const configWith = (used: readonly Login[]): PlanLine =>
    used.length === 0
      ? put(CONFIG, containerdConfig(resolved))
      : {
          do: 'put',
          mode: 0o600,
          path: CONFIG,
          content: { text: containerdConfig(resolved, used), secret: true },
        };
  const others = [
    put(UNIT, unit(resolved)),
    crictlLine(CONTAINERD_SOCKET),
    // This makes nerdctl show the containers that kubelet started.
    put('/etc/nerdctl/nerdctl.toml', 'namespace = "k8s.io"\n'),
    ...networkLines(resolved),
    ...authorityLines(resolved),
    ...(resolved.mirrors.length > 0 ? [put(MIRRORS, mirrorHosts(generalMirrors(resolved)))] : []),
    ...[...registryHosts(resolved)].map(([path, text]) => put(path, text)),
  ];
  // hosts.toml is not part of the digest: containerd reads it with every pull. Instead of passwords
  // the digest has their tags, because digests are reported.
  const tagged = configWith(logins.map((login) => ({ ...login, password: login.tag })));
  const digest = digestOf([tagged, ...others, ...binaries], (path) =>
    [CONFIG, UNIT, ...PROGRAM].includes(path),
  );
  return {
    files: [configWith(logins), ...others],
    run: { do: 'run', unit: 'containerd.service', digest },
  };
}
