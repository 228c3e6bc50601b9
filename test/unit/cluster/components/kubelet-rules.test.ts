/** A configuration with which kubelet would end at once is refused when a Cluster is applied. */
import { expect, test } from 'vitest';
import { faults } from '../kit.ts';

const told = (config: object, more: object = {}): string[] =>
  faults({ overrides: { kubelet: { config }, ...more } });

test.each([
  [{ imageGCHighThresholdPercent: 101 }, 'imageGCHighThresholdPercent: 101 is not between 0 and 100'],
  [{ oomScoreAdj: -1001 }, 'oomScoreAdj: -1001 is not between -1000 and 1000'],
  [{ nodeLeaseDurationSeconds: 0 }, 'nodeLeaseDurationSeconds: 0 is less than 1'],
  [
    { topologyManagerPolicy: 'strict' },
    'topologyManagerPolicy: kubelet has no "strict" here; it takes best-effort, none',
  ],
  [
    { memoryManagerPolicy: 'static' },
    'memoryManagerPolicy: kubelet has no "static" here; it takes None, Static',
  ],
  [
    { imageGCHighThresholdPercent: 70 },
    'imageGCLowThresholdPercent: 80 is not less than imageGCHighThresholdPercent',
  ],
  [
    { maxParallelImagePulls: 3, serializeImagePulls: true },
    'maxParallelImagePulls: more than 1 needs serializeImagePulls',
  ],
  [{ evictionSoft: { 'memory.available': '1Gi' } }, 'evictionSoft: memory.available needs a period'],
  [
    { shutdownGracePeriodCriticalPods: '20s', shutdownGracePeriod: '10s' },
    'shutdownGracePeriodCriticalPods: it is longer',
  ],
  [{ imageMaximumGCAge: '90s' }, 'imageMaximumGCAge: it is not longer than imageMinimumGCAge'],
  [{ cpuManagerPolicy: 'static' }, 'cpuManagerPolicy: static needs CPUs for the system'],
  [{ memoryManagerPolicy: 'Static' }, 'memoryManagerPolicy: Static needs reservedMemory'],
])('%j is refused', (config, message) => {
  expect(told(config).map((one) => one.slice(0, 32 + message.length))).toEqual([
    expect.stringContaining(`error overrides.kubelet.config.${message}`.slice(0, 32 + message.length)),
  ]);
});

test.each([
  [{ imageGCHighThresholdPercent: 70, imageGCLowThresholdPercent: 60 }],
  [{ maxParallelImagePulls: 3, serializeImagePulls: false }],
  [{ evictionSoft: { 'memory.available': '1Gi' }, evictionSoftGracePeriod: { 'memory.available': '1m' } }],
  [{ shutdownGracePeriodCriticalPods: '10s', shutdownGracePeriod: '20s' }],
  [{ imageMaximumGCAge: '48h' }],
  [{ cpuManagerPolicy: 'static', reservedSystemCPUs: '0-1' }],
  [{ cpuManagerPolicy: 'static', systemReserved: { cpu: '500m' } }],
])('%j is taken', (config) => {
  expect(told(config)).toEqual([]);
});

test('a flag that wins over a field of a rule leaves the rule out', () => {
  expect(told({ cpuManagerPolicy: 'static' }, { flags: { kubelet: { 'reserved-cpus': '0' } } })).toEqual([]);
});

test('what only control planes have is reported there', () => {
  expect(faults({ overrides: { kubelet: { controlPlaneConfig: { maxPods: -1 } } } })).toEqual([
    'error overrides.kubelet.controlPlaneConfig.maxPods: -1 is less than 0',
  ]);
});
