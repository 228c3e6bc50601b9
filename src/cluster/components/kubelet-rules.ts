/**
 * What kubelet checks in its configuration before it starts, beside the shapes of fields
 * (pkg/kubelet/apis/config/validation/validation.go and the managers of CPUs and memory). With a
 * value that fails here it ends on every machine.
 */

import { CONTROL_PLANE_PORTS, KUBELET_PORT } from '../model/ports.ts';
import type { ResolvedCluster, Value } from '../model/resolved-cluster.ts';
import type { Minor } from '../model/versions.ts';
import { minorBefore } from '../model/versions.ts';
import { fieldAt, LOGGING_GATES } from './config-shapes.ts';
import { goMilliseconds, quantityOf, suitesFault } from './flag-values.ts';
import { VALUE_CHECKS } from './kubelet-values.ts';

type Config = ResolvedCluster['kubelet']['config'];

interface RuleFault {
  readonly field: string;
  readonly message: string;
}

/** A kubelet: its configuration with the fields that flags set, and its feature gates. */
export interface KubeletFacts {
  readonly config: Config;
  readonly minor: Minor;
  /** Whether a gate is on. */
  readonly gate: (name: string) => boolean;
}

const PORT = [0, 65_535] as const;
const NOT_NEGATIVE = [0, Infinity] as const;

/** The least and the largest value of a field. */
const RANGES: Readonly<Record<string, readonly [number, number]>> = {
  containerLogMaxFiles: [2, Infinity],
  containerLogMaxWorkers: [1, Infinity],
  eventBurst: NOT_NEGATIVE,
  eventRecordQPS: NOT_NEGATIVE,
  healthzPort: PORT,
  imageGCHighThresholdPercent: [0, 100],
  imageGCLowThresholdPercent: [0, 100],
  iptablesDropBit: [0, 31],
  iptablesMasqueradeBit: [0, 31],
  kubeAPIBurst: NOT_NEGATIVE,
  kubeAPIQPS: NOT_NEGATIVE,
  'logging.verbosity': NOT_NEGATIVE,
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
  'tracing.samplingRatePerMillion': [0, 1_000_000],
};

/** The least and the longest time of a field, in milliseconds, as text for people too. */
const TIMES: Readonly<Record<string, readonly [least: string, most?: string]>> = {
  containerLogMonitorInterval: ['3s'],
  cpuCFSQuotaPeriod: ['1ms', '1s'],
  'crashLoopBackOff.maxContainerRestartPeriod': ['1s', '300s'],
  fileCheckFrequency: ['0s'],
  imageMaximumGCAge: ['0s'],
  imageMinimumGCAge: ['0s'],
  runtimeRequestTimeout: ['0s'],
  syncFrequency: ['0s'],
};

/** The names that a field may have. */
const CHOICES: Readonly<Record<string, readonly string[]>> = {
  'authorization.mode': ['AlwaysAllow', 'Webhook'],
  configMapAndSecretChangeDetectionStrategy: ['Cache', 'Get', 'Watch'],
  cpuManagerPolicy: ['none', 'static'],
  hairpinMode: ['hairpin-veth', 'none', 'promiscuous-bridge'],
  imagePullCredentialsVerificationPolicy: [
    'AlwaysVerify',
    'NeverVerify',
    'NeverVerifyAllowlistedImages',
    'NeverVerifyPreloadedImages',
  ],
  'logging.format': ['json', 'text'],
  memoryManagerPolicy: ['None', 'Static'],
  memoryReservationPolicy: ['None', 'TieredReservation'],
  'memorySwap.swapBehavior': ['LimitedSwap', 'NoSwap'],
  tlsMinVersion: ['VersionTLS10', 'VersionTLS11', 'VersionTLS12', 'VersionTLS13'],
  topologyManagerPolicy: ['best-effort', 'none', 'restricted', 'single-numa-node'],
  topologyManagerScope: ['container', 'pod'],
};

