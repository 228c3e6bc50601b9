/**
 * The least and the largest values of flags, and names that their help does not list. A component
 * ends as it starts with another one (the Validate functions of its options).
 */
import { didYouMean } from '../../base/suggest.ts';
import type { Component } from '../model/resolved-cluster.ts';
import { minorBefore } from '../model/versions.ts';
import { CONTROLLERS } from './controllers.ts';
import { goMilliseconds, wholeNumber } from './flag-values.ts';
import { FLAGS } from './flags.ts';

interface Limit {
  readonly least?: string;
  readonly most?: string;
  /** The value has to be more than this. */
  readonly above?: string;
  /** The value that says the same as to leave the flag out. */
  readonly unset?: string;
}

const words = (text: string): readonly string[] => text.trim().split(/\s+/);
const limits = (of: Limit, names: string): readonly (readonly [string, Limit])[] =>
  words(names).map((name) => [name, of] as const);

/** Flags by component; a limit with a unit is a time. */
export const LIMITS: Readonly<Record<Component, ReadonlyMap<string, Limit>>> = {
  'kube-apiserver': new Map([
    ...limits(
      { least: '0' },
      `audit-log-maxage audit-log-maxbackup audit-log-maxsize max-mutating-requests-inflight
      max-requests-inflight min-request-timeout`,
    ),
    ...limits(
      { least: '0s' },
      `livez-grace-period shutdown-delay-duration shutdown-watch-termination-grace-period
      storage-initialization-timeout`,
    ),
    ...limits({ above: '0s' }, 'log-flush-frequency request-timeout'),
    ...limits({ least: '0', most: '0.02' }, 'goaway-chance'),
    ...limits(
      { least: '1' },
      'apiserver-count audit-log-truncate-max-event-size audit-webhook-truncate-max-event-size',
    ),
    ...limits({ least: '0', most: '65535' }, 'kubernetes-service-node-port'),
    ...limits({ least: '1h', most: '1193046h28m16s', unset: '0s' }, 'service-account-max-token-expiration'),
  ]),
  'kube-controller-manager': new Map([
    ...limits(
      { least: '1' },
      `concurrent-cron-job-syncs concurrent-daemonset-syncs concurrent-ephemeralvolume-syncs
      concurrent-device-taint-eviction-syncs concurrent-horizontal-pod-autoscaler-syncs concurrent-job-syncs
      concurrent-resourceclaim-syncs concurrent-statefulset-syncs concurrent-validating-admission-policy-status-syncs`,
    ),
    // With these it starts, and does none of the work.
    ...limits(
      { least: '1' },
      `concurrent-deployment-syncs concurrent-endpoint-syncs concurrent-gc-syncs concurrent-namespace-syncs
      concurrent-rc-syncs concurrent-replicaset-syncs concurrent-resource-quota-syncs
      concurrent-serviceaccount-token-syncs concurrent-ttl-after-finished-syncs`,
    ),
    ...limits(
      { least: '1', most: '50' },
      'concurrent-service-endpoint-syncs mirroring-concurrent-service-endpoint-syncs',
    ),
    ...limits({ least: '1', most: '1000' }, 'max-endpoints-per-slice mirroring-max-endpoints-per-subset'),
    ...limits({ least: '1s' }, 'attach-detach-reconcile-sync-period'),
    ...limits({ least: '0' }, 'kube-api-burst'),
    ...limits(
      { above: '0s' },
      `leader-elect-lease-duration leader-elect-renew-deadline leader-elect-retry-period
      log-flush-frequency horizontal-pod-autoscaler-sync-period legacy-service-account-token-clean-up-period`,
    ),
  ]),
  'kube-scheduler': new Map([
    ...limits(
      { above: '0s' },
      `leader-elect-lease-duration leader-elect-renew-deadline leader-elect-retry-period
      log-flush-frequency`,
    ),
    ...limits({ least: '0' }, 'kube-api-burst'),
  ]),
  // effectiveKubelet turns most flags of kubelet into fields.
  kubelet: new Map(),
  etcd: new Map([
    ...limits({ least: '1', most: '50000' }, 'election-timeout'),
    ...limits({ least: '1' }, 'heartbeat-interval max-learners'),
    ...limits({ above: '0s' }, 'compact-hash-check-time experimental-compact-hash-check-time'),
    ...limits({ least: '0s' }, 'corrupt-check-time experimental-corrupt-check-time'),
    // The API server writes objects of this size.
    ...limits({ least: '1572864' }, 'max-request-bytes'),
  ]),
};

/** A value as a number: of milliseconds where it has a unit. */
function amountOf(text: string): number | undefined {
  const whole = wholeNumber(text);
  if (whole !== undefined) return Number(whole);
  return (
    goMilliseconds(text) ?? (/^[+-]?[0-9]*\.?[0-9]+(e[+-]?[0-9]+)?$/i.test(text) ? Number(text) : undefined)
  );
}

function limitFault({ least, most, above, unset }: Limit, text: string): string | undefined {
  const amount = amountOf(text);
  if (amount === undefined || (unset !== undefined && amount === amountOf(unset))) return undefined;
  if (least !== undefined && amount < amountOf(least)!)
    return `${text} is less than ${least}${most === undefined ? '' : `; write a value up to ${most}`}`;
  if (most !== undefined && amount > amountOf(most)!) return `${text} is more than ${most}`;
  return above !== undefined && amount <= amountOf(above)! ? `${text} is not more than ${above}` : undefined;
}

