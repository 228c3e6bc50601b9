/**
 * Feature gates: which are locked, which need others, and what needs a gate. The tables come from
 * Kubernetes' own sources, by version.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { LIMITS, NAMES, NOT_EMPTY } from '../../../../src/cluster/components/flag-limits.ts';
import { ETCD_FLAGS, FEATURE_GATES, FLAGS } from '../../../../src/cluster/components/flags.ts';
import { dependencyFaults, isGateOn } from '../../../../src/cluster/components/gates.ts';
import { faults } from '../kit.ts';

const gates = (component: string, text: string, version = '1.36') =>
  faults({ version, overrides: { flags: { [component]: { 'feature-gates': text } } } });
const kubelet = (featureGates: Record<string, boolean>, version = '1.36') =>
  faults({ version, overrides: { kubelet: { config: { featureGates } } } });

test.each([
  ['GitRepoVolumeDriver', '1.36'],
  ['SeparateCacheWatchRPC', '1.36'],
  ['AllowOverwriteTerminationGracePeriodSeconds', '1.35'],
  ['AllowOverwriteTerminationGracePeriodSeconds', '1.36'],
  ['WatchFromStorageWithoutResourceVersion', '1.34'],
  ['WatchFromStorageWithoutResourceVersion', '1.35'],
])('the gate %s of %s is locked to false', (gate, version) => {
  expect(gates('kube-apiserver', `${gate}=false`, version)).toEqual([]);
  expect(gates('kube-apiserver', `${gate}=true`, version)).toEqual([
    `error overrides.flags.kube-apiserver.feature-gates: the feature gate ${gate} is false in Kubernetes ${version} and cannot be changed; remove it`,
  ]);
  expect(kubelet({ [gate]: true }, version)).toHaveLength(1);
});

describe('gates that need others', () => {
  test.each([
    ['PodLevelResources', 'InPlacePodLevelResourcesVerticalScaling'],
    ['APIServerIdentity', 'UnknownVersionInteroperabilityProxy'],
    ['GracefulNodeShutdown', 'GracefulNodeShutdownBasedOnPodPriority'],
  ])('%s cannot be switched off alone', (gate, dependent) => {
    expect(gates('kube-controller-manager', `${gate}=false`)).toEqual([
      expect.stringMatching(new RegExp(`${gate} cannot be off while .*${dependent}.* on; set th`)),
    ]);
    expect(kubelet({ [gate]: false })).toEqual([
      expect.stringMatching(/^error overrides\.kubelet\.config\.featureGates: /),
    ]);
  });

  test.each(['GangScheduling', 'WorkloadWithJob', 'TopologyAwareWorkloadScheduling'])(
    '%s cannot be switched on alone, and the message names what it needs',
    (gate) => {
      expect(gates('kube-scheduler', `${gate}=true`)).toEqual([
        `error overrides.flags.kube-scheduler.feature-gates: ${gate} needs GenericWorkload, which is off in Kubernetes 1.36; set GenericWorkload to true as well`,
      ]);
      const flags = (runtime: string) => ({
        'kube-apiserver': { 'runtime-config': runtime },
        'kube-scheduler': { 'feature-gates': `${gate}=true,GenericWorkload=true` },
      });
      const api = 'scheduling.k8s.io/v1alpha2';
      expect(faults({ overrides: { flags: flags(`${api}=true`) } })).toEqual([]);
      expect(faults({ overrides: { flags: flags('') } })).toEqual([
        `error overrides.flags.kube-scheduler.feature-gates: GenericWorkload needs the API ${api}, which is off; set overrides.flags.kube-apiserver.runtime-config: "${api}=true"`,
      ]);
    },
  );

  test('kube-proxy is held to the same', () => {
    const config = { featureGates: { PodLevelResources: false } };
    expect(faults({ overrides: { kubeProxy: { config } } })).toEqual([
      expect.stringMatching(
        /^error overrides\.kubeProxy\.config\.featureGates: PodLevelResources cannot be off/,
      ),
    ]);
  });

  test('a component that emulates an older version has the gates of that', () => {
    const flags = { 'feature-gates': 'APIServerIdentity=false', 'emulated-version': '1.35' };
    expect(faults({ overrides: { flags: { 'kube-apiserver': flags } } })).toEqual([]);
  });

  test('what a message asks for is taken', () => {
    const names = [...FEATURE_GATES]
      .filter(([, versions]) => versions.get('1.36')?.locked === false)
      .map(([name]) => name);
    fc.assert(
      fc.property(fc.uniqueArray(fc.constantFrom(...names), { maxLength: 4 }), fc.boolean(), (chosen, on) => {
        const settings = new Map(chosen.map((name) => [name, on]));
        for (let n = 0; n < 12 && dependencyFaults('1.36', settings).length > 0; n++)
          for (const message of dependencyFaults('1.36', settings)) {
            const needed = /set (\w+) to true/.exec(message)?.[1];
            if (needed !== undefined && settings.get(needed) !== false) settings.set(needed, true);
            else
              for (const gate of /while (.*) (is|are) on/.exec(message)![1]!.split(', '))
                settings.set(gate, false);
          }
        expect(dependencyFaults('1.36', settings)).toEqual([]);
      }),
    );
  });

  test('AllAlpha and AllBeta set the gates of their stage that are not set themselves', () => {
    const alpha = new Map([['AllAlpha', true]]);
    expect(isGateOn('1.36', alpha, 'GenericWorkload')).toBe(true);
    expect(isGateOn('1.36', new Map([...alpha, ['GenericWorkload', false]]), 'GenericWorkload')).toBe(false);
    expect(isGateOn('1.36', new Map([['AllBeta', false]]), 'WatchList')).toBe(false);
  });
});

describe('texts of the flag', () => {
  test.each(['AllAlpha=F', 'WatchList=1', ' WatchList = true ', 'kube:WatchList=true', 'WatchList=true,'])(
    '%j is taken',
    (text) => {
      expect(gates('kube-scheduler', text)).toEqual([]);
    },
  );

  test('"kube:" stands before all gates or none, and kubelet knows no "kube:"', () => {
    expect(gates('kube-apiserver', 'kube:WatchList=true,APIServerIdentity=true')).toEqual([
      expect.stringContaining('leave "kube:" out'),
    ]);
    expect(gates('kubelet', 'kube:NodeSwap=true')).toEqual([
      expect.stringContaining('kubelet takes a gate without "kube:"'),
    ]);
  });
});

describe('what needs a gate', () => {
  const flag = (component: string, flags: Record<string, string>, version = '1.36') =>
    faults({ version, overrides: { flags: { [component]: flags } } });

  test.each(['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubelet'])(
    'the log flags of %s',
    (component) => {
      for (const name of ['log-json-split-stream', 'log-text-split-stream']) {
        expect(flag(component, { [name]: 'true' })).toEqual([
          expect.stringMatching(/takes it only with the feature gate LoggingAlphaOptions: true$/),
        ]);
        expect(flag(component, { [name]: 'true', 'feature-gates': 'LoggingAlphaOptions=true' })).toEqual([]);
      }
      expect(flag(component, { 'log-json-info-buffer-size': '64Ki' })).toHaveLength(1);
      expect(flag(component, { 'log-json-info-buffer-size': '0' })).toEqual([]);
      expect(
        flag(component, { 'logging-format': 'json', 'feature-gates': 'LoggingBetaOptions=false' }),
      ).toEqual([expect.stringContaining('LoggingBetaOptions')]);
    },
  );

  test('the log options in the configurations of kubelet and kube-proxy', () => {
    const logging = { options: { json: { infoBufferSize: '64Ki' } } };
    for (const overrides of [{ kubelet: { config: { logging } } }, { kubeProxy: { config: { logging } } }])
      expect(faults({ overrides })).toEqual([expect.stringContaining('LoggingAlphaOptions: true')]);
  });

  test('peer-ca-file, where the gate is off by default', () => {
    const file = { 'peer-ca-file': '/etc/kubernetes/pki/ca.crt' };
    expect(flag('kube-apiserver', file)).toEqual([]);
    expect(flag('kube-apiserver', file, '1.35')).toEqual([
      expect.stringContaining('UnknownVersionInteroperabilityProxy: true'),
    ]);
  });

  test('the back-off of control planes, which Muster sets', () => {
    expect(kubelet({ KubeletCrashLoopBackOffMax: false })).toEqual([
      expect.stringContaining('takes it only with the feature gate KubeletCrashLoopBackOffMax: true'),
    ]);
  });
});

test('each name in the tables of limits is a flag of some version', () => {
  const unknown = (
    ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubelet', 'etcd'] as const
  ).flatMap((component) => {
    const table = component === 'etcd' ? ETCD_FLAGS : FLAGS[component];
    const names = [
      ...LIMITS[component].keys(),
      ...Object.keys(NAMES[component] ?? {}),
      ...(NOT_EMPTY[component] ?? []),
    ];
    return names.filter((name) => !table.has(name)).map((name) => `${component} ${name}`);
  });
  expect(unknown).toEqual([]);
});
