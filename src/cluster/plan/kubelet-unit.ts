/**
 * kubelet's unit, with the file names of kubeadm's package, where kubeadm's commands and operators
 * look for them.
 */

import type { PlanLine } from '../../agent/plan.ts';
import { RESOLVER } from '../spec/derive.ts';
import type { ClusterMachine, ResolvedCluster } from '../spec/resolved-cluster.ts';
import { IMAGES_SERVICE } from './images-unit.ts';
import { kubeletFiles, kubeletUnitFlags } from './kubelet.ts';
import { put, sections } from './lines.ts';
import { RUNTIMES } from './runtime.ts';

export const KUBELET_SERVICE = 'kubelet.service';
const UNIT = `/etc/systemd/system/${KUBELET_SERVICE}`;
const DROP_IN = `${UNIT}.d/10-kubeadm.conf`;

/**
 * Links the pods' resolv.conf, and chooses its target as kubeadm does. Where systemd-resolved runs,
 * /etc/resolv.conf names 127.0.0.53, and inside a pod nothing answers at that address.
 */
const linkResolver = [
  `mkdir -p ${RESOLVER.replace(/\/[^/]*$/, '')}`,
  `ln -sfn /run/systemd/resolve/resolv.conf ${RESOLVER}`,
  `[ -e ${RESOLVER} ] || ln -sfn /etc/resolv.conf ${RESOLVER}`,
].join('; ');

const unit = (runtime: string) =>
  sections(
    [
      'Unit',
      [
        'Description=kubelet: The Kubernetes Node Agent',
        `Wants=network-online.target ${runtime} ${IMAGES_SERVICE}`,
        `After=network-online.target ${runtime} ${IMAGES_SERVICE} systemd-resolved.service`,
        'StartLimitIntervalSec=0',
      ],
    ],
    [
      'Service',
      [`ExecStartPre=/bin/sh -c '${linkResolver}'`, 'ExecStart=kubelet', 'Restart=always', 'RestartSec=2'],
    ],
    ['Install', ['WantedBy=multi-user.target']],
  );

/**
 * Escapes a value between double quotes in a unit file, where `\`, `"`, `$` and `%` are special.
 */
const quoted = (text: string): string =>
  text.replace(/[\\"]/g, '\\$&').replaceAll('$', '$$$$').replaceAll('%', '%%');

function dropIn(resolved: ResolvedCluster, machine: ClusterMachine): string {
  const flags = kubeletUnitFlags(resolved, machine);
  const config = flags.filter((flag) => flag.startsWith('--config='));
  const kubeconfig = flags.filter((flag) => !flag.startsWith('--config='));
  return sections([
    'Service',
    [
      `Environment="KUBELET_KUBECONFIG_ARGS=${quoted(kubeconfig.join(' '))}"`,
      `Environment="KUBELET_CONFIG_ARGS=${quoted(config.join(' '))}"`,
      'EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env',
      'EnvironmentFile=-/etc/default/kubelet',
      'ExecStart=',
      'ExecStart=kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS',
    ],
  ]);
}

/** The lines of kubelet's files, its unit and its drop-in. */
export const kubeletLines = (resolved: ResolvedCluster, machine: ClusterMachine): readonly PlanLine[] => [
  ...kubeletFiles(resolved, machine).map(({ path, mode, text }) => put(path, text, mode)),
  put(UNIT, unit(RUNTIMES[resolved.runtime].unit)),
  put(DROP_IN, dropIn(resolved, machine)),
];

/**
 * Whether kubelet reads this file only when it starts, so that a change has to restart it. kubelet
 * reloads its certificates and its trusted CAs without a restart.
 */
export const readByKubelet = (path: string): boolean =>
  [UNIT, DROP_IN, '/etc/kubernetes/kubelet.conf', '/usr/local/bin/kubelet'].includes(path) ||
  /^\/var\/lib\/kubelet\/[^/]+$/.test(path);