/** Fields that kubelet takes only with a gate. */
const GATED: readonly (readonly [field: string, gate: string, isSet: (value: Value) => boolean])[] = [
  ['cpuCFSQuotaPeriod', 'CustomCPUCFSQuotaPeriod', (value) => milliseconds(value, 100) !== 100],
  ...LOGGING_GATES,
  [
    'crashLoopBackOff.maxContainerRestartPeriod',
    'KubeletCrashLoopBackOffMax',
    (value) => typeof value === 'string',
  ],
  ['enableSystemLogQuery', 'NodeLogQuery', (value) => value === true],
  ['imageMaximumGCAge', 'ImageMaximumGCAge', (value) => milliseconds(value, 0) !== 0],
  ['imagePullCredentialsVerificationPolicy', 'KubeletEnsureSecretPulledImages', (value) => value !== ''],
  ['memoryReservationPolicy', 'MemoryQoS', (value) => value === 'TieredReservation'],
  ['memorySwap.swapBehavior', 'NodeSwap', (value) => value !== ''],
  [
    'preloadedImagesVerificationAllowlist',
    'KubeletEnsureSecretPulledImages',
    (value) => itemsOf(value).length > 0,
  ],
  ['qosReserved', 'QOSReserved', (value) => keysOf(value).length > 0],
  ['serverTLSBootstrap', 'RotateKubeletServerCertificate', (value) => value === true],
  ...['shutdownGracePeriod', 'shutdownGracePeriodCriticalPods'].map(
    (field) => [field, 'GracefulNodeShutdown', (value: Value) => milliseconds(value, 0) > 0] as const,
  ),
  [
    'shutdownGracePeriodByPodPriority',
    'GracefulNodeShutdownBasedOnPodPriority',
    (value) => itemsOf(value).length > 0,
  ],
];

interface CrossRule {
  readonly field: string;
  /** What is wrong; undefined when nothing is. */
  readonly fault: (config: Config, facts: KubeletFacts) => string | undefined;
}

const number = (value: Value | undefined, otherwise: number): number =>
  typeof value === 'number' ? value : otherwise;
const milliseconds = (value: Value | undefined, otherwise: number): number =>
  (typeof value === 'string' ? goMilliseconds(value) : undefined) ?? otherwise;
const keysOf = (value: Value | undefined): readonly string[] =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.keys(value) : [];
const itemsOf = (value: Value | undefined): readonly Value[] => (Array.isArray(value) ? value : []);
const isSet = (value: Value | undefined): boolean => typeof value === 'string' && value !== '';

/** A time that is zero or at least a second. */
const zeroOrSecond = (value: Value | undefined): string | undefined => {
  const time = milliseconds(value, 0);
  return time === 0 || time >= 1000 ? undefined : 'write 0s, or at least 1s';
};

/** What kubelet can enforce, each with the field that it then needs. */
const ENFORCED: Readonly<Record<string, string | undefined>> = {
  none: undefined,
  pods: undefined,
  'kube-reserved': 'kubeReservedCgroup',
  'kube-reserved-compressible': 'kubeReservedCgroup',
  'system-reserved': 'systemReservedCgroup',
  'system-reserved-compressible': 'systemReservedCgroup',
};

function enforcementFault(config: Config): string | undefined {
  const given = itemsOf(config.enforceNodeAllocatable).map(String);
  const unknown = given.find((one) => !Object.hasOwn(ENFORCED, one));
  if (unknown !== undefined)
    return `kubelet cannot enforce "${unknown}"; it takes ${Object.keys(ENFORCED).join(', ')}`;
  if (new Set(given).size < given.length) return 'an item is listed twice';
  if (given.includes('none') && given.length > 1) return '"none" is taken only by itself';
  const both = ['kube-reserved', 'system-reserved'].find(
    (one) => given.includes(one) && given.includes(`${one}-compressible`),
  );
  if (both !== undefined) return `list ${both} or ${both}-compressible, not both`;
  const without = given.find((one) => ENFORCED[one] !== undefined && !isSet(config[ENFORCED[one]]));
  if (without !== undefined) return `${without} needs ${ENFORCED[without]}`;
  return config.cgroupsPerQOS === false && (config.enforceNodeAllocatable === undefined || given.length > 0)
    ? 'cgroupsPerQOS: false needs enforceNodeAllocatable: []'
    : undefined;
}

const isMemory = (resource: string): boolean => resource === 'memory' || resource.startsWith('hugepages-');

