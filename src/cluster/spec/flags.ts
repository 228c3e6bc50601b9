/**
 * The flags and feature gates of each version, so that an unknown flag is refused when the Cluster
 * is applied, and not by a component that fails to start. The lists are taken from the sources of
 * 1.34.9, 1.35.6 and 1.36.2.
 */

export const MINORS = ['1.34', '1.35', '1.36'] as const;
export type Minor = (typeof MINORS)[number];

export const KUBERNETES_COMPONENTS = [
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubelet',
] as const;
export type KubernetesComponent = (typeof KUBERNETES_COMPONENTS)[number];

interface Known {
  readonly always: readonly string[];
  /** Names that only some versions have. */
  readonly only: Partial<Readonly<Record<Minor, readonly string[]>>>;
}

const words = (text: string): readonly string[] => text.trim().split(/\s+/);

export const FLAGS: Readonly<Record<KubernetesComponent, Known>> = {
  'kube-apiserver': {
    always: words(`
      admission-control admission-control-config-file advertise-address
      aggregator-reject-forwarding-redirect allow-metric-labels allow-metric-labels-manifest
      allow-privileged anonymous-auth api-audiences apiserver-count audit-log-batch-buffer-size
      audit-log-batch-max-size audit-log-batch-max-wait audit-log-batch-throttle-burst
      audit-log-batch-throttle-enable audit-log-batch-throttle-qps audit-log-compress audit-log-format
      audit-log-maxage audit-log-maxbackup audit-log-maxsize audit-log-mode audit-log-path
      audit-log-truncate-enabled audit-log-truncate-max-batch-size audit-log-truncate-max-event-size
      audit-log-version audit-policy-file audit-webhook-batch-buffer-size
      audit-webhook-batch-initial-backoff audit-webhook-batch-max-size audit-webhook-batch-max-wait
      audit-webhook-batch-throttle-burst audit-webhook-batch-throttle-enable
      audit-webhook-batch-throttle-qps audit-webhook-config-file audit-webhook-initial-backoff
      audit-webhook-mode audit-webhook-truncate-enabled audit-webhook-truncate-max-batch-size
      audit-webhook-truncate-max-event-size audit-webhook-version authentication-config
      authentication-kubeconfig authentication-skip-lookup authentication-token-webhook-cache-ttl
      authentication-token-webhook-config-file authentication-token-webhook-version
      authentication-tolerate-lookup-failure authorization-always-allow-paths authorization-config
      authorization-kubeconfig authorization-mode authorization-policy-file
      authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl
      authorization-webhook-config-file authorization-webhook-version bind-address cert-dir client-ca-file
      contention-profiling coordinated-leadership-lease-duration coordinated-leadership-renew-deadline
      coordinated-leadership-retry-period cors-allowed-origins debug-socket-path default-watch-cache-size
      delete-collection-workers disable-admission-plugins disable-http2-serving disabled-metrics
      egress-selector-config-file emulated-version emulation-forward-compatible enable-admission-plugins
      enable-aggregator-routing enable-bootstrap-token-auth enable-garbage-collector enable-logs-handler
      enable-priority-and-fairness encryption-provider-config encryption-provider-config-automatic-reload
      endpoint-reconciler-type etcd-cafile etcd-certfile etcd-compaction-interval
      etcd-count-metric-poll-period etcd-db-metric-poll-interval etcd-healthcheck-timeout etcd-keyfile
      etcd-prefix etcd-readycheck-timeout etcd-servers etcd-servers-overrides event-ttl external-hostname
      feature-gates goaway-chance help http2-max-streams-per-connection kubeconfig
      kubelet-certificate-authority kubelet-client-certificate kubelet-client-key kubelet-port
      kubelet-preferred-address-types kubelet-read-only-port kubelet-timeout kubernetes-service-node-port
      lease-reuse-duration-seconds livez-grace-period log-flush-frequency log-json-info-buffer-size
      log-json-split-stream log-text-info-buffer-size log-text-split-stream logging-format
      max-connection-bytes-per-sec max-mutating-requests-inflight max-requests-inflight
      min-compatibility-version min-request-timeout oidc-ca-file oidc-client-id oidc-groups-claim
      oidc-groups-prefix oidc-issuer-url oidc-required-claim oidc-signing-algs oidc-username-claim
      oidc-username-prefix peer-advertise-ip peer-advertise-port peer-ca-file permit-address-sharing
      permit-port-sharing profiling proxy-client-cert-file proxy-client-key-file request-timeout
      requestheader-allowed-names requestheader-client-ca-file requestheader-extra-headers-prefix
      requestheader-group-headers requestheader-uid-headers requestheader-username-headers runtime-config
      runtime-config-emulation-forward-compatible secure-port send-retry-after-while-not-ready-once
      service-account-extend-token-expiration service-account-issuer service-account-jwks-uri
      service-account-key-file service-account-lookup service-account-max-token-expiration
      service-account-signing-endpoint service-account-signing-key-file service-cluster-ip-range
      service-node-port-range show-hidden-metrics-for-version shutdown-delay-duration
      shutdown-send-retry-after shutdown-watch-termination-grace-period storage-backend
      storage-initialization-timeout storage-media-type strict-transport-security-directives tls-cert-file
      tls-cipher-suites tls-min-version tls-private-key-file tls-sni-cert-key token-auth-file
      tracing-config-file v version vmodule watch-cache watch-cache-sizes
    `),
    only: {
      '1.36': words(`
        tls-curve-preferences
      `),
    },
  },
  'kube-controller-manager': {
    always: words(`
      allocate-node-cidrs allow-metric-labels allow-metric-labels-manifest allow-untagged-cloud
      attach-detach-reconcile-sync-period authentication-kubeconfig authentication-skip-lookup
      authentication-token-webhook-cache-ttl authentication-tolerate-lookup-failure
      authorization-always-allow-paths authorization-kubeconfig authorization-webhook-cache-authorized-ttl
      authorization-webhook-cache-unauthorized-ttl bind-address cert-dir cidr-allocator-type
      client-ca-file cloud-config cloud-provider cluster-cidr cluster-name cluster-signing-cert-file
      cluster-signing-duration cluster-signing-key-file cluster-signing-kube-apiserver-client-cert-file
      cluster-signing-kube-apiserver-client-key-file cluster-signing-kubelet-client-cert-file
      cluster-signing-kubelet-client-key-file cluster-signing-kubelet-serving-cert-file
      cluster-signing-kubelet-serving-key-file cluster-signing-legacy-unknown-cert-file
      cluster-signing-legacy-unknown-key-file concurrent-cron-job-syncs concurrent-daemonset-syncs
      concurrent-deployment-syncs concurrent-endpoint-syncs concurrent-ephemeralvolume-syncs
      concurrent-gc-syncs concurrent-horizontal-pod-autoscaler-syncs concurrent-job-syncs
      concurrent-namespace-syncs concurrent-node-syncs concurrent-rc-syncs concurrent-replicaset-syncs
      concurrent-resource-quota-syncs concurrent-service-endpoint-syncs concurrent-service-syncs
      concurrent-serviceaccount-token-syncs concurrent-statefulset-syncs
      concurrent-ttl-after-finished-syncs concurrent-validating-admission-policy-status-syncs
      configure-cloud-routes contention-profiling controller-start-interval controllers
      disable-attach-detach-reconcile-sync disable-force-detach-on-timeout disable-http2-serving
      disabled-metrics emulated-version enable-dynamic-provisioning enable-garbage-collector
      enable-hostpath-provisioner endpoint-updates-batch-period endpointslice-updates-batch-period
      external-cloud-volume-plugin feature-gates flex-volume-plugin-dir help
      horizontal-pod-autoscaler-cpu-initialization-period
      horizontal-pod-autoscaler-downscale-stabilization horizontal-pod-autoscaler-initial-readiness-delay
      horizontal-pod-autoscaler-sync-period horizontal-pod-autoscaler-tolerance
      http2-max-streams-per-connection kube-api-burst kube-api-content-type kube-api-qps kubeconfig
      large-cluster-size-threshold leader-elect leader-elect-lease-duration leader-elect-renew-deadline
      leader-elect-resource-lock leader-elect-resource-name leader-elect-resource-namespace
      leader-elect-retry-period legacy-service-account-token-clean-up-period log-flush-frequency
      log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size log-text-split-stream
      logging-format master max-endpoints-per-slice min-compatibility-version min-resync-period
      mirroring-concurrent-service-endpoint-syncs mirroring-endpointslice-updates-batch-period
      mirroring-max-endpoints-per-subset namespace-sync-period node-cidr-mask-size
      node-cidr-mask-size-ipv4 node-cidr-mask-size-ipv6 node-eviction-rate node-monitor-grace-period
      node-monitor-period node-startup-grace-period node-status-update-frequency node-sync-period
      permit-address-sharing permit-port-sharing profiling pv-recycler-increment-timeout-nfs
      pv-recycler-minimum-timeout-hostpath pv-recycler-minimum-timeout-nfs
      pv-recycler-pod-template-filepath-hostpath pv-recycler-pod-template-filepath-nfs
      pv-recycler-timeout-increment-hostpath pvclaimbinder-sync-period requestheader-allowed-names
      requestheader-client-ca-file requestheader-extra-headers-prefix requestheader-group-headers
      requestheader-uid-headers requestheader-username-headers resource-quota-sync-period root-ca-file
      route-reconciliation-period secondary-node-eviction-rate secure-port
      service-account-private-key-file service-cluster-ip-range show-hidden-metrics-for-version
      terminated-pod-gc-threshold tls-cert-file tls-cipher-suites tls-min-version tls-private-key-file
      tls-sni-cert-key unhealthy-zone-threshold use-service-account-credentials v version vmodule
      webhook-bind-address webhook-cert-dir webhook-secure-port webhook-tls-cert-file
      webhook-tls-private-key-file webhooks
    `),
    only: {
      '1.35': words(`
        concurrent-device-taint-eviction-syncs
      `),
      '1.36': words(`
        concurrent-device-taint-eviction-syncs concurrent-node-status-updates concurrent-resourceclaim-syncs
        tls-curve-preferences webhook-disable-http2-serving webhook-tls-cipher-suites
        webhook-tls-curve-preferences webhook-tls-min-version webhook-tls-sni-cert-key
      `),
    },
  },
  'kube-scheduler': {
    always: words(`
      allow-metric-labels allow-metric-labels-manifest authentication-kubeconfig
      authentication-skip-lookup authentication-token-webhook-cache-ttl
      authentication-tolerate-lookup-failure authorization-always-allow-paths authorization-kubeconfig
      authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl bind-address
      cert-dir client-ca-file config contention-profiling disable-http2-serving disabled-metrics
      emulated-version feature-gates help http2-max-streams-per-connection kube-api-burst
      kube-api-content-type kube-api-qps kubeconfig leader-elect leader-elect-lease-duration
      leader-elect-renew-deadline leader-elect-resource-lock leader-elect-resource-name
      leader-elect-resource-namespace leader-elect-retry-period log-flush-frequency
      log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size log-text-split-stream
      logging-format master min-compatibility-version permit-address-sharing permit-port-sharing
      pod-max-in-unschedulable-pods-duration profiling requestheader-allowed-names
      requestheader-client-ca-file requestheader-extra-headers-prefix requestheader-group-headers
      requestheader-uid-headers requestheader-username-headers secure-port show-hidden-metrics-for-version
      tls-cert-file tls-cipher-suites tls-min-version tls-private-key-file tls-sni-cert-key v version
      vmodule write-config-to
    `),
    only: {
      '1.36': words(`
        tls-curve-preferences
      `),
    },
  },
  kubelet: {
    always: words(`
      address allow-metric-labels allow-metric-labels-manifest allowed-unsafe-sysctls anonymous-auth
      authentication-token-webhook authentication-token-webhook-cache-ttl authorization-mode
      authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl
      bootstrap-kubeconfig cert-dir cgroup-driver cgroup-root cgroups-per-qos client-ca-file
      cloud-provider cluster-dns cluster-domain config config-dir container-log-max-files
      container-log-max-size container-runtime-endpoint contention-profiling cpu-cfs-quota
      cpu-cfs-quota-period cpu-manager-policy cpu-manager-policy-options cpu-manager-reconcile-period
      disabled-metrics enable-controller-attach-detach enable-debugging-handlers enable-server
      enforce-node-allocatable event-burst event-qps eviction-hard eviction-max-pod-grace-period
      eviction-minimum-reclaim eviction-pressure-transition-period eviction-soft
      eviction-soft-grace-period exit-on-lock-contention experimental-allocatable-ignore-eviction
      experimental-mounter-path fail-cgroupv1 fail-swap-on feature-gates file-check-frequency hairpin-mode
      healthz-bind-address healthz-port help hostname-override http-check-frequency
      image-credential-provider-bin-dir image-credential-provider-config image-gc-high-threshold
      image-gc-low-threshold image-service-endpoint kernel-memcg-notification kube-api-burst
      kube-api-content-type kube-api-qps kube-reserved kube-reserved-cgroup kubeconfig kubelet-cgroups
      local-storage-capacity-isolation lock-file log-flush-frequency log-json-info-buffer-size
      log-json-split-stream log-text-info-buffer-size log-text-split-stream logging-format
      make-iptables-util-chains manifest-url manifest-url-header max-open-files max-pods
      maximum-dead-containers maximum-dead-containers-per-container memory-manager-policy
      minimum-container-ttl-duration minimum-image-ttl-duration node-ip node-labels node-status-max-images
      node-status-update-frequency oom-score-adj pod-cidr pod-manifest-path pod-max-pids pods-per-core
      port protect-kernel-defaults provider-id qos-reserved read-only-port register-node
      register-with-taints registry-burst registry-qps reserved-cpus reserved-memory resolv-conf root-dir
      rotate-certificates rotate-server-certificates runonce runtime-cgroups runtime-request-timeout
      seccomp-default serialize-image-pulls show-hidden-metrics-for-version
      streaming-connection-idle-timeout sync-frequency system-cgroups system-reserved
      system-reserved-cgroup tls-cert-file tls-cipher-suites tls-min-version tls-private-key-file
      topology-manager-policy topology-manager-policy-options topology-manager-scope v version vmodule
      volume-plugin-dir volume-stats-agg-period
    `),
    only: {
      '1.34': words(`
        pod-infra-container-image
      `),
    },
  },
};

