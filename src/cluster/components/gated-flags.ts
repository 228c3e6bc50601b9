/** Flags that a component takes only with a feature gate. */

import { MINORS, type Minor, minorOf } from '../model/versions.ts';
import { type FlagRule, isTrue, rule } from './flag-rule.ts';
import { isZeroQuantity } from './flag-values.ts';
import { KUBERNETES_COMPONENTS, type KubernetesComponent } from './flags.ts';
import { gatesVersion, isGateOn, settingsOf } from './gates.ts';

type Row = readonly [flag: string, gate: string, isUsed: (value: string) => boolean];

const isSet = (value: string): boolean => value !== '';

const OF_LOGS: readonly Row[] = [
  ['logging-format', 'LoggingBetaOptions', (value) => value === 'json'],
  ...['text', 'json'].flatMap((format): readonly Row[] => [
    [`log-${format}-split-stream`, 'LoggingAlphaOptions', isTrue],
    [`log-${format}-info-buffer-size`, 'LoggingAlphaOptions', (value) => !isZeroQuantity(value)],
  ]),
];

const ROWS: Readonly<Record<KubernetesComponent, readonly Row[]>> = {
  'kube-apiserver': [
    ['peer-ca-file', 'UnknownVersionInteroperabilityProxy', isSet],
    ['peer-advertise-ip', 'UnknownVersionInteroperabilityProxy', isSet],
    ['peer-advertise-port', 'UnknownVersionInteroperabilityProxy', isSet],
    ['requestheader-uid-headers', 'RemoteRequestHeaderUID', isSet],
  ],
  'kube-controller-manager': [],
  'kube-scheduler': [],
  kubelet: [],
};

/**
 * Gates with which a component waits for objects of an API that is off by default: each component
 * that knows the gate, or `only` one.
 */
const APIS: readonly (readonly [
  gate: string,
  api: Readonly<Partial<Record<Minor, string>>>,
  only?: KubernetesComponent,
])[] = [
  [
    'CoordinatedLeaderElection',
    {
      '1.34': 'coordination.k8s.io/v1beta1',
      '1.35': 'coordination.k8s.io/v1beta1',
      '1.36': 'coordination.k8s.io/v1beta1',
      '1.37': 'coordination.k8s.io/v1beta1',
    },
  ],
  ['PodCertificateRequest', { '1.35': 'certificates.k8s.io/v1beta1', '1.36': 'certificates.k8s.io/v1beta1' }],
  [
    'GenericWorkload',
    {
      '1.35': 'scheduling.k8s.io/v1alpha1',
      '1.36': 'scheduling.k8s.io/v1alpha2',
      '1.37': 'scheduling.k8s.io/v1beta1',
    },
  ],
  // Until its plugin has read its objects it refuses every write, of the API server's own too.
  [
    'MutatingAdmissionPolicy',
    { '1.34': 'admissionregistration.k8s.io/v1beta1', '1.35': 'admissionregistration.k8s.io/v1beta1' },
    'kube-apiserver',
  ],
];

/** Whether API servers serve an API that is off by default. */
function serves(runtimeConfig: string, api: string): boolean {
  const stage = /v[0-9]+(alpha|beta)/.exec(api)?.[1];
  return runtimeConfig.split(',').some((part) => {
    const [key = '', on = 'true'] = part.trim().split('=');
    return ['api/all', `api/${stage}`, api].includes(key) && on !== 'false';
  });
}

const WAITING: readonly FlagRule[] = (
  ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler'] as const
).map((component) =>
  rule(component)('feature-gates', (_, __, resolved) => {
    const minor = gatesVersion(resolved, component);
    const settings = settingsOf(resolved, component);
    const served = [resolved.flags['kube-apiserver']['runtime-config'] ?? ''].flat().join(',');
    const without = APIS.find(
      ([gate, { [minor ?? '1.34']: api }, only = component]) =>
        only === component &&
        minor !== undefined &&
        api !== undefined &&
        isGateOn(minor, settings, gate) &&
        !serves(served, api),
    );
    return without === undefined
      ? undefined
      : `${without[0]} needs the API ${without[1][minor!]}, which is off; set overrides.flags.kube-apiserver.runtime-config: "${without[1][minor!]}=true"`;
  }),
);

export const GATED: readonly FlagRule[] = [
  ...WAITING,
  ...KUBERNETES_COMPONENTS.flatMap((component) =>
    [...OF_LOGS, ...ROWS[component]].map(([flag, gate, isUsed]) =>
      rule(component)(flag, (value, _, resolved) => {
        // The gates of logs do not follow a version that is emulated.
        const own = MINORS.find((one) => one === minorOf(resolved.versions[component]));
        const minor = gate.startsWith('Logging') ? own : gatesVersion(resolved, component);
        return minor === undefined || !isUsed(value) || isGateOn(minor, settingsOf(resolved, component), gate)
          ? undefined
          : `${component} ${minor} takes it only with the feature gate ${gate}: true`;
      }),
    ),
  ),
];
