/**
 * What components check between their flags, and what a cluster needs of them. A component ends as
 * it starts with flags that break a rule, or the cluster's own pods do not run.
 */
import { normalize } from 'node:path/posix';
import { ipNetwork, parseIpNetwork } from '../../base/ip.ts';
import { type ClusterFault, clusterError } from '../model/fault.ts';
import { CONTROL_PLANE_PORTS } from '../model/ports.ts';
import type { Component, ResolvedCluster } from '../model/resolved-cluster.ts';
import { minorOf } from '../model/versions.ts';
import { missingControllers } from './controllers.ts';
import { ETCD } from './etcd-rules.ts';
import { type Flag, type FlagRule, isFalse, isTrue, rule, time, whole } from './flag-rule.ts';
import { goTruth, listed } from './flag-values.ts';
import { API_VERSIONS } from './flags.ts';
import { GATED } from './gated-flags.ts';
import { effectiveKubelet, KUBELET_PARTS } from './kubelet-flags.ts';
import { ADMISSION_CONFIG } from './policies.ts';
import { SERVERS } from './server-rules.ts';
import { VERSIONS } from './version-rules.ts';

const api = rule('kube-apiserver');
const manager = rule('kube-controller-manager');
const kubelet = rule('kubelet');

/** Authorizers that need a file, each with its flag. */
const AUTHORIZER_FILES = [
  ['ABAC', 'authorization-policy-file'],
  ['Webhook', 'authorization-webhook-config-file'],
] as const;

const AUTHORIZATION: readonly FlagRule[] = [
  api('authorization-mode', (value, flag, { apiServer }) => {
    // The checks of that document say that it excludes the flag.
    if (apiServer?.authorization !== undefined) return undefined;
    const modes = listed(value);
    if (new Set(modes).size < modes.length) return 'a mode is listed twice';
    const without = AUTHORIZER_FILES.find(([mode, file]) => modes.includes(mode) && flag(file) === '');
    if (without !== undefined) return `${without[0]} needs the flag ${without[1]}`;
    if (modes.includes('AlwaysAllow')) return 'AlwaysAllow would open the cluster to everybody';
    // Something else may allow what Node and RBAC allow.
    if (['ABAC', 'Webhook'].some((mode) => modes.includes(mode))) return undefined;
    const missing = ['Node', 'RBAC'].filter((mode) => !modes.includes(mode));
    return missing.length === 0
      ? undefined
      : `without ${missing.join(' and ')} kubelets and the cluster's own programs are refused`;
  }),
  ...AUTHORIZER_FILES.map(([mode, file]) =>
    api(file, (_, flag) =>
      listed(flag('authorization-mode')).includes(mode)
        ? undefined
        : `it needs ${mode} in authorization-mode`,
    ),
  ),
];

/** Admission plugins that end an API server that has no configuration for them. */
const CONFIGURED = ['EventRateLimit', 'ImagePolicyWebhook'];

const ADMISSION: readonly FlagRule[] = [
  api('disable-admission-plugins', (value, flag) => {
    const both = listed(value).find((name) => listed(flag('enable-admission-plugins')).includes(name));
    if (both !== undefined) return `${both} is in enable-admission-plugins as well`;
    return listed(value).includes('ServiceAccount')
      ? 'without ServiceAccount pods get no token, with which CoreDNS and the pod network ask the API; leave it out of the list'
      : undefined;
  }),
  api('admission-control', (_, flag) =>
    ['enable-admission-plugins', 'disable-admission-plugins'].some((name) => flag(name) !== '')
      ? 'an API server takes this or enable-admission-plugins, which Muster sets; use that'
      : undefined,
  ),
  api('enable-admission-plugins', (value, flag) => {
    // The value takes the place of Muster's, so somebody who adds a plugin could lose this one.
    const named = [value, flag('disable-admission-plugins')].flatMap(listed);
    if (!named.includes('NodeRestriction'))
      return 'without NodeRestriction each kubelet may change other nodes: add it, or list it in disable-admission-plugins';
    if (listed(value).includes('AlwaysDeny'))
      return 'AlwaysDeny refuses what an API server itself writes as it starts; leave it out';
    const needs = listed(value).find((name) => CONFIGURED.includes(name));
    return needs === undefined || flag('admission-control-config-file') !== ADMISSION_CONFIG
      ? undefined
      : `${needs} needs its configuration: write it into a file below /etc/kubernetes/apiserver, and name that in admission-control-config-file`;
  }),
];

/** Events of the webhook are throttled by default, lines of the log are not. */
const isUnthrottled = (enable: string, log: 'log' | 'webhook'): boolean =>
  enable === '' ? log === 'log' : isFalse(enable);

