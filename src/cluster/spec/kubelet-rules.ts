/**
 * What kubelet checks in its configuration before it starts, beside the types of fields
 * (pkg/kubelet/apis/config/validation/validation.go and the managers of CPUs and memory). With a
 * value that fails here it ends on every machine.
 */
import { parseDuration } from '../../base/duration.ts';
import type { ResolvedCluster, Value } from './resolved-cluster.ts';

type Config = ResolvedCluster['kubelet']['config'];

interface RuleFault {
  readonly field: string;
  readonly message: string;
}

const PORT = [0, 65_535] as const;
const NOT_NEGATIVE = [0, Infinity] as const;

/** The least and the largest value of a field. */
const RANGES: Readonly<Record<string, readonly [number, number]>> = {
  containerLogMaxFiles: [2, Infinity],
  eventBurst: NOT_NEGATIVE,
  eventRecordQPS: NOT_NEGATIVE,
  healthzPort: PORT,
  imageGCHighThresholdPercent: [0, 100],
  imageGCLowThresholdPercent: [0, 100],
  iptablesDropBit: [0, 31],
  iptablesMasqueradeBit: [0, 31],
  kubeAPIBurst: NOT_NEGATIVE,
  kubeAPIQPS: NOT_NEGATIVE,
  maxOpenFiles: NOT_NEGATIVE,
  maxParallelImagePulls: [1, Infinity],
  maxPods: NOT_NEGATIVE,
  nodeLeaseDurationSeconds: [1, Infinity],
  nodeStatusMaxImages: [-1, Infinity],
  oomScoreAdj: [-1000, 1000],
  podsPerCore: NOT_NEGATIVE,
  port: [1, 65_535],
  readOnlyPort: PORT,
  registryBurst: NOT_NEGATIVE,
  registryPullQPS: NOT_NEGATIVE,
};

/** The names that a field may have. */
const CHOICES: Readonly<Record<string, readonly string[]>> = {
  configMapAndSecretChangeDetectionStrategy: ['Cache', 'Get', 'Watch'],
  cpuManagerPolicy: ['none', 'static'],
  hairpinMode: ['hairpin-veth', 'none', 'promiscuous-bridge'],
  memoryManagerPolicy: ['None', 'Static'],
  tlsMinVersion: ['VersionTLS10', 'VersionTLS11', 'VersionTLS12', 'VersionTLS13'],
  topologyManagerPolicy: ['best-effort', 'none', 'restricted', 'single-numa-node'],
  topologyManagerScope: ['container', 'pod'],
};

interface CrossRule {
  readonly field: string;
  /** Flags that win over a field of the rule; with one of them the rule is left out. */
  readonly flags: readonly string[];
  /** What is wrong; undefined when nothing is. */
  readonly fault: (config: Config) => string | undefined;
}

const number = (value: Value | undefined, otherwise: number): number =>
  typeof value === 'number' ? value : otherwise;
const milliseconds = (value: Value | undefined, otherwise: number): number =>
  (typeof value === 'string' ? parseDuration(value) : undefined) ?? otherwise;
const keysOf = (value: Value | undefined): readonly string[] =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.keys(value) : [];

const CROSS_RULES: readonly CrossRule[] = [
  {
    field: 'imageGCLowThresholdPercent',
    flags: ['image-gc-low-threshold', 'image-gc-high-threshold'],
    fault: ({ imageGCLowThresholdPercent, imageGCHighThresholdPercent }) => {
      const [low, high] = [number(imageGCLowThresholdPercent, 80), number(imageGCHighThresholdPercent, 85)];
      return low < high ? undefined : `${low} is not less than imageGCHighThresholdPercent, which is ${high}`;
    },
  },
  {
    field: 'maxParallelImagePulls',
    flags: ['serialize-image-pulls'],
    fault: ({ maxParallelImagePulls, serializeImagePulls }) =>
      number(maxParallelImagePulls, 0) > 1 && serializeImagePulls === true
        ? 'more than 1 needs serializeImagePulls: false'
        : undefined,
  },
  {
    field: 'evictionSoft',
    flags: ['eviction-soft', 'eviction-soft-grace-period'],
    fault: ({ evictionSoft, evictionSoftGracePeriod }) => {
      const without = keysOf(evictionSoft).find((key) => !keysOf(evictionSoftGracePeriod).includes(key));
      return without === undefined ? undefined : `${without} needs a period in evictionSoftGracePeriod`;
    },
  },
  {
    field: 'shutdownGracePeriodCriticalPods',
    flags: [],
    fault: ({ shutdownGracePeriod, shutdownGracePeriodCriticalPods }) =>
      milliseconds(shutdownGracePeriodCriticalPods, 0) > milliseconds(shutdownGracePeriod, 0)
        ? 'it is longer than shutdownGracePeriod, of which it is a part'
        : undefined,
  },
  {
    field: 'imageMaximumGCAge',
    flags: ['minimum-image-ttl-duration'],
    fault: ({ imageMaximumGCAge, imageMinimumGCAge }) => {
      const most = milliseconds(imageMaximumGCAge, 0);
      return most > 0 && most <= milliseconds(imageMinimumGCAge, 120_000)
        ? 'it is not longer than imageMinimumGCAge, which is 2m by default'
        : undefined;
    },
  },
  {
    field: 'cpuManagerPolicy',
    flags: ['cpu-manager-policy', 'reserved-cpus', 'kube-reserved', 'system-reserved'],
    fault: ({ cpuManagerPolicy, reservedSystemCPUs = '', kubeReserved, systemReserved }) =>
      cpuManagerPolicy === 'static' &&
      reservedSystemCPUs === '' &&
      ![kubeReserved, systemReserved].some((reserved) => keysOf(reserved).includes('cpu'))
        ? 'static needs CPUs for the system: reservedSystemCPUs, or cpu in kubeReserved or systemReserved'
        : undefined,
  },
  {
    field: 'memoryManagerPolicy',
    flags: ['memory-manager-policy', 'reserved-memory'],
    fault: ({ memoryManagerPolicy, reservedMemory }) =>
      memoryManagerPolicy === 'Static' && !(Array.isArray(reservedMemory) && reservedMemory.length > 0)
        ? 'Static needs reservedMemory'
        : undefined,
  },
];

/** Faults of a whole configuration. `flags`: the flags that kubelet gets besides. */
export function kubeletRuleFaults(config: Config, flags: ReadonlySet<string>): readonly RuleFault[] {
  const found: RuleFault[] = [];
  for (const [field, [least, most]] of Object.entries(RANGES)) {
    const value = config[field];
    if (typeof value === 'number' && (value < least || value > most))
      found.push({
        field,
        message:
          most === Infinity
            ? `${value} is less than ${least}`
            : `${value} is not between ${least} and ${most}`,
      });
  }
  for (const [field, choices] of Object.entries(CHOICES)) {
    const value = config[field];
    if (typeof value === 'string' && value !== '' && !choices.includes(value))
      found.push({ field, message: `kubelet has no "${value}" here; it takes ${choices.join(', ')}` });
  }
  for (const { field, flags: winning, fault } of CROSS_RULES) {
    const message = winning.some((flag) => flags.has(flag)) ? undefined : fault(config);
    if (message !== undefined) found.push({ field, message });
  }
  return found;
}
