/** etcd as a service of the host, for members without a kubelet. */
import { AGENT_PATHS, type PlanLine } from '../../agent/wire/plan.ts';
import type { ClusterMachine, Flags, ResolvedCluster } from '../model/resolved-cluster.ts';
import { put, sections } from './lines.ts';
import { commandLine, type Founding, REVISION } from './manifests.ts';

const UNIT = '/etc/systemd/system/muster-etcd.service';
export const ETCD_SERVICE = 'muster-etcd.service';

/**
 * The file of the grant: etcd's flags of founding, valid for this boot only. The file is in memory,
 * so no disk can make etcd found a cluster a second time.
 */
export const ETCD_GRANT = '/run/muster/etcd-founding.env';
/**
 * Created next to etcd's data as soon as there are data; while it exists the guard refuses `new`.
 */
export const ETCD_STARTED = `${AGENT_PATHS.state}/etcd-started`;

/** Quotes an argument for `ExecStart=`. */
const argument = (text: string): string =>
  `"${text.replace(/[\\"]/g, '\\$&').replaceAll('$', '$$$$').replaceAll('%', '%%')}"`;

const isOfFounding = (flag: string): boolean => flag.startsWith('initial-cluster');

const flagsOf = (resolved: ResolvedCluster, founding: boolean): Flags =>
  Object.fromEntries(Object.entries(resolved.flags.etcd).filter(([flag]) => isOfFounding(flag) === founding));

/** The text of the grant: the flags of founding, which contain no white space. */
export const etcdGrant = (resolved: ResolvedCluster, machine: ClusterMachine, founding: Founding): string =>
  `MUSTER_ETCD_FOUNDING=${commandLine(flagsOf(resolved, true), machine, founding).join(' ')}\n`;

/**
 * The unit, with one flag on each line. systemd finds `etcd` in /usr/local/bin before Debian's
 * /usr/bin.
 *
 * The guard always lets etcd start when it has data. Without data etcd needs a grant of this boot,
 * and may start with `new` only where it never had data.
 */
export function etcdUnit(resolved: ResolvedCluster, machine: ClusterMachine, revision: string): string {
  const flags = commandLine(flagsOf(resolved, false), machine);
  const wal = `${resolved.etcd.dataDirectory}/member/wal`;
  const guard = `test -d ${wal} || case "$$MUSTER_ETCD_FOUNDING" in *state=existing*) ;; *state=new*) test ! -e ${ETCD_STARTED} ;; *) false ;; esac`;
  const started = `n=0; until test -d ${wal}; do n=$$((n + 1)); test $$n -lt 100 || exit 0; sleep 0.1; done; : >>${ETCD_STARTED}`;
  return sections(
    [
      'Unit',
      [
        'Description=etcd, a member of a cluster founded by Muster',
        // Debian's package starts its own member at the same ports.
        'Conflicts=etcd.service',
        'Wants=network-online.target',
        'After=network-online.target etcd.service',
        'StartLimitIntervalSec=0',
      ],
    ],
    [
      'Service',
      [
        // The type is not notify: etcd reports that it is ready only when it has a quorum, and
        // other members may start much later.
        'Type=exec',
        `EnvironmentFile=-${ETCD_GRANT}`,
        `Environment=${REVISION}=${revision}`,
        `ExecStartPre=/bin/sh -c '${guard}'`,
        `ExecStart=etcd \\\n  ${flags.map(argument).join(' \\\n  ')} \\\n  $MUSTER_ETCD_FOUNDING`,
        `ExecStartPost=/bin/sh -c '${started}'`,
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

/** The line that writes etcd's unit. `revision` identifies what etcd reads at its start. */
export const etcdServiceLine = (
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  revision: string,
): PlanLine => put(UNIT, etcdUnit(resolved, machine, revision));

/**
 * Stops and masks the distribution's etcd. Its package starts a member at the same ports, as a
 * cluster of one that is open to everybody on the machine. The unit is masked on every member, even
 * where etcd is a static pod, so that no package starts it again.
 */
export const maskDistributionsEtcd: readonly PlanLine[] = [
  { do: 'stop', unit: 'etcd.service' },
  { do: 'link', to: '/dev/null', path: '/etc/systemd/system/etcd.service', onlyIfAbsent: false },
];

/**
 * The flags that etcd reads when it starts; when they change, etcd restarts. Certificates are not
 * included, because etcd reads them with every handshake.
 */
export const etcdReads = (resolved: ResolvedCluster, machine: ClusterMachine): string =>
  commandLine(flagsOf(resolved, false), machine).join('\n');