/** Modes of a log that collect events, and what they need to be more than zero. */
const auditRules = (log: 'log' | 'webhook', file: string): readonly FlagRule[] => [
  ...['batch-buffer-size', 'batch-max-size', 'batch-throttle-qps', 'batch-throttle-burst'].map((name) =>
    api(`audit-${log}-${name}`, (value, flag) => {
      const mode = flag(`audit-${log}-mode`) || (log === 'log' ? 'blocking' : 'batch');
      const unused =
        name.includes('throttle') && isUnthrottled(flag(`audit-${log}-batch-throttle-enable`), log);
      return flag(file) !== '' && mode === 'batch' && !unused && Number(value) <= 0
        ? 'it has to be more than 0'
        : undefined;
    }),
  ),
  api(`audit-${log}-truncate-max-batch-size`, (value, flag) => {
    const event = whole(flag(`audit-${log}-truncate-max-event-size`), 102_400);
    return flag(file) !== '' && Number(value) < event
      ? `it is less than audit-${log}-truncate-max-event-size, which is ${event}`
      : undefined;
  }),
];

const GROUPS_OF_ALL = /^api\/(all|ga|beta|alpha|legacy)$/;
/** Versions without which Muster's own objects, nodes or pods are refused. */
const NEEDED_APIS =
  /^(api\/(all|ga)|(api\/)?v1|(apps|rbac\.authorization\.k8s\.io|certificates\.k8s\.io|coordination\.k8s\.io|discovery\.k8s\.io|networking\.k8s\.io|node\.k8s\.io|scheduling\.k8s\.io|storage\.k8s\.io|policy|apiregistration\.k8s\.io|flowcontrol\.apiserver\.k8s\.io)\/v1)$/;

/** API group → minor version → its versions. An API server ends with one that it does not know. */

const runtimeFault: FlagRule['fault'] = (value, _, { versions }) => {
  const release = minorOf(versions['kube-apiserver']);
  for (const part of listed(value)) {
    const [, key = '', on = 'true'] = /^([^=]*)(?:=(.*))?$/.exec(part) ?? [];
    if (on !== '' && goTruth(on) === undefined) return `"${part}": write true or false`;
    const [group = '', version] = key.split('/');
    const isCore = key === 'v1' || key === 'api/v1';
    const known = API_VERSIONS.get(group)?.get(release) ?? [];
    if (!GROUPS_OF_ALL.test(key) && !isCore && (known.length === 0 || version === undefined))
      return `there is no API "${key}"; write GROUP/VERSION like "batch/v1", or api/all`;
    if (version !== undefined && known.length > 0 && !known.includes(version))
      return `Kubernetes ${release} has no "${group}/${version}"; it has ${known.join(', ')}`;
    if (isFalse(on) && NEEDED_APIS.test(key)) return `the cluster's own objects need ${key}`;
  }
  return undefined;
};

