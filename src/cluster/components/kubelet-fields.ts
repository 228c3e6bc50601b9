/**
 * The fields of KubeletConfiguration v1beta1 and their types, so that a misspelt or wrongly typed
 * field is refused when the Cluster is applied, and not by kubelet on every machine. The list is
 * taken from the Go types of 1.34.9, 1.35.6 and 1.36.2.
 */

import { MINORS, type Minor } from '../model/versions.ts';
import { type FieldType, LOGGING, type Shape } from './config-shapes.ts';

const words = (text: string): readonly string[] => text.trim().split(/\s+/);

/** Fields by type. */
const FIELDS = {
  text: words(`
    address cgroupDriver cgroupRoot clusterDomain configMapAndSecretChangeDetectionStrategy
    containerLogMaxSize containerRuntimeEndpoint contentType cpuManagerPolicy hairpinMode healthzBindAddress
    imagePullCredentialsVerificationPolicy imageServiceEndpoint kubeReservedCgroup kubeletCgroups
    memoryManagerPolicy memoryReservationPolicy podCIDR podLogsDir providerID reservedSystemCPUs resolvConf
    showHiddenMetricsForVersion staticPodPath staticPodURL systemCgroups systemReservedCgroup tlsCertFile
    tlsMinVersion tlsPrivateKeyFile topologyManagerPolicy topologyManagerScope volumePluginDir
  `),
  duration: words(`
    containerLogMonitorInterval cpuCFSQuotaPeriod cpuManagerReconcilePeriod evictionPressureTransitionPeriod
    fileCheckFrequency httpCheckFrequency imageMaximumGCAge imageMinimumGCAge nodeStatusReportFrequency
    nodeStatusUpdateFrequency runtimeRequestTimeout shutdownGracePeriod shutdownGracePeriodCriticalPods
    streamingConnectionIdleTimeout syncFrequency volumeStatsAggPeriod
  `),
  truth: words(`
    cgroupsPerQOS cpuCFSQuota enableContentionProfiling enableControllerAttachDetach enableDebugFlagsHandler
    enableDebuggingHandlers enableProfilingHandler enableServer enableSystemLogHandler enableSystemLogQuery
    failCgroupV1 failSwapOn kernelMemcgNotification localStorageCapacityIsolation makeIPTablesUtilChains
    mergeDefaultEvictionSettings protectKernelDefaults registerNode rotateCertificates runOnce seccompDefault
    serializeImagePulls serverTLSBootstrap singleProcessOOMKill
  `),
  whole: words(`
    containerLogMaxFiles containerLogMaxWorkers eventBurst eventRecordQPS evictionMaxPodGracePeriod
    healthzPort imageGCHighThresholdPercent imageGCLowThresholdPercent iptablesDropBit iptablesMasqueradeBit
    kubeAPIBurst kubeAPIQPS maxParallelImagePulls maxPods nodeLeaseDurationSeconds
    nodeStatusMaxImages oomScoreAdj podsPerCore port readOnlyPort registryBurst registryPullQPS
  `),
  long: words(`
    maxOpenFiles podPidsLimit
  `),
  number: words(`
    memoryThrottlingFactor
  `),
  texts: words(`
    allowedUnsafeSysctls clusterDNS enforceNodeAllocatable preloadedImagesVerificationAllowlist
    tlsCipherSuites
  `),
  textMapping: words(`
    cpuManagerPolicyOptions evictionHard evictionMinimumReclaim evictionSoft evictionSoftGracePeriod
    kubeReserved qosReserved systemReserved topologyManagerPolicyOptions
  `),
  gates: words(`
    featureGates
  `),
} as const satisfies Partial<Record<FieldType, readonly string[]>>;

/** Fields that are mappings or lists of mappings. */
const NESTED = {
  authentication: {
    anonymous: { enabled: 'truth' },
    webhook: { enabled: 'truth', cacheTTL: 'duration' },
    x509: { clientCAFile: 'text' },
  },
  authorization: {
    mode: 'text',
    webhook: { cacheAuthorizedTTL: 'duration', cacheUnauthorizedTTL: 'duration' },
  },
  crashLoopBackOff: { maxContainerRestartPeriod: 'duration' },
  logging: LOGGING,
  memorySwap: { swapBehavior: 'text' },
  registerWithTaints: [{ key: 'text', value: 'text', effect: 'text' }],
  reservedMemory: [{ numaNode: 'whole', limits: { '*': 'quantity' } }],
  shutdownGracePeriodByPodPriority: [{ priority: 'whole', shutdownGracePeriodSeconds: 'long' }],
  staticPodURLHeader: { '*': 'texts' },
  tlsCurvePreferences: ['whole'],
  tracing: { endpoint: 'text', samplingRatePerMillion: 'whole' },
  userNamespaces: { idsPerPod: 'long' },
} as const satisfies Readonly<Record<string, Shape>>;

/** Fields that only some versions have. */
const SINCE: Readonly<Record<string, Minor>> = {
  memoryReservationPolicy: '1.36',
  tlsCurvePreferences: '1.36',
};

const SHAPES: ReadonlyMap<string, Shape> = new Map<string, Shape>([
  ...(Object.keys(FIELDS) as (keyof typeof FIELDS)[]).flatMap((type) =>
    FIELDS[type].map((field) => [field, type] as const),
  ),
  ...Object.entries(NESTED),
]);

/** The fields of a minor version, with their shapes. */
export const kubeletFields = (minor: Minor): ReadonlyMap<string, Shape> =>
  new Map(
    [...SHAPES].filter(([field]) => MINORS.indexOf(SINCE[field] ?? MINORS[0]) <= MINORS.indexOf(minor)),
  );
