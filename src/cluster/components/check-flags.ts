/**
 * Checks the flags and feature gates of components: whether this version has them, whether it takes
 * their values, and whether a static pod sees the files that they name.
 */
import { isAbsolute, normalize } from 'node:path/posix';
import { didYouMean } from '../../base/suggest.ts';
import { mountedDirectories } from '../model/apiserver-mounts.ts';
import { type ClusterFault, clusterError } from '../model/fault.ts';
import { COMPONENTS, type Component, type ResolvedCluster } from '../model/resolved-cluster.ts';
import { ETCD_MINORS, MINORS, type Minor, minorOf } from '../model/versions.ts';
import { limitFaults } from './flag-limits.ts';
import { flagRuleFaults } from './flag-rules.ts';
import { flagValueFault } from './flag-values.ts';
import {
  ETCD_FLAGS,
  FLAGS,
  KUBERNETES_COMPONENTS,
  type KubernetesComponent,
  known,
  minorsKnowing,
} from './flags.ts';
import { dependencyFaults, gateFaults, gatesTextFaults, gatesVersion, settingsOf } from './gates.ts';
import { KUBELET_PARTS } from './kubelet-flags.ts';
import { labelsFlagFaults } from './nodes.ts';
import { insteadOfFlag } from './removed.ts';

type Found = ClusterFault[];

/** Faults of all flags, and of kubelet's feature gates. */
export function flagFaults(resolved: ResolvedCluster, forced = false): readonly ClusterFault[] {
  const single = singleFaults(resolved);
  // A rule reads several flags, which must have their types.
  return single.length > 0 && !forced ? single : [...single, ...flagRuleFaults(resolved)];
}

function singleFaults(resolved: ResolvedCluster): readonly ClusterFault[] {
  const found: Found = [];
  for (const component of COMPONENTS) {
    const names = namesOf(resolved, component);
    if (names === undefined) continue;
    for (const [flag, value] of Object.entries(resolved.flags[component])) {
      const path = `overrides.flags.${component}.${flag}`;
      if (!names.has(flag)) {
        found.push(clusterError(path, unknownFlag(resolved, component, flag, names)));
        continue;
      }
      for (const text of [value].flat())
        if (typeof text !== 'string' || /[\0\n\r]/.test(text))
          found.push(clusterError(path, 'expected a text on one line; quote numbers and true, false'));
        else
          found.push(
            ...textFaults(resolved, component, flag, text).map((message) => clusterError(path, message)),
          );
    }
  }
  return [...found, ...kubeletGateFaults(resolved), ...gateDependencyFaults(resolved)];
}

/** Faults of single gates in kubelet's configuration. */
const kubeletGateFaults = (resolved: ResolvedCluster): Found =>
  KUBELET_PARTS.flatMap((part) => {
    const gates = resolved.kubelet[part].featureGates;
    if (typeof gates !== 'object' || gates === null) return [];
    return Object.entries(gates)
      .flatMap(([gate, on]) => gateFaults(tableOf(resolved, 'kubelet'), gate, on))
      .map((message) => clusterError(`overrides.kubelet.${part}.featureGates`, message));
  });

/** Faults between gates, each where the gates of the component are set. */
function gateDependencyFaults(resolved: ResolvedCluster): Found {
  const ofFlags = KUBERNETES_COMPONENTS.flatMap((component) => {
    const inFlag = resolved.flags[component]['feature-gates'] !== undefined;
    if (component === 'kubelet' && !inFlag) return [];
    return dependencyFaults(gatesVersion(resolved, component), settingsOf(resolved, component)).map(
      (message) => clusterError(`overrides.flags.${component}.feature-gates`, message),
    );
  });
  if (resolved.flags.kubelet['feature-gates'] !== undefined) return ofFlags;
  const parts = KUBELET_PARTS.filter((part) => resolved.kubelet[part].featureGates !== undefined);
  return [
    ...ofFlags,
    ...parts.flatMap((part) =>
      dependencyFaults(tableOf(resolved, 'kubelet'), settingsOf(resolved, 'kubelet', part)).map((message) =>
        clusterError(`overrides.kubelet.${part}.featureGates`, message),
      ),
    ),
  ];
}