/** Whether Go's url.Parse takes a text with a colon. */
const isUrl = (text: string): boolean =>
  !/^:|[\0-\x1f\x7f]|%(?![0-9A-Fa-f]{2})/.test(text) && !/^[^:]+:\/\/[^/?#]*\s/.test(text);

/** The ports of Services of type NodePort that kube-apiserver has without the flag. */
const NODE_PORTS: readonly [number, number] = [30_000, 32_767];

/** First and last port of a range as kube-apiserver reads it: `8000-8999`, `8000+999` or `8000`. */
function portRange(text: string): readonly [number, number] | undefined {
  const [, from, sign, to] = /^([0-9]+)(?:([-+])([0-9]+))?$/.exec(text) ?? [];
  if (from === undefined) return undefined;
  const first = Number(from);
  return [first, sign === undefined ? first : sign === '+' ? first + Number(to) : Number(to)];
}

const needsIssuer: FlagRule['fault'] = (_, flag) =>
  flag('oidc-issuer-url') === '' ? 'it needs oidc-issuer-url' : undefined;

const OIDC: readonly (readonly [flag: string, fault: FlagRule['fault']])[] = [
  [
    'oidc-issuer-url',
    (value, flag) => {
      if (!/^https:\/\/[^\s?#]+$/.test(value)) return 'it has to begin with https://, and has no query';
      if (flag('oidc-client-id') === '') return 'it needs oidc-client-id';
      return value === flag('service-account-issuer')
        ? 'this is the issuer of the cluster’s own service accounts'
        : undefined;
    },
  ],
  [
    'oidc-username-claim',
    (value, flag, resolved) => (value === '' ? 'it is empty' : needsIssuer(value, flag, resolved)),
  ],
  ...[
    'client-id',
    'ca-file',
    'username-prefix',
    'groups-claim',
    'groups-prefix',
    'signing-algs',
    'required-claim',
  ].map((name) => [`oidc-${name}`, needsIssuer] as const),
];

const IDENTITY: readonly FlagRule[] = [
  api('service-account-issuer', (value) => {
    if (value === '') return 'it is empty';
    return value.includes(':') && !isUrl(value) ? `"${value}" is not a URL` : undefined;
  }),
  api('service-account-jwks-uri', (value) =>
    value === '' || /^https:\/\/\S+$/.test(value) ? undefined : 'it has to begin with https://',
  ),
  api('service-account-signing-endpoint', (value) =>
    value === ''
      ? undefined
      : 'tokens are signed with the key that Muster keeps; an API server takes one of the two',
  ),
  ...OIDC.map(([name, fault]) =>
    // The checks of apiServer say that its documents exclude these flags, or need them.
    api(name, (value, flag, resolved) =>
      resolved.apiServer?.authentication === undefined && resolved.apiServer?.oidcCA === undefined
        ? fault(value, flag, resolved)
        : undefined,
    ),
  ),
];

const STORAGE: readonly FlagRule[] = [
  api('audit-log-path', (value) =>
    value === '' ||
    value === '-' ||
    (value === normalize(value) && /^\/[^/]+\/./.test(value) && !/\/$/.test(value))
      ? undefined
      : 'write "-", or the absolute path of a file in a directory of its own, which is mounted into the pod',
  ),
  api('etcd-servers-overrides', (value) => {
    const wrong = listed(value).find((part) => !/^[^/#]*\/[^/#]+#[^#;]+(;[^#;]+)*$/.test(part));
    return wrong === undefined
      ? undefined
      : `"${wrong}" is not GROUP/RESOURCE#URL;URL, like "/events#https://10.77.0.9:2379"`;
  }),
  api('watch-cache-sizes', (value) => {
    const wrong = listed(value).find((part) => !/^[^#]+#[0-9]+$/.test(part));
    return wrong === undefined ? undefined : `"${wrong}" is not RESOURCE#SIZE, like "pods#1000"`;
  }),
  api('encryption-provider-config-automatic-reload', (value, flag) =>
    isTrue(value) && flag('encryption-provider-config') === ''
      ? 'it needs encryption-provider-config'
      : undefined,
  ),
];

const SERVING: readonly FlagRule[] = [
  api('strict-transport-security-directives', (value) => {
    const wrong = value.split(',').find((part) => !/^(includeSubDomains|preload|max-age=[^=]*)$/.test(part));
    return wrong === undefined
      ? undefined
      : `"${wrong}" is not max-age=SECONDS, includeSubDomains or preload`;
  }),
  api('cors-allowed-origins', (value) => {
    const wrong = value
      .split(',')
      .find((part) => !/\^|\/\//.test(part) || !/\$|:/.test(part) || !isExpression(part));
    return wrong === undefined
      ? undefined
      : `"${wrong}" is not a regular expression from "^" or "//" to "$" or ":", like "^https://app\\.example$"`;
  }),
  api('kubernetes-service-node-port', (value, flag) => {
    const [first, last] = portRange(flag('service-node-port-range')) ?? NODE_PORTS;
    const port = Number(value);
    return port === 0 || (port >= first && port <= last)
      ? undefined
      : `${port} is outside of service-node-port-range, which is ${first}-${last}`;
  }),
  api('service-node-port-range', (value, _, { endpoint, virtualAddress }) => {
    const [first, last] = portRange(value) ?? NODE_PORTS;
    if (last < first) return 'the last port is less than the first';
    const used: readonly (readonly [number, string])[] = [
      ...CONTROL_PLANE_PORTS,
      ...(virtualAddress === undefined ? [] : [[endpoint.port, 'the endpoint of the cluster'] as const]),
    ];
    const [port, program] = used.find(([one]) => one >= first && one <= last) ?? [];
    return port === undefined
      ? undefined
      : `a Service could take ${port}, which is the port of ${program} on machines; write a range without it, like "${NODE_PORTS.join('-')}"`;
  }),
  api('max-requests-inflight', (value, flag) =>
    Number(value) === 0 && whole(flag('max-mutating-requests-inflight'), 200) === 0
      ? 'this and max-mutating-requests-inflight are 0, so no request would be answered'
      : undefined,
  ),
  api('runtime-config', runtimeFault),
  api('requestheader-allowed-names', (value) =>
    value === '' || listed(value).includes('front-proxy-client')
      ? undefined
      : 'without front-proxy-client, the name in the certificate of API servers, APIs of add-ons such as metrics refuse them',
  ),
  api('allow-privileged', (value) =>
    isTrue(value)
      ? undefined
      : 'kube-proxy and the network between pods are privileged pods; set podSecurity for others',
  ),
  api('endpoint-reconciler-type', (value) =>
    value === 'none' ? 'without endpoints of the Service kubernetes no pod reaches the API' : undefined,
  ),
  api('coordinated-leadership-lease-duration', (value, flag) =>
    time(value, 15_000) > time(flag('coordinated-leadership-renew-deadline'), 10_000)
      ? undefined
      : 'it is not longer than coordinated-leadership-renew-deadline, which is 10s by default',
  ),
  api('coordinated-leadership-renew-deadline', (value, flag) =>
    time(value, 10_000) > time(flag('coordinated-leadership-retry-period'), 2000)
      ? undefined
      : 'it is not longer than coordinated-leadership-retry-period, which is 2s by default',
  ),
];

/** Whether Go's regexp takes it, as far as a JavaScript engine can say; Go has flags like (?i). */
function isExpression(text: string): boolean {
  try {
    new RegExp(text.replace(/\(\?[imsU-]+\)/g, '').replace(/\(\?P</g, '(?<'));
    return true;
  } catch {
    return false;
  }
}

/** client-go's leader election: a lease is longer than its renewal, and that than 1.2 retries. */
const leadership = (component: 'kube-controller-manager' | 'kube-scheduler'): readonly FlagRule[] => {
  const at = rule(component);
  const lease = (flag: Flag): number => time(flag('leader-elect-lease-duration'), 15_000);
  const renewal = (flag: Flag): number => time(flag('leader-elect-renew-deadline'), 10_000);
  const retry = (flag: Flag): number => time(flag('leader-elect-retry-period'), 2000);
  return [
    at('leader-elect-lease-duration', (_, flag) =>
      lease(flag) > renewal(flag)
        ? undefined
        : 'it is not longer than leader-elect-renew-deadline, which is 10s by default',
    ),
    at('leader-elect-renew-deadline', (_, flag) => {
      if (renewal(flag) <= 1.2 * retry(flag))
        return 'it is not longer than 1.2 times leader-elect-retry-period, which is 2s by default';
      return lease(flag) > renewal(flag) || flag('leader-elect-lease-duration') !== ''
        ? undefined
        : 'it is not shorter than leader-elect-lease-duration, which is 15s by default';
    }),
    at('leader-elect-retry-period', (_, flag) =>
      renewal(flag) > 1.2 * retry(flag) || flag('leader-elect-renew-deadline') !== ''
        ? undefined
        : '1.2 times as long is not shorter than leader-elect-renew-deadline, which is 10s by default',
    ),
  ];
};

const MASK = 'node-cidr-mask-size';

/** What a mask has to be between: the pod network's own length, and that of an address. */
function maskFault(value: string, pods: readonly string[], family: 4 | 6 | undefined): string | undefined {
  const networks = pods.map(parseIpNetwork).filter((one) => one !== undefined);
  const of = networks.find(({ base }) => family === undefined || base.family === family);
  if (of === undefined || Number(value) === 0) return undefined;
  const bits = of.base.family === 4 ? 32 : 128;
  const most = of.base.family === 4 ? bits : Math.min(bits, of.prefix + 16);
  const mask = Number(value);
  return mask >= of.prefix && mask <= most
    ? undefined
    : `a node's part of the pod network /${of.prefix} is from /${of.prefix} to /${most}`;
}

const NODE_MASKS: readonly FlagRule[] = [
  manager(MASK, (value, flag, { networks: { pods } }) => {
    if (Number(value) === 0) return undefined;
    if (pods.length > 1) return `with two pod networks use ${MASK}-ipv4 and ${MASK}-ipv6`;
    if (['ipv4', 'ipv6'].some((family) => Number(flag(`${MASK}-${family}`)) > 0))
      return `kube-controller-manager takes this or ${MASK}-ipv4 and ${MASK}-ipv6`;
    return maskFault(value, pods, undefined);
  }),
  ...([4, 6] as const).map((family) =>
    manager(`${MASK}-ipv${family}`, (value, _, { networks: { pods } }) => {
      const has = pods.some((text) => ipNetwork(text).base.family === family);
      return has || Number(value) === 0
        ? maskFault(value, pods, family)
        : `networks.pods has no IPv${family} network`;
    }),
  ),
  manager('allocate-node-cidrs', (value, _, { cni: { plugin } }) =>
    isTrue(value) || plugin === 'none'
      ? undefined
      : `${plugin} gives pods addresses out of the network of their node; with cni: none another network may do without`,
  ),
];

/** Signers with flags of their own, which are not taken beside the pair for all, Muster's. */
const SIGNERS = ['kube-apiserver-client', 'kubelet-client', 'kubelet-serving', 'legacy-unknown'];

/**
 * How often a kubelet reports, in milliseconds: it renews its Lease after a quarter of the Lease's
 * time, and writes its status.
 */
function heartbeat(resolved: ResolvedCluster, part: (typeof KUBELET_PARTS)[number]): number {
  const { nodeLeaseDurationSeconds: lease, nodeStatusUpdateFrequency: status } = effectiveKubelet(
    resolved,
    part,
  ).config;
  const renewal = typeof lease === 'number' ? lease * 250 : 10_000;
  return Math.min(renewal, typeof status === 'string' ? time(status, 10_000) : 10_000);
}

/** client-go does not start with requests of a limited rate, of which none may come at once. */
const BURSTS: readonly FlagRule[] = ['kube-controller-manager', 'kube-scheduler'].map((component) =>
  rule(component as Component)('kube-api-burst', (value, flag) =>
    Number(value) <= 0 && Number(flag('kube-api-qps') || '50') > 0
      ? 'it has to be more than 0 while kube-api-qps is'
      : undefined,
  ),
);

const CONTROLLING: readonly FlagRule[] = [
  ...BURSTS,
  manager('enable-leader-migration', (value) =>
    isTrue(value)
      ? 'it is for controllers that move to the manager of a cloud, and without one kube-controller-manager ends; leave it out'
      : undefined,
  ),
  manager('use-service-account-credentials', (value) =>
    isTrue(value)
      ? undefined
      : 'the roles of Kubernetes are for the service account of each controller, so most controllers would be refused; leave it true',
  ),
  ...SIGNERS.flatMap((signer) =>
    ['cert', 'key'].map((part) =>
      manager(`cluster-signing-${signer}-${part}-file`, (value) =>
        value === '' ? undefined : 'all signers use the CA of the cluster, which Muster issues; remove it',
      ),
    ),
  ),
  manager('controllers', (value, _, { cni }) => {
    const missing = missingControllers(value).filter(
      (name) => cni.plugin !== 'none' || name !== 'node-ipam-controller',
    );
    return missing.length === 0
      ? undefined
      : `the cluster needs ${missing.join(', ')}; ${listed(value).includes('*') ? 'take it out of the list' : 'begin the list with "*"'}`;
  }),
  manager('node-monitor-grace-period', (value, flag, resolved) => {
    const period = time(flag('node-monitor-period'), 5000);
    const grace = time(value, 0);
    if (grace <= period) return 'it is not longer than node-monitor-period, which is 5s by default';
    const report = Math.max(...KUBELET_PARTS.map((part) => heartbeat(resolved, part)));
    return grace >= 2 * report
      ? undefined
      : `kubelets report every ${report / 1000}s, so Nodes would become NotReady between two reports; write at least ${(2 * report) / 1000}s`;
  }),
];

const KUBELET: readonly FlagRule[] = (
  [
    ['image-credential-provider-config', 'image-credential-provider-bin-dir'],
    ['image-credential-provider-bin-dir', 'image-credential-provider-config'],
    ['exit-on-lock-contention', 'lock-file'],
  ] as const
).map(([one, other]) =>
  kubelet(one, (value, flag) => (flag(other) === '' && !isFalse(value) ? `it needs ${other}` : undefined)),
);

const RULES: readonly FlagRule[] = [
  ...AUTHORIZATION,
  ...ADMISSION,
  ...auditRules('log', 'audit-log-path'),
  ...auditRules('webhook', 'audit-webhook-config-file'),
  ...IDENTITY,
  ...STORAGE,
  ...SERVING,
  ...leadership('kube-controller-manager'),
  ...leadership('kube-scheduler'),
  ...NODE_MASKS,
  ...SERVERS,
  ...CONTROLLING,
  ...ETCD,
  ...GATED,
  ...VERSIONS,
  ...KUBELET,
];

/** Faults between flags whose values have their types. */
export function flagRuleFaults(resolved: ResolvedCluster): readonly ClusterFault[] {
  return RULES.flatMap(({ component, flag, fault }) => {
    const flags = resolved.flags[component];
    const textOf: Flag = (name) => [flags[name] ?? ''].flat().join(',');
    if (flags[flag] === undefined || /\$\{/.test(textOf(flag))) return [];
    const message = fault(textOf(flag), textOf, resolved);
    return message === undefined ? [] : [clusterError(`overrides.flags.${component}.${flag}`, message)];
  });
}
