/** kubelet's configuration and flags on one machine. */
import { fieldsOf } from '../../base/foreign-json.ts';
import { type Plain, yamlText } from '../../base/yaml-text.ts';
import { labelsFlag } from '../components/nodes.ts';
import {
  type ClusterMachine,
  CONTROL_PLANE_TAINT,
  type NodeTaint,
  type ResolvedCluster,
  type Value,
} from '../model/resolved-cluster.ts';
import { commandLine } from './manifests.ts';

/** The KubeletConfiguration of a machine; on control planes it includes their own settings. */
export function kubeletConfiguration(
  resolved: ResolvedCluster,
  machine: ClusterMachine,
): Readonly<Record<string, Value>> {
  const config: Record<string, Value> = {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    ...resolved.kubelet.config,
    ...(machine.roles.includes('control-plane') && resolved.kubelet.controlPlaneConfig),
  };
  const { registerWithTaints: given = [] } = config;
  const taints = machine.schedulable ? [given].flat().filter((taint) => !isOfControlPlanes(taint)) : given;
  if (machine.taints || machine.schedulable)
    config.registerWithTaints = [
      ...[taints].flat().filter((one) => !(machine.taints ?? []).some((own) => samePlace(own, one))),
      ...(machine.taints ?? []),
    ] as readonly Value[];
  // With serverTLSBootstrap kubelet requests its serving certificate from the cluster. If these
  // files had a certificate, kubelet would use it until it nears its end.
  if (config.serverTLSBootstrap === true) {
    delete config.tlsCertFile;
    delete config.tlsPrivateKeyFile;
  }
  return Object.fromEntries(Object.entries(config).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The API refuses a Node with two taints of one key and effect; that of the machine wins. */
const samePlace = ({ key, effect }: NodeTaint, other: unknown): boolean =>
  fieldsOf(other).key === key && fieldsOf(other).effect === effect;

const isOfControlPlanes = (taint: unknown): boolean => fieldsOf(taint).key === CONTROL_PLANE_TAINT.key;

/** Flags that kubeadm's drop-in for the unit sets; all others are in `kubeadm-flags.env`. */
const OF_THE_UNIT = ['bootstrap-kubeconfig', 'config', 'kubeconfig'];

/** kubelet's files, with the names that kubeadm uses, where kubeadm's later commands read them. */
export function kubeletFiles(
  resolved: ResolvedCluster,
  machine: ClusterMachine,
): readonly { readonly path: string; readonly mode: number; readonly text: string }[] {
  const { kubelet } = resolved.flags;
  const labels = labelsFlag(kubelet['node-labels'], machine.labels ?? {});
  const own = Object.fromEntries(
    Object.entries({ ...kubelet, ...(labels !== '' && { 'node-labels': labels }) }).filter(
      ([flag]) => !OF_THE_UNIT.includes(flag),
    ),
  );
  const runtime = resolved.kubelet.config.containerRuntimeEndpoint;
  return [
    {
      path: '/var/lib/kubelet/config.yaml',
      mode: 0o600,
      text: yamlText(kubeletConfiguration(resolved, machine) as Plain),
    },
    ...(typeof runtime === 'string'
      ? [
          {
            path: '/var/lib/kubelet/instance-config.yaml',
            mode: 0o644,
            text: yamlText({ containerRuntimeEndpoint: runtime }),
          },
        ]
      : []),
    {
      path: '/var/lib/kubelet/kubeadm-flags.env',
      mode: 0o644,
      text: `KUBELET_KUBEADM_ARGS="${commandLine(own, machine).map(escaped).join(' ')}"\n`,
    },
  ];
}

/**
 * Escapes a value between double quotes in systemd's EnvironmentFile, where backslash, quote,
 * dollar and backtick are special.
 */
const escaped = (text: string): string => text.replace(/[\\"$`]/g, '\\$&');

/** The flags in the unit's own `ExecStart`. */
export function kubeletUnitFlags(resolved: ResolvedCluster, machine: ClusterMachine): readonly string[] {
  const flags = Object.fromEntries(
    Object.entries(resolved.flags.kubelet).filter(([flag]) => OF_THE_UNIT.includes(flag)),
  );
  return commandLine(flags, machine);
}