/** Go's names of cipher suites, which etcd takes as well. */
const CIPHERS = FLAGS['kube-apiserver'].get('tls-cipher-suites')?.get('1.36')?.choices ?? [];
const TLS_OF_ETCD = ['', 'TLS1.2', 'TLS1.3'];
const AUDIT_VERSIONS = ['audit.k8s.io/v1'];

/** Names that flags take and that the tables do not have, by component. */
export const NAMES: Readonly<Partial<Record<Component, Readonly<Record<string, readonly string[]>>>>> = {
  'kube-apiserver': {
    'audit-log-version': AUDIT_VERSIONS,
    'audit-webhook-version': AUDIT_VERSIONS,
    'authentication-token-webhook-version': ['v1', 'v1beta1'],
    'authorization-webhook-version': ['v1', 'v1beta1'],
    'kubelet-preferred-address-types': words('Hostname InternalDNS InternalIP ExternalDNS ExternalIP'),
    'logging-format': ['json', 'text'],
    'oidc-signing-algs': words('RS256 RS384 RS512 ES256 ES384 ES512 PS256 PS384 PS512'),
    'storage-backend': ['', 'etcd3'],
  },
  'kube-controller-manager': {
    'cidr-allocator-type': ['RangeAllocator'],
    'cloud-provider': ['', 'external'],
    'logging-format': ['json', 'text'],
  },
  'kube-scheduler': { 'logging-format': ['json', 'text'] },
  kubelet: { 'cloud-provider': ['', 'external'], 'logging-format': ['json', 'text'] },
  etcd: {
    'auto-compaction-mode': ['periodic', 'revision'],
    'backend-bbolt-freelist-type': ['', 'array', 'map'],
    'cipher-suites': CIPHERS,
    'log-format': words('console json'),
    logger: ['zap'],
    metrics: ['basic', 'extensive'],
    'tls-max-version': TLS_OF_ETCD,
    'tls-min-version': TLS_OF_ETCD,
    'v2-deprecation': words('not-yet write-only write-only-drop-data gone'),
  },
};

/** Flags with a fixed set of names that do not take an empty text for their default. */
export const NOT_EMPTY: Readonly<Partial<Record<Component, readonly string[]>>> = {
  'kube-apiserver': words('audit-log-format audit-log-mode'),
  'kube-controller-manager': words('leader-elect-resource-lock'),
  'kube-scheduler': words('leader-elect-resource-lock'),
  kubelet: words(
    'authorization-mode cpu-manager-policy hairpin-mode memory-manager-policy topology-manager-policy topology-manager-scope',
  ),
};

const emptyFault = (component: Component, flag: string, text: string): string | undefined =>
  text === '' && NOT_EMPTY[component]?.includes(flag)
    ? 'it is empty; leave it out for its default'
    : undefined;

function nameFault(component: Component, flag: string, text: string): string | undefined {
  const names = NAMES[component]?.[flag];
  const wrong = names && text.split(',').find((part) => !names.includes(part));
  if (names === undefined || wrong === undefined) return undefined;
  const hint =
    names.length > 12
      ? didYouMean(wrong, names)
      : `; it takes ${names.filter((name) => name !== '').join(', ')}`;
  return `${component} has no "${wrong}" here${hint}`;
}

/** Names of controllers: `*`, NAME or `-NAME`. */
function controllerFault(component: Component, flag: string, text: string): string | undefined {
  if (component !== 'kube-controller-manager' || flag !== 'controllers') return undefined;
  const names = text.split(',');
  if (names.includes('-*')) return '"-*" is not a controller; list those to start, without "*"';
  const wrong = names
    .map((name) => name.replace(/^-/, ''))
    .find((name) => name !== '*' && (name !== '' || names.length > 1) && !CONTROLLERS.has(name));
  return wrong === undefined
    ? undefined
    : `there is no controller "${wrong}"${didYouMean(wrong, CONTROLLERS.keys())}`;
}

/** Flags of logs that all components of Kubernetes have. */
function logFault(component: Component, flag: string, text: string): string | undefined {
  if (component === 'etcd') return undefined;
  if (flag === 'v' && text.startsWith('-')) return `${text} is less than 0`;
  const wrong = text.split(',').find((part) => part !== '' && !/^[^=]+=[0-9]+$/.test(part));
  return flag === 'vmodule' && wrong !== undefined ? `"${wrong}" is not PATTERN=N` : undefined;
}

/** The version of which a component of this version shows hidden metrics. */
const hiddenFault = (flag: string, text: string, minor: string): string | undefined =>
  flag !== 'show-hidden-metrics-for-version' || text === '' || text === minorBefore(minor)
    ? undefined
    : `it takes ${minorBefore(minor)} alone`;

/**
 * What is wrong with one value of a flag that has its type.
 *
 * @param minor The minor version of the component.
 */
export function limitFaults(
  component: Component,
  flag: string,
  text: string,
  minor: string,
): readonly string[] {
  const limit = LIMITS[component].get(flag);
  const found = [
    limit && limitFault(limit, text),
    emptyFault(component, flag, text),
    nameFault(component, flag, text),
    controllerFault(component, flag, text),
    logFault(component, flag, text),
    component === 'etcd' ? undefined : hiddenFault(flag, text, minor),
  ];
  return found.filter((fault) => fault !== undefined);
}
