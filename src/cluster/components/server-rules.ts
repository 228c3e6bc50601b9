/** Rules of what several components serve: the paths of probes, and TLS. */
import { type FlagRule, isTrue, rule } from './flag-rule.ts';
import { curvesFault, listed, suitesFault, wholeNumber } from './flag-values.ts';

/** Paths that kubelet's probes ask without a credential. */
const PROBED = {
  'kube-controller-manager': ['/healthz'],
  'kube-scheduler': ['/livez', '/readyz'],
} as const;

export const SERVERS: readonly FlagRule[] = [
  ...(['kube-controller-manager', 'kube-scheduler'] as const).map((component) =>
    rule(component)('authorization-always-allow-paths', (value) => {
      const missing = PROBED[component].filter((path) => !allows(listed(value), path));
      return missing.length === 0
        ? undefined
        : `kubelet's probes ask ${missing.join(' and ')}, and would restart the pod for ever; add ${missing.length === 1 ? 'it' : 'them'} to the list`;
    }),
  ),
  ...(['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubelet'] as const).map((component) =>
    rule(component)('tls-curve-preferences', (value) =>
      curvesFault(value.split(',').map((one) => Number(wholeNumber(one) ?? 0))),
    ),
  ),
  ...(['kube-apiserver', 'kube-controller-manager', 'kube-scheduler'] as const).map((component) =>
    rule(component)('tls-cipher-suites', (value, flag) =>
      flag('tls-min-version') === 'VersionTLS13' || isTrue(flag('disable-http2-serving'))
        ? undefined
        : suitesFault(listed(value)),
    ),
  ),
];

/** Whether a list of paths, of which one may end with `*`, has a path. */
const allows = (paths: readonly string[], path: string): boolean =>
  paths.some((one) => (one.endsWith('*') ? path.startsWith(one.slice(0, -1)) : one === path));
