/** etcd as a service of the host, for members without kubelet. */
import { AGENT_PATHS, type PlanLine } from '../../agent/plan.ts';
import type { ClusterMachine, Flags, ResolvedCluster } from '../spec/resolved-cluster.ts';
import { put, sections } from './lines.ts';
import { commandLine, type Founding, REVISION } from './manifests.ts';

const UNIT = '/etc/systemd/system/muster-etcd.service';
export const ETCD_SERVICE = 'muster-etcd.service';

/**
 * What etcd begins with, for this boot of the machine alone: gone with the next, so that no disk
 * can make it begin again.
 */
export const ETCD_GRANT = '/run/muster/etcd-founding.env';
/** Beside the data, as soon as there were any: `new` is refused from then on. */
export const ETCD_STARTED = `${AGENT_PATHS.state}/etcd-started`;

/** An argument in `ExecStart=`, quoted. */
const argument = (text: string): string =>
  `"${text.replace(/[\\"]/g, '\\$&').replaceAll('$', '$$$$').replaceAll('%', '%%')}"`;

const isOfFounding = (flag: string): boolean => flag.startsWith('initial-cluster');

const flagsOf = (resolved: ResolvedCluster, founding: boolean): Flags =>
  Object.fromEntries(Object.entries(resolved.flags.etcd).filter(([flag]) => isOfFounding(flag) === founding));

/** The grant's file: the flags of founding, which hold no white space. */
export const etcdGrant = (resolved: ResolvedCluster, machine: ClusterMachine, founding: Founding): string =>
  `MUSTER_ETCD_FOUNDING=${commandLine(flagsOf(resolved, true), machine, founding).join(' ')}\n`;

/**
 * One flag a line. `etcd` is found where systemd looks for programs: /usr/local/bin before Debian's
 * /usr/bin.
 *
 * The guard: with data it starts, whatever else is there. Without, only by a grant of this boot,
 * and by `new` only where there never were data.
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
        // Not notify: it says that it is ready only with a quorum, and the others may come much
        // later.
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

export const etcdServiceLine = (
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  revision: string,
): PlanLine => put(UNIT, etcdUnit(resolved, machine, revision));

/**
 * A distribution's own member, which its package starts by itself: on the same ports, founded
 * alone, open to everybody on the machine. Stopped and masked on every member, also where etcd is a
 * static pod, so that no package brings it back.
 */
export const maskDistributionsEtcd: readonly PlanLine[] = [
  { do: 'stop', unit: 'etcd.service' },
  { do: 'link', to: '/dev/null', path: '/etc/systemd/system/etcd.service', onlyIfAbsent: false },
];

/**
 * What a restart is worth: flags and trust, which etcd reads when it starts. Its own certificates
 * it reads with every handshake.
 */
export const etcdReads = (resolved: ResolvedCluster, machine: ClusterMachine): string =>
  commandLine(flagsOf(resolved, false), machine).join('\n');
