/**
 * The API on a worker's own loopback: haproxy as a service of the host, which knows every control plane and asks each whether
 * it is ready. docs/decisions/0026 says why neither a static pod nor one address for all.
 */

import type { PlanLine } from '../../agent/plan.ts';
import { urlHost } from '../../base/ip.ts';
import { AUTHORITIES } from '../../pki/hierarchy.ts';
import { addressOf, type FullCluster, withRole } from '../full.ts';
import { digestOf, put, sections } from './lines.ts';

const CONFIG = '/etc/muster/balancer.cfg';
const UNIT = '/etc/systemd/system/muster-balancer.service';

/** A watch lies idle for long; kubelet's own keep-alive is 30 s, so that half an hour means that the other end is gone. */
export function balancerConfig(full: FullCluster, binds: readonly string[]): string {
  const servers = withRole(full, 'control-plane').map(
    (machine) => `  server ${machine.name} ${urlHost(addressOf(machine))}:6443`,
  );
  return `global
  maxconn 8192
  # What happens goes to the journal.
  log stderr format raw local0 notice

defaults
  mode tcp
  log global
  timeout connect 1s
  timeout client 30m
  timeout server 30m
  timeout check 2s

frontend api
${binds.map((bind) => `  bind ${bind}\n`).join('')}  default_backend control-planes

backend control-planes
  balance leastconn
  option httpchk
  http-check send meth GET uri /readyz
  http-check expect status 200
  # A connection to one that is down is ended at once: kubelet then comes to another one.
  default-server inter 2s fall 2 rise 1 on-marked-down shutdown-sessions check check-ssl verify required ca-file ${AUTHORITIES.ca.bundle.path}
${servers.join('\n')}
`;
}

const unit = sections(
  [
    'Unit',
    ['Description=The API of the cluster on this machine', 'After=network.target', 'StartLimitIntervalSec=0'],
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
      'DynamicUser=yes',
      'ProtectHome=yes',
      'LimitNOFILE=65536',
    ],
  ],
  ['Install', ['WantedBy=multi-user.target']],
);

/** A worker's balancer. `reads`: what else it reads when it starts. */
export function balancerLines(
  full: FullCluster,
  pki: readonly PlanLine[],
): {
  readonly files: readonly PlanLine[];
  readonly run: PlanLine;
} {
  const files = [put(CONFIG, balancerConfig(full, ['127.0.0.1:6443'])), put(UNIT, unit)];
  const reads = (path: string) => [CONFIG, UNIT, AUTHORITIES.ca.bundle.path].includes(path);
  return {
    files,
    run: { do: 'reload', unit: 'muster-balancer.service', digest: digestOf([...files, ...pki], reads) },
  };
}
