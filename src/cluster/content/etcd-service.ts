/** etcd as a service of the host, for members without kubelet. */
import type { PlanLine } from '../../agent/plan.ts';
import type { ClusterMachine, FullCluster } from '../full.ts';
import { commandLine, type Founding } from '../manifests.ts';
import { put, sections } from './lines.ts';

const UNIT = '/etc/systemd/system/muster-etcd.service';
export const ETCD_SERVICE = 'muster-etcd.service';

/** An argument in `ExecStart=`, quoted. */
const argument = (text: string): string =>
  `"${text.replace(/[\\"]/g, '\\$&').replaceAll('$', '$$$$').replaceAll('%', '%%')}"`;

/** One flag a line. `etcd` is found where systemd looks for programs: /usr/local/bin before Debian's /usr/bin. */
export function etcdUnit(full: FullCluster, machine: ClusterMachine, founding: Founding): string {
  const flags = commandLine(full.flags.etcd, machine, founding);
  return sections(
    [
      'Unit',
      [
        'Description=etcd, a member of a cluster founded by Muster',
        // Debian's package starts a member of its own, with the same ports.
        'Conflicts=etcd.service',
        'Wants=network-online.target',
        'After=network-online.target etcd.service',
        'StartLimitIntervalSec=0',
      ],
    ],
    [
      'Service',
      [
        // Not notify: it says that it is ready only with a quorum, and the others may come much later.
        'Type=exec',
        `ExecStart=etcd \\\n  ${flags.map(argument).join(' \\\n  ')}`,
        'Restart=always',
        'RestartSec=2',
        'LimitNOFILE=65536',
        'Nice=-10',
        'IOSchedulingClass=best-effort',
        'IOSchedulingPriority=1',
      ],
    ],
    ['Install', ['WantedBy=multi-user.target']],
  );
}

export const etcdServiceLine = (full: FullCluster, machine: ClusterMachine, founding: Founding): PlanLine =>
  put(UNIT, etcdUnit(full, machine, founding));

/**
 * What a restart is worth: flags and trust, which etcd reads when it starts (its own certificates it reads with every
 * handshake). Not what it was founded with: once it has data these flags mean nothing.
 */
export function etcdReads(full: FullCluster, machine: ClusterMachine): string {
  const lasting = Object.fromEntries(
    Object.entries(full.flags.etcd).filter(([flag]) => !flag.startsWith('initial-cluster')),
  );
  return commandLine(lasting, machine).join('\n');
}