/** The memory that kubelet keeps for evictions by default. */
const EVICTION_MEMORY = '100Mi';

/**
 * What kubelet keeps of a resource for the system; undefined where that depends on the machine.
 */
function keptOf(resource: string, config: Config): number | undefined {
  const { kubeReserved, systemReserved, evictionHard, mergeDefaultEvictionSettings } = config;
  const amountIn = (value: Value | undefined, name: string): string | undefined =>
    keysOf(value).includes(name) ? String((value as Readonly<Record<string, Value>>)[name]) : undefined;
  const isDefault =
    evictionHard === undefined || evictionHard === null || mergeDefaultEvictionSettings === true;
  const eviction = amountIn(evictionHard, 'memory.available') ?? (isDefault ? EVICTION_MEMORY : '0');
  const parts = [kubeReserved, systemReserved].map((one) => amountIn(one, resource) ?? '0');
  const amounts = [...parts, ...(resource === 'memory' ? [eviction] : [])].map(quantityOf);
  return amounts.reduce((sum, one) => (sum === undefined || one === undefined ? undefined : sum + one), 0);
}

/** kubelet's memory manager wants exactly what the node keeps to be spread over the NUMA nodes. */
function reservedMemoryFault(config: Config): string | undefined {
  if (config.memoryManagerPolicy !== 'Static') return undefined;
  const given = itemsOf(config.reservedMemory).flatMap((one) =>
    Object.entries((one as { readonly limits?: Readonly<Record<string, Value>> }).limits ?? {}),
  );
  if (given.length === 0) return 'Static needs reservedMemory';
  const resources = [
    ...given.map(([name]) => name),
    ...keysOf(config.kubeReserved),
    ...keysOf(config.systemReserved),
    'memory',
  ];
  for (const resource of new Set(resources.filter(isMemory))) {
    const kept = keptOf(resource, config);
    const sum = given.reduce(
      (all, [name, amount]) => all + (name === resource ? (quantityOf(String(amount)) ?? Number.NaN) : 0),
      0,
    );
    if (kept === undefined || Number.isNaN(sum) || kept === sum) continue;
    const keeps =
      resource === 'memory' ? `, and memory.available of evictionHard (${EVICTION_MEMORY} by default)` : '';
    return `reservedMemory has ${mebibytes(sum)} of ${resource}, and kubelet wants the ${mebibytes(kept)} that kubeReserved and systemReserved keep${keeps}`;
  }
  return undefined;
}

const mebibytes = (octets: number): string => `${Number((octets / 2 ** 20).toFixed(3))}Mi`;

