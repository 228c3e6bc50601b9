/**
 * haproxy as a service of the host. It checks every control plane and sends connections to control
 * planes that are ready. On workers it serves the API on loopback (docs/decisions/0027 says why it
 * is not a static pod, and why there is no single address for all machines). On control planes it
 * serves the endpoint, if the endpoint has a port of its own.
 */

import type { PlanLine } from '../../agent/wire/plan.ts';
import { urlHost } from '../../base/ip.ts';
import { AUTHORITIES } from '../../pki/hierarchy.ts';
import { API_PORT } from '../model/ports.ts';
import {
  addressOf,
  balancedPort,
  type ClusterMachine,
  type ResolvedCluster,
  withRole,
} from '../model/resolved-cluster.ts';
import { healthClient } from '../resolve/health-requests.ts';
import { digestOf, put, sections } from './lines.ts';

const CONFIG = '/etc/muster/balancer.cfg';
const SERVICE = 'muster-balancer.service';
const UNIT = `/etc/systemd/system/${SERVICE}`;
/** The socket that muster-evidence.sh asks; in the unit's own /tmp (DynamicUser). */
const REVISION_SOCKET = '/tmp/muster-balancer';

/**
 * haproxy's configuration. A watch may be idle for long, but kubelet sends a keep-alive every 30 s,
 * so the peer of a connection without one for half an hour is gone.
 *
 * @param binds Addresses and ports to listen at, as haproxy writes them.
 * @param revision What haproxy answers to the agent, which so sees whether a reload has arrived.
 */
export function balancerConfig(resolved: ResolvedCluster, binds: readonly string[], revision = '-'): string {
  const servers = withRole(resolved, 'control-plane').map(
    (machine) => `  server ${machine.name} ${urlHost(addressOf(machine))}:${API_PORT}`,
  );
  const client = healthClient(resolved);
  return `global
  maxconn 8192
${client === undefined ? '' : UNPRIVILEGED}  # Standard error goes to the journal.
  log stderr format raw local0 notice

defaults
  mode tcp
  log global
  timeout connect 1s
  timeout client 30m
  timeout server 30m
  timeout check 2s

# Only root of this host can ask. A reload changes no environment, so haproxy says itself what it has loaded.
frontend revision
  mode http
  bind unix@${REVISION_SOCKET}
  http-request return status 200 content-type text/plain string ${revision}

frontend api
${binds.map((bind) => `  bind ${bind}\n`).join('')}  default_backend control-planes

backend control-planes
  balance leastconn
  option httpchk
  http-check send meth GET uri /readyz
  http-check expect status 200
  # Connections to a server that is down are closed at once, so that kubelet connects to another.
  # A check that resumed a session would verify no certificate, and hide a CA that is not trusted.
  default-server inter 2s fall 2 rise 1 on-marked-down shutdown-sessions check check-ssl no-ssl-reuse verify required ca-file ${AUTHORITIES.ca.bundle.path}${client === undefined ? '' : ` crt ${client}`}
${servers.join('\n')}
`;
}

/**
 * haproxy starts as root where it reads the key of its checks, at each reload again. Its worker
 * serves as nobody, whose number is the same on all distributions.
 */
const UNPRIVILEGED = '  uid 65534\n  gid 65534\n';

/** Only root may listen at ports below this one. */
const FIRST_FREE_PORT = 1024;

const unit = (port: number, client: string | undefined) =>
  sections(
    [
      'Unit',
      [
        'Description=The API of the cluster on this machine',
        'After=network.target',
        'StartLimitIntervalSec=0',
      ],
    ],
    [
      'Service',
      [
        'Type=notify',
        `ExecStart=haproxy -Ws -f ${CONFIG}`,
        'ExecReload=/bin/kill -USR2 $MAINPID',
        'KillMode=mixed',
        'Restart=always',
        'RestartSec=1',
        ...(client === undefined ? ['DynamicUser=yes'] : ['PrivateTmp=yes', 'ProtectSystem=strict']),
        ...(client === undefined && port < FIRST_FREE_PORT
          ? ['AmbientCapabilities=CAP_NET_BIND_SERVICE']
          : []),
        'ProtectHome=yes',
        'LimitNOFILE=65536',
      ],
    ],
    ['Install', ['WantedBy=multi-user.target']],
  );

/** The port of the machine's balancer; undefined when it has none. */
const portOf = (resolved: ResolvedCluster, { roles }: ClusterMachine): number | undefined => {
  if (roles.includes('worker')) return API_PORT;
  return roles.includes('control-plane') ? balancedPort(resolved) : undefined;
};

/** Where the machine's balancer listens, as haproxy writes it; empty when it has none. */
export function balancerBinds(resolved: ResolvedCluster, machine: ClusterMachine): readonly string[] {
  const port = portOf(resolved, machine);
  if (port === undefined) return [];
  if (machine.roles.includes('worker')) return [`127.0.0.1:${port}`];
  // The balancer listens on all addresses, because the endpoint's address moves between control
  // planes.
  const families = new Set(resolved.virtualAddress?.addresses.map((address) => address.includes(':')));
  return [...families].map((ipv6) => (ipv6 ? `:::${port} v6only` : `*:${port}`));
}

interface BalancerPart {
  readonly files: readonly PlanLine[];
  readonly run: PlanLine;
  /** Absent: the machine has no balancer any more. */
  readonly revision?: string;
}

/**
 * The lines of a machine's balancer; undefined when the machine never had a balancer. `pki`: lines
 * of PKI files, including the files that haproxy reads when it starts.
 */
export function balancerPart(
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  pki: readonly PlanLine[],
): BalancerPart | undefined {
  const port = portOf(resolved, machine);
  if (port === undefined)
    return machine.roles.includes('control-plane') && resolved.virtualAddress
      ? { files: [], run: { do: 'stop', unit: SERVICE } }
      : undefined;
  const files = (revision?: string): readonly PlanLine[] => [
    put(CONFIG, balancerConfig(resolved, balancerBinds(resolved, machine), revision)),
    put(UNIT, unit(port, healthClient(resolved))),
  ];
  const reads = (path: string) =>
    [CONFIG, UNIT, AUTHORITIES.ca.bundle.path, healthClient(resolved)].includes(path);
  const digest = digestOf([...files(), ...pki], reads);
  const revision = digest.slice(0, 16);
  return { files: files(revision), run: { do: 'reload', unit: SERVICE, digest }, revision };
}
