/**
 * Checks overrides of KubeletConfiguration: whether this version of kubelet has the field, and the
 * type of its value.
 */

import { didYouMean } from '../../base/suggest.ts';
import { type ClusterFault, clusterError } from './fault.ts';
import { MINORS } from './flags.ts';
import { type KubeletFieldType, kubeletFields } from './kubelet-fields.ts';
import { kubeletRuleFaults } from './kubelet-rules.ts';
import type { ResolvedCluster, Value } from './resolved-cluster.ts';
import { minorOf } from './versions.ts';

const isMapping = (value: Value): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isList = (value: Value): value is readonly Value[] => Array.isArray(value);
const values = (value: Value): readonly Value[] => (isMapping(value) ? Object.values(value as object) : []);

/** The types of a configuration's fields. `what` completes the message "expected …". */
export const FIELD_TYPES: Readonly<
  Record<KubeletFieldType, { readonly holds: (value: Value) => boolean; readonly what: string }>
> = {
  text: { holds: (value) => typeof value === 'string', what: 'a text; quote it' },
  duration: {
    // Go's time.ParseDuration
    holds: (value) =>
      typeof value === 'string' && /^(0|-?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$/.test(value),
    what: 'a duration like "90s" or "1h30m"',
  },
  truth: { holds: (value) => typeof value === 'boolean', what: 'true or false, unquoted' },
  whole: { holds: Number.isSafeInteger, what: 'a whole number, unquoted' },
  number: { holds: (value) => typeof value === 'number', what: 'a number, unquoted' },
  texts: {
    holds: (value) => isList(value) && value.every((item) => typeof item === 'string'),
    what: 'a list of texts',
  },
  list: { holds: isList, what: 'a list' },
  textMapping: {
    holds: (value) => isMapping(value) && values(value).every((item) => typeof item === 'string'),
    what: 'a mapping of names to texts; quote numbers',
  },
  gates: {
    holds: (value) => isMapping(value) && values(value).every((item) => typeof item === 'boolean'),
    what: 'a mapping of feature gates to true or false, unquoted',
  },
  mapping: { holds: isMapping, what: 'a mapping' },
};

/** Faults of both parts of `kubelet`. A kubelet older than the tables is not checked. */
export function kubeletFaults({ kubelet, versions, flags }: ResolvedCluster): readonly ClusterFault[] {
  const own = minorOf(versions.kubelet);
  const minor = MINORS.find((one) => one === own);
  if (minor === undefined) return [];
  const fields = kubeletFields(minor);
  const types = (['config', 'controlPlaneConfig'] as const).flatMap((part) =>
    Object.entries(kubelet[part]).flatMap(([field, value]) => {
      const type = fields.get(field);
      if (type !== undefined && FIELD_TYPES[type].holds(value)) return [];
      const others = MINORS.filter((one) => kubeletFields(one).has(field));
      const message =
        type !== undefined
          ? `expected ${FIELD_TYPES[type].what}`
          : `KubeletConfiguration of ${minor} has no ${field}${others.length > 0 ? `; ${others.join(', ')} know it` : didYouMean(field, fields.keys())}`;
      return [clusterError(`overrides.kubelet.${part}.${field}`, message)];
    }),
  );
  // A rule reads several fields, which must have their types.
  if (types.length > 0) return types;
  const given = new Set(Object.keys(flags.kubelet));
  const shared = kubeletRuleFaults(kubelet.config, given);
  const others = kubeletRuleFaults({ ...kubelet.config, ...kubelet.controlPlaneConfig }, given).filter(
    (fault) => !shared.some(({ field, message }) => field === fault.field && message === fault.message),
  );
  return [
    ...shared.map(({ field, message }) => clusterError(`overrides.kubelet.config.${field}`, message)),
    ...others.map(({ field, message }) =>
      clusterError(`overrides.kubelet.controlPlaneConfig.${field}`, message),
    ),
  ];
}
