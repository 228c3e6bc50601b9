/**
 * The fields of KubeletConfiguration v1beta1 and their types, so that a misspelt or wrongly typed
 * field is refused when the Cluster is applied, and not by kubelet on every machine. The list is
 * taken from the Go types of 1.34.9, 1.35.6 and 1.36.2.
 */
import { MINORS, type Minor } from './flags.ts';

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
    kubeAPIBurst kubeAPIQPS maxOpenFiles maxParallelImagePulls maxPods nodeLeaseDurationSeconds
    nodeStatusMaxImages oomScoreAdj podPidsLimit podsPerCore port readOnlyPort registryBurst registryPullQPS
  `),
  number: words(`
    memoryThrottlingFactor
  `),
  texts: words(`
    allowedUnsafeSysctls clusterDNS enforceNodeAllocatable preloadedImagesVerificationAllowlist
    tlsCipherSuites
  `),
  list: words(`
    registerWithTaints reservedMemory shutdownGracePeriodByPodPriority tlsCurvePreferences
  `),
  textMapping: words(`
    cpuManagerPolicyOptions evictionHard evictionMinimumReclaim evictionSoft evictionSoftGracePeriod
    kubeReserved qosReserved systemReserved topologyManagerPolicyOptions
  `),
  gates: words(`
    featureGates
  `),
  mapping: words(`
    authentication authorization crashLoopBackOff logging memorySwap staticPodURLHeader tracing
    userNamespaces
  `),
} as const satisfies Readonly<Record<string, readonly string[]>>;

export type KubeletFieldType = keyof typeof FIELDS;

/** Fields that only some versions have. */
const SINCE: Readonly<Record<string, Minor>> = {
  memoryReservationPolicy: '1.36',
  tlsCurvePreferences: '1.36',
};

const TYPES: ReadonlyMap<string, KubeletFieldType> = new Map(
  (Object.keys(FIELDS) as KubeletFieldType[]).flatMap((type) =>
    FIELDS[type].map((field) => [field, type] as const),
  ),
);

/** The fields of a minor version, with their types. */
export const kubeletFields = (minor: Minor): ReadonlyMap<string, KubeletFieldType> =>
  new Map([...TYPES].filter(([field]) => MINORS.indexOf(SINCE[field] ?? MINORS[0]) <= MINORS.indexOf(minor)));