/** Faults of one value of a flag that the component has. */
function textFaults(
  resolved: ResolvedCluster,
  component: Component,
  flag: string,
  text: string,
): readonly string[] {
  // What only a machine or the founding fills in is ours.
  if (text.includes('${')) return [];
  const version = component === 'etcd' ? resolved.etcd.minor : minorOf(resolved.versions[component]);
  if (component === 'etcd') {
    const info = ETCD_FLAGS.get(flag)?.get(version);
    // Its default, and the only value that is no list of URLs.
    if (flag === 'cors' && text === '*') return [];
    const fault = info && flagValueFault(info, text, `etcd ${version}`);
    const limits = fault === undefined ? limitFaults(component, flag, text, version) : [fault];
    return [...limits, ...fileFaults(resolved, component, flag, text)];
  }
  if (flag === 'feature-gates') return gatesTextFaults(resolved, component, text);
  if (component === 'kubelet' && /[\s"'\\]/.test(text))
    return [`"${text}" has a blank, a quote or a backslash; kubelet would read several words`];
  if (component === 'kubelet' && flag === 'node-labels') return labelsFlagFaults(text);
  const info = FLAGS[component].get(flag)?.get(version);
  const fault = info && flagValueFault(info, text, `${component} ${version}`);
  const limits = fault === undefined ? limitFaults(component, flag, text, version) : [fault];
  return [...limits, ...fileFaults(resolved, component, flag, text)];
}

/** Flags whose value is a file that the component reads. */
const FILES = /(^|-)(file|kubeconfig|(?<!^runtime-)config|certificate|key|authority|filepath-\w+)$/;

/** A static pod sees only the directories of the host that are mounted into it. */
function fileFaults(
  resolved: ResolvedCluster,
  component: Component,
  flag: string,
  text: string,
): readonly string[] {
  if (component === 'kubelet' || (component === 'etcd' && resolved.etcd.runs !== 'pod')) return [];
  const files = flag === 'tls-sni-cert-key' ? text.split(':')[0]!.split(',') : FILES.test(flag) ? [text] : [];
  const mounted = mountedDirectories(resolved, component);
  return files
    .filter((file) => file !== '')
    .flatMap((file) => {
      const place = normalize(file);
      if (!isAbsolute(file))
        return [`"${file}" is not an absolute path; ${component} looks for it in its image`];
      return mounted.some((directory) => place === directory || place.startsWith(`${directory}/`))
        ? []
        : [`${component} does not see ${file}: put the file below ${mounted.join(' or ')}`];
    });
}

/**
 * A component's own minor version, which may be older than the cluster's; undefined when the flag
 * tables do not cover it.
 */
function tableOf({ versions }: ResolvedCluster, component: KubernetesComponent): Minor | undefined {
  const own = minorOf(versions[component]);
  return MINORS.find((minor) => minor === own);
}

/**
 * The flags of a component; undefined for a component older than the flag tables, and for an
 * unknown version of etcd, which the check of versions reports.
 */
function namesOf(resolved: ResolvedCluster, component: Component): ReadonlySet<string> | undefined {
  if (component === 'etcd')
    return ETCD_MINORS.includes(resolved.etcd.minor) ? known(ETCD_FLAGS, resolved.etcd.minor) : undefined;
  const minor = tableOf(resolved, component);
  return minor && known(FLAGS[component], minor);
}

function unknownFlag(
  resolved: ResolvedCluster,
  component: Component,
  flag: string,
  names: ReadonlySet<string>,
): string {
  const version = component === 'etcd' ? resolved.etcd.minor : minorOf(resolved.versions[component]);
  const others = KUBERNETES_COMPONENTS.some((one) => one === component)
    ? minorsKnowing(FLAGS[component as keyof typeof FLAGS], flag)
    : ETCD_MINORS.filter((minor) => ETCD_FLAGS.get(flag)?.has(minor));
  const instead = component === 'etcd' ? undefined : insteadOfFlag(component, flag);
  const hints = [
    ...(others.length > 0 ? [`; ${others.join(', ')} ${others.length === 1 ? 'knows' : 'know'} it`] : []),
    ...(instead !== undefined ? [`; ${instead}`] : []),
  ];
  return `${component} ${version} has no flag --${flag}${hints.join('') || didYouMean(flag, names)}`;
}