export const FEATURE_GATES: Known = {
  always: words(`
    APIResponseCompression APIServerIdentity APIServerTracing APIServingWithRoutine
    AggregatedDiscoveryRemoveBetaType AllAlpha AllBeta AllowDNSOnlyNodeCSR
    AllowInsecureKubeletCertificateSigningRequests AllowOverwriteTerminationGracePeriodSeconds
    AllowParsingUserUIDFromCertAuth AllowUnsafeMalformedObjectDeletion
    AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AuthorizeNodeWithSelectors
    AuthorizeWithSelectors BtreeWatchCache CBORServingAndStorage CPUManagerPolicyAlphaOptions
    CPUManagerPolicyBetaOptions CPUManagerPolicyOptions CRDValidationRatcheting CSIVolumeHealth
    ClearingNominatedNodeNameAfterBinding ClientsAllowCBOR ClientsPreferCBOR
    CloudControllerManagerWebhook ClusterTrustBundle ClusterTrustBundleProjection ComponentFlagz
    ComponentStatusz ConcurrentWatchObjectDecode ConsistentListFromCache ContainerCheckpoint
    ContainerRestartRules ContainerStopSignals ContextualLogging CoordinatedLeaderElection
    CrossNamespaceVolumeDataSource CustomCPUCFSQuotaPeriod CustomResourceFieldSelectors DRAAdminAccess
    DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource
    DRAPartitionableDevices DRAPrioritizedList DRAResourceClaimDeviceStatus DRASchedulerFilterTimeout
    DeclarativeValidation DeclarativeValidationTakeover DeploymentReplicaSetTerminatingReplicas
    DetectCacheInconsistency DisableAllocatorDualWrite DisableCPUQuotaWithExclusiveCPUs
    DisableNodeKubeProxyVersion DynamicResourceAllocation EnvFiles EventedPLEG ExecProbeTimeout
    ExternalServiceAccountTokenSigner GitRepoVolumeDriver GracefulNodeShutdown
    GracefulNodeShutdownBasedOnPodPriority HPAConfigurableTolerance HPAScaleToZero HostnameOverride
    ImageMaximumGCAge ImageVolume InOrderInformers InPlacePodVerticalScaling
    InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory
    InformerResourceVersion JobBackoffLimitPerIndex JobManagedBy JobPodReplacementPolicy
    JobSuccessPolicy KMSv1 KubeletCgroupDriverFromCRI KubeletCrashLoopBackOffMax
    KubeletEnsureSecretPulledImages KubeletFineGrainedAuthz KubeletInUserNamespace KubeletPSI
    KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletPodResourcesListUseActivePods
    KubeletRegistrationGetOnExistsOnly KubeletSeparateDiskGC
    KubeletServiceAccountTokenForCredentialProviders KubeletTracing ListFromCacheSnapshot
    LocalStorageCapacityIsolationFSQuotaMonitoring LogarithmicScaleDown LoggingAlphaOptions
    LoggingBetaOptions LoggingStableOptions MatchLabelKeysInPodAffinity
    MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge
    MaxUnavailableStatefulSet MemoryQoS MultiCIDRServiceAllocator MutableCSINodeAllocatableCount
    MutatingAdmissionPolicy MyFeature NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread
    NodeLogQuery NodeSwap NominatedNodeNameForExpectation OpenAPIEnums OrderedNamespaceDeletion
    PodAndContainerStatsFromCRI PodCertificateRequest PodDeletionCost PodLevelResources
    PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PodLogsQuerySplitStreams
    PodObservedGenerationTracking PodReadyToStartContainersCondition PodSchedulingReadiness
    PodTopologyLabelsAdmission PortForwardWebsockets PreferSameTrafficDistribution
    PreventStaticPodAPIReferences ProcMountType QOSReserved RecoverVolumeExpansionFailure
    RecursiveReadOnlyMounts ReduceDefaultCrashLoopBackOffDecay RelaxedDNSSearchValidation
    RelaxedEnvironmentVariableValidation RelaxedServiceNameValidation ReloadKubeletServerCertificateFile
    RemoteRequestHeaderUID ResilientWatchCacheInitialization ResourceHealthStatus RetryGenerateName
    RotateKubeletServerCertificate RuntimeClassInImageCriApi SELinuxChangePolicy SELinuxMount
    SELinuxMountReadWriteOncePod SchedulerAsyncAPICalls SchedulerAsyncPreemption
    SchedulerPopFromBackoffQ SchedulerQueueingHints SeparateCacheWatchRPC
    SeparateTaintEvictionController ServiceAccountNodeAudienceRestriction ServiceAccountTokenJTI
    ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation
    ServiceAccountTokenPodNodeInfo SidecarContainers SizeBasedListCostEstimate StorageCapacityScoring
    StorageNamespaceIndex StorageVersionAPI StorageVersionHash StorageVersionMigrator
    StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf StrictIPCIDRValidation
    StructuredAuthenticationConfiguration StructuredAuthenticationConfigurationEgressSelector
    SupplementalGroupsPolicy TokenRequestServiceAccountUIDValidation TopologyManagerPolicyAlphaOptions
    TopologyManagerPolicyBetaOptions TopologyManagerPolicyOptions TranslateStreamCloseWebsocketRequests
    UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy UserNamespacesSupport
    VolumeAttributesClass WatchCacheInitializationPostStartHook WatchList WatchListClient WinDSR
    WinOverlay WindowsCPUAndMemoryAffinity WindowsGracefulNodeShutdown WindowsHostNetwork
  `),
  only: {
    '1.34': words(`
      AllowServiceLBStatusOnNonLB CSIMigrationPortworx ComponentSLIs CronJobsScheduledAnnotation
      HonorPVReclaimPolicy InPlacePodVerticalScalingAllocatedStatus InTreePluginPortworxUnregister
      LoadBalancerIPMode MemoryManager PodIndexLabel ProbeHostPodSecurityStandards
      ServiceTrafficDistribution SizeMemoryBackedVolumes StatefulSetAutoDeletePVC
      StrictCostEnforcementForVAP StrictCostEnforcementForWebhooks StructuredAuthorizationConfiguration
      TopologyAwareHints UserNamespacesPodSecurityStandards WatchFromStorageWithoutResourceVersion
    `),
    '1.35': words(`
      AuthorizePodWebsocketUpgradeCreatePermission CRDObservedGenerationTracking CSIMigrationPortworx
      CSIServiceAccountTokenSecrets CloudControllerManagerWatchBasedRoutesReconciliation
      ConstrainedImpersonation DRADeviceTaintRules GangScheduling GenericWorkload HonorPVReclaimPolicy
      InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling
      InPlacePodVerticalScalingAllocatedStatus InTreePluginPortworxUnregister MemoryManager
      MutablePVNodeAffinity MutablePodResourcesForSuspendedJobs
      MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures OpportunisticBatching
      RestartAllContainersOnContainerExits ServiceTrafficDistribution
      StructuredAuthenticationConfigurationJWKSMetrics StructuredAuthorizationConfiguration
      TaintTolerationComparisonOperators TopologyAwareHints UserNamespacesHostNetworkSupport
      VolumeLimitScaling WatchFromStorageWithoutResourceVersion
    `),
    '1.36': words(`
      AllowServiceExternalIPs AtomicFIFO AuthorizePodWebsocketUpgradeCreatePermission
      CRDObservedGenerationTracking CRIListStreaming CSIServiceAccountTokenSecrets
      ChangeContainerStatusOnKubeletRestart ClientsAllowCARotation ClientsAllowTLSCacheGC
      CloudControllerManagerWatchBasedRoutesReconciliation ConstrainedImpersonation
      ControllerManagerReleaseLeaderElectionLockOnExit DRADeviceTaintRules DRAListTypeAttributes
      DRANodeAllocatableResources DRAResourceClaimGranularStatusAuthorization DRAResourcePoolStatus
      DRAWorkloadResourceClaims DeclarativeValidationBeta ExtendWebSocketsToKubelet GangScheduling
      GenericWorkload ImageVolumeWithDigest InOrderInformersBatchProcess
      InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScalingInitContainers
      ManifestBasedAdmissionControlConfig MutablePVNodeAffinity MutablePodResourcesForSuspendedJobs
      MutableSchedulingDirectivesForSuspendedJobs NativeHistograms NodeDeclaredFeatures
      OpportunisticBatching PLEGOnDemandRelist PersistentVolumeClaimUnusedSinceTime
      PodLevelResourceManagers PodsAPI ResourceHealthStatusMessage RestartAllContainersOnContainerExits
      ServiceCIDRStatusFieldWiping ShardedListAndWatch StaleControllerConsistencyDaemonSet
      StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
      StaleControllerConsistencyStatefulSet StatefulSetSemanticRevisionComparison
      StructuredAuthenticationConfigurationJWKSMetrics TaintTolerationComparisonOperators
      TopologyAwareWorkloadScheduling UnlockWhileProcessingFIFO UserNamespacesHostNetworkSupport
      VolumeLimitScaling WorkloadAwarePreemption WorkloadWithJob
    `),
  },
};

/** The names in the table that this minor version has. */
export const known = (table: Known, minor: Minor): ReadonlySet<string> =>
  new Set([...table.always, ...(table.only[minor] ?? [])]);

/** The minor versions that have this name. */
export const minorsKnowing = (table: Known, name: string): readonly Minor[] =>
  MINORS.filter((minor) => known(table, minor).has(name));