const CROSS_RULES: readonly CrossRule[] = [
  {
    field: 'imageGCLowThresholdPercent',
    fault: ({ imageGCLowThresholdPercent, imageGCHighThresholdPercent }) => {
      const [low, high] = [number(imageGCLowThresholdPercent, 80), number(imageGCHighThresholdPercent, 85)];
      return low < high ? undefined : `${low} is not less than imageGCHighThresholdPercent, which is ${high}`;
    },
  },
  {
    field: 'maxParallelImagePulls',
    fault: ({ maxParallelImagePulls, serializeImagePulls }) =>
      number(maxParallelImagePulls, 0) > 1 && serializeImagePulls === true
        ? 'more than 1 needs serializeImagePulls: false'
        : undefined,
  },
  {
    field: 'evictionSoft',
    fault: ({ evictionSoft, evictionSoftGracePeriod }) => {
      const without = keysOf(evictionSoft).find((key) => !keysOf(evictionSoftGracePeriod).includes(key));
      return without === undefined ? undefined : `${without} needs a period in evictionSoftGracePeriod`;
    },
  },
  {
    field: 'shutdownGracePeriodCriticalPods',
    fault: ({ shutdownGracePeriod, shutdownGracePeriodCriticalPods }) =>
      milliseconds(shutdownGracePeriodCriticalPods, 0) > milliseconds(shutdownGracePeriod, 0)
        ? 'it is longer than shutdownGracePeriod, of which it is a part'
        : zeroOrSecond(shutdownGracePeriodCriticalPods),
  },
  { field: 'shutdownGracePeriod', fault: ({ shutdownGracePeriod }) => zeroOrSecond(shutdownGracePeriod) },
  {
    field: 'shutdownGracePeriodByPodPriority',
    fault: ({ shutdownGracePeriod, shutdownGracePeriodByPodPriority }) =>
      itemsOf(shutdownGracePeriodByPodPriority).length > 0 && milliseconds(shutdownGracePeriod, 0) > 0
        ? 'kubelet takes this or shutdownGracePeriod, not both'
        : undefined,
  },
  {
    field: 'imageMaximumGCAge',
    fault: ({ imageMaximumGCAge, imageMinimumGCAge }) => {
      const most = milliseconds(imageMaximumGCAge, 0);
      return most > 0 && most <= milliseconds(imageMinimumGCAge, 120_000)
        ? 'it is not longer than imageMinimumGCAge, which is 2m by default'
        : undefined;
    },
  },
  {
    field: 'cpuManagerPolicy',
    fault: ({ cpuManagerPolicy, reservedSystemCPUs = '', kubeReserved, systemReserved }) =>
      cpuManagerPolicy === 'static' &&
      reservedSystemCPUs === '' &&
      ![kubeReserved, systemReserved].some((reserved) => keysOf(reserved).includes('cpu'))
        ? 'static needs CPUs for the system: reservedSystemCPUs, or cpu in kubeReserved or systemReserved'
        : undefined,
  },
  {
    field: 'cpuManagerPolicyOptions',
    fault: ({ cpuManagerPolicy, cpuManagerPolicyOptions }) =>
      keysOf(cpuManagerPolicyOptions).length > 0 && cpuManagerPolicy !== 'static'
        ? 'kubelet takes options only with cpuManagerPolicy: static'
        : undefined,
  },
  {
    field: 'reservedSystemCPUs',
    fault: ({ reservedSystemCPUs, systemReservedCgroup, kubeReservedCgroup }) =>
      isSet(reservedSystemCPUs) && (isSet(systemReservedCgroup) || isSet(kubeReservedCgroup))
        ? 'kubelet does not take it together with systemReservedCgroup or kubeReservedCgroup'
        : undefined,
  },
  {
    field: 'memoryManagerPolicy',
    fault: reservedMemoryFault,
  },
  { field: 'enforceNodeAllocatable', fault: enforcementFault },
  {
    field: 'systemCgroups',
    fault: ({ systemCgroups, cgroupRoot }) =>
      isSet(systemCgroups) && !isSet(cgroupRoot) ? 'it needs cgroupRoot' : undefined,
  },
  {
    field: 'memoryThrottlingFactor',
    fault: ({ memoryThrottlingFactor: factor }) =>
      typeof factor === 'number' && (factor <= 0 || factor > 1)
        ? `${factor} is not more than 0 and at most 1`
        : undefined,
  },
  {
    field: 'enableSystemLogQuery',
    fault: ({ enableSystemLogQuery, enableSystemLogHandler }) =>
      enableSystemLogQuery === true && enableSystemLogHandler === false
        ? 'it needs enableSystemLogHandler: true'
        : undefined,
  },
  {
    field: 'preloadedImagesVerificationAllowlist',
    fault: ({ preloadedImagesVerificationAllowlist, imagePullCredentialsVerificationPolicy }) =>
      itemsOf(preloadedImagesVerificationAllowlist).length > 0 &&
      imagePullCredentialsVerificationPolicy !== 'NeverVerifyAllowlistedImages'
        ? 'it needs imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages'
        : undefined,
  },
  {
    field: 'runOnce',
    fault: ({ runOnce }) => (runOnce === true ? 'kubelet no longer runs once; remove it' : undefined),
  },
  {
    field: 'showHiddenMetricsForVersion',
    fault: ({ showHiddenMetricsForVersion: text }, { minor }) => {
      const before = minorBefore(minor);
      return isSet(text) && text !== before ? `kubelet ${minor} takes ${before} alone` : undefined;
    },
  },
  {
    field: 'tracing.endpoint',
    fault: (config) => {
      const endpoint = fieldAt(config, 'tracing.endpoint');
      return typeof endpoint === 'string' && /\s/.test(endpoint) ? `"${endpoint}" has a blank` : undefined;
    },
  },
  {
    field: 'tlsCipherSuites',
    fault: ({ tlsCipherSuites, tlsMinVersion }) =>
      tlsMinVersion === 'VersionTLS13' ? undefined : suitesFault(itemsOf(tlsCipherSuites).map(String)),
  },
  {
    field: 'readOnlyPort',
    fault: ({ readOnlyPort, port }) => {
      const used = number(readOnlyPort, 0);
      return used !== 0 && (used === number(port, KUBELET_PORT) || CONTROL_PLANE_PORTS.has(used))
        ? `another program of the cluster listens at port ${used}; write another one, like 10255`
        : undefined;
    },
  },
  {
    field: 'port',
    fault: ({ port }) => {
      const used = number(port, KUBELET_PORT);
      return used !== KUBELET_PORT && CONTROL_PLANE_PORTS.has(used)
        ? `another program of the cluster listens at port ${used}; leave \`port\` out for ${KUBELET_PORT}`
        : undefined;
    },
  },
  {
    field: 'enableServer',
    fault: ({ enableServer }) =>
      enableServer === false
        ? 'API servers could not reach kubelet for logs and exec; leave it out'
        : undefined,
  },
  {
    field: 'podCIDR',
    fault: ({ podCIDR }) =>
      isSet(podCIDR)
        ? 'kubelet reads it only without a cluster; the pods of a node get theirs from networks.pods'
        : undefined,
  },
  {
    field: 'userNamespaces.idsPerPod',
    fault: (config) => {
      const ids = fieldAt(config, 'userNamespaces.idsPerPod');
      return typeof ids === 'number' && (ids <= 0 || ids % 65_536 !== 0 || ids >= 2 ** 32)
        ? `${ids} is not a multiple of 65536`
        : undefined;
    },
  },
];

