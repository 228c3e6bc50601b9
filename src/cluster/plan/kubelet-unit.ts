/**
 * kubelet's unit, with the file names of kubeadm's package, where kubeadm's commands and operators
 * look for them.
 */

import type { PlanLine } from '../../agent/wire/plan.ts';
import { AUTHORITIES, KUBELET_CLIENT } from '../../pki/hierarchy.ts';
import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';
import { RESOLVER } from '../resolve/derive.ts';
import { IMAGES_SERVICE } from './images-unit.ts';
import { kubeletFiles, kubeletUnitFlags } from './kubelet.ts';
import { digestOf, proxyLines, put, sections } from './lines.ts';
import { REVISION } from './manifests.ts';
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

function dropIn(resolved: ResolvedCluster, machine: ClusterMachine, revision?: string): string {
  const flags = kubeletUnitFlags(resolved, machine);
  const config = flags.filter((flag) => flag.startsWith('--config='));
  const kubeconfig = flags.filter((flag) => !flag.startsWith('--config='));
  return sections([
    'Service',
    [
      `Environment="KUBELET_KUBECONFIG_ARGS=${quoted(kubeconfig.join(' '))}"`,
      `Environment="KUBELET_CONFIG_ARGS=${quoted(config.join(' '))}"`,
      ...proxyLines(resolved),
      ...(revision === undefined ? [] : [`Environment=${REVISION}=${revision}`]),
      'EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env',
      'EnvironmentFile=-/etc/default/kubelet',
      'ExecStart=',
      'ExecStart=kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS',
    ],
  ]);
}

interface KubeletPart {
  readonly files: readonly PlanLine[];
  readonly run: PlanLine;
  readonly revision: string;
}

/**
 * kubelet's files, its unit and the line that runs it. `reads`: other lines, among them those of
 * the files that kubelet reads only when it starts.
 */
export function kubeletPart(
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  reads: readonly PlanLine[],
): KubeletPart {
  const files = (revision?: string): readonly PlanLine[] => [
    ...kubeletFiles(resolved, machine).map(({ path, mode, text }) => put(path, text, mode)),
    put(UNIT, unit(RUNTIMES[resolved.runtime].unit), 0o600),
    put(DROP_IN, dropIn(resolved, machine, revision), 0o600),
  ];
  const digest = digestOf([...files(), ...reads], readByKubelet);
  const revision = digest.slice(0, 16);
  return { files: files(revision), run: { do: 'run', unit: KUBELET_SERVICE, digest }, revision };
}

/**
 * Whether kubelet reads this file only when it starts, so that a change has to restart it. It reads
 * its serving certificate and the CA of its clients again by itself. It keeps the CA by which it
 * verifies the API, because it brings a transport of its own, and its client certificate until that
 * is refused.
 */
const readByKubelet = (path: string): boolean =>
  [
    UNIT,
    DROP_IN,
    KUBELET_CLIENT.kubeconfig,
    KUBELET_CLIENT.path,
    AUTHORITIES.ca.bundle.path,
    '/usr/local/bin/kubelet',
  ].includes(path) || /^\/var\/lib\/kubelet\/[^/]+$/.test(path);
