/**
 * Checks the configuration of kubelets, with the flags that set its fields: whether this version
 * has the fields, whether their values have their types, and what kubelet checks before it starts.
 */

import { ipNetwork, networkHolds, parseIp } from '../../base/ip.ts';
import { didYouMean } from '../../base/suggest.ts';
import { type ClusterFault, clusterError } from '../model/fault.ts';
import type { ResolvedCluster, Value } from '../model/resolved-cluster.ts';
import { MINORS, type Minor, minorOf } from '../model/versions.ts';
import { fieldsOf, type Shape, type ShapeFault, shapeFaults } from './config-shapes.ts';
import { isGateOn, settingsOf } from './gates.ts';
import { type EffectiveKubelet, effectiveKubelet, KUBELET_PARTS } from './kubelet-flags.ts';
import { kubeletRuleFaults } from './kubelet-rules.ts';

/** Faults of both parts of `kubelet`. A kubelet older than the tables is not checked. */
export function kubeletFaults(resolved: ResolvedCluster): readonly ClusterFault[] {
  const { kubelet, versions } = resolved;
  const own = minorOf(versions.kubelet);
  const minor = MINORS.find((one) => one === own);
  if (minor === undefined) return [];
  const shapes = KUBELET_PARTS.flatMap((part) =>
    Object.entries(kubelet[part])
      .flatMap(([field, value]) => fieldFaults(minor, field, value))
      .map(({ field, message }) => clusterError(`overrides.kubelet.${part}.${field}`, message)),
  );
  // A rule reads several fields, which must have their types.
  if (shapes.length > 0) return shapes;
  const found = new Map<string, ClusterFault>();
  for (const part of KUBELET_PARTS) {
    const effective = effectiveKubelet(resolved, part);
    const settings = settingsOf(resolved, 'kubelet', part);
    const gate = (name: string): boolean => isGateOn(minor, settings, name);
    const faults = kubeletRuleFaults({ config: effective.config, minor, gate });
    for (const { field, message } of [...faults, ...dnsFaults(resolved, effective)]) {
      // What every kubelet has is reported once, where it is written.
      const key = `${field}: ${message}`;
      if (!found.has(key)) found.set(key, clusterError(writtenAt(effective, part, field), message));
    }
  }
  return [...found.values()];
}

/** A Service address at which CoreDNS does not answer. A cache on each node has an own address. */
function dnsFaults(
  { networks, serviceAddresses }: ResolvedCluster,
  { config }: EffectiveKubelet,
): readonly ShapeFault[] {
  const asked = Array.isArray(config.clusterDNS) ? config.clusterDNS.map(String) : [];
  const served = serviceAddresses.dns.map(parseIp);
  const wrong = asked.find((text) => {
    const address = parseIp(text);
    return (
      address !== undefined &&
      networks.services.some((network) => networkHolds(ipNetwork(network), address)) &&
      !served.some((one) => one?.family === address.family && one.value === address.value)
    );
  });
  return wrong === undefined
    ? []
    : [
        {
          field: 'clusterDNS',
          message: `CoreDNS has the address ${serviceAddresses.dns.join(', ')}, and not ${wrong}; set overrides.serviceAddresses.dns, which kubelet follows`,
        },
      ];
}

/** The fields of each minor version, with their shapes. */
const FIELDS = new Map(
  MINORS.map((minor): [Minor, ReadonlyMap<string, Shape>] => [
    minor,
    new Map(Object.entries(fieldsOf('kubelet', minor))),
  ]),
);

function fieldFaults(minor: Minor, field: string, value: Value): readonly ShapeFault[] {
  const fields = FIELDS.get(minor)!;
  const shape = fields.get(field);
  if (shape !== undefined) return shapeFaults(shape, value, field, 'KubeletConfiguration');
  const others = MINORS.filter((one) => FIELDS.get(one)!.has(field));
  const hint =
    others.length > 0
      ? `; ${others.join(', ')} ${others.length === 1 ? 'knows' : 'know'} it`
      : didYouMean(field, fields.keys());
  return [{ field, message: `KubeletConfiguration of ${minor} has no ${field}${hint}` }];
}

function writtenAt({ flags }: EffectiveKubelet, part: (typeof KUBELET_PARTS)[number], field: string): string {
  const flag = flags.get(field);
  return flag === undefined ? `overrides.kubelet.${part}.${field}` : `overrides.flags.kubelet.${flag}`;
}