function rangeFault(field: string, value: Value | undefined): string | undefined {
  const [least, most] = RANGES[field]!;
  if (typeof value !== 'number' || (value >= least && value <= most)) return undefined;
  return most === Infinity
    ? `${value} is less than ${least}`
    : `${value} is not between ${least} and ${most}`;
}

function timeFault(field: string, value: Value | undefined): string | undefined {
  const [least, most] = TIMES[field]!;
  const time = typeof value === 'string' ? goMilliseconds(value) : undefined;
  if (time === undefined) return undefined;
  if (time >= goMilliseconds(least)! && (most === undefined || time <= goMilliseconds(most)!))
    return undefined;
  return most === undefined
    ? `${value} is less than ${least}`
    : `${value} is not between ${least} and ${most}`;
}

function choiceFault(field: string, value: Value | undefined): string | undefined {
  const choices = CHOICES[field]!;
  return typeof value === 'string' && value !== '' && !choices.includes(value)
    ? `kubelet has no "${value}" here; it takes ${choices.join(', ')}`
    : undefined;
}

/** Faults of a whole configuration whose fields have their shapes. */
export function kubeletRuleFaults(facts: KubeletFacts): readonly RuleFault[] {
  const { config, minor, gate } = facts;
  const single = ([...Object.keys(RANGES), ...Object.keys(TIMES), ...Object.keys(CHOICES)] as const).map(
    (field): readonly [string, string | undefined] => {
      const value = fieldAt(config, field);
      if (field in RANGES) return [field, rangeFault(field, value)];
      return [field, field in TIMES ? timeFault(field, value) : choiceFault(field, value)];
    },
  );
  const gated = GATED.map(([field, name, isUsed]): readonly [string, string | undefined] => {
    const value = fieldAt(config, field);
    const missing = value !== undefined && value !== null && isUsed(value) && !gate(name);
    return [
      field,
      missing ? `kubelet ${minor} takes it only with the feature gate ${name}: true` : undefined,
    ];
  });
  const values = Object.entries(VALUE_CHECKS).flatMap(([field, check]) => {
    const value = config[field];
    return value === undefined || value === null
      ? []
      : check(value, minor).map((message): readonly [string, string] => [field, message]);
  });
  const crossed = CROSS_RULES.map(({ field, fault }): readonly [string, string | undefined] => [
    field,
    fault(config, facts),
  ]);
  return [...single, ...gated, ...values, ...crossed].flatMap(([field, message]) =>
    message === undefined ? [] : [{ field, message }],
  );
}
