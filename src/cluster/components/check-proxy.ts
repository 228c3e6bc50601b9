/**
 * Checks overrides of KubeProxyConfiguration: with a field or value that kube-proxy does not take
 * it fails on every machine at once (pkg/proxy/apis/config/validation/validation.go).
 */

import { parseIp } from '../../base/ip.ts';
import { type ClusterFault, clusterError } from '../model/fault.ts';
import type { ResolvedCluster, Value } from '../model/resolved-cluster.ts';
import { MINORS, type Minor, minorBefore, minorOf } from '../model/versions.ts';
import { fieldAt, fieldsOf, LOGGING_GATES, shapeFaults } from './config-shapes.ts';
import { goMilliseconds } from './flag-values.ts';
import { dependencyFaults, gateFaults, isGateOn, settingsOfMapping } from './gates.ts';

type Config = ResolvedCluster['kubeProxy']['config'];

/** The fields of each minor version, with their shapes. */
const SHAPES = new Map(MINORS.map((minor) => [minor, fieldsOf('kube-proxy', minor)]));

/** Fields with a fixed set of values, on Linux. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  mode: ['iptables', 'ipvs', 'nftables'],
  detectLocalMode: ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'],
  'logging.format': ['text', 'json'],
};

/** The least and the largest number of a field; a time is in milliseconds. */
const NO_NEGATIVE_NUMBER = [0, Infinity, 'a number that is not negative'] as const;
const NO_NEGATIVE_TIME = [0, Infinity, 'a time that is not negative'] as const;
const RANGES: Readonly<Record<string, readonly [least: number, most: number, what: string]>> = {
  'clientConnection.burst': NO_NEGATIVE_NUMBER,
  configSyncPeriod: NO_NEGATIVE_TIME,
  'conntrack.maxPerCore': NO_NEGATIVE_NUMBER,
  'conntrack.min': NO_NEGATIVE_NUMBER,
  'conntrack.tcpEstablishedTimeout': NO_NEGATIVE_TIME,
  'conntrack.tcpCloseWaitTimeout': NO_NEGATIVE_TIME,
  'conntrack.udpTimeout': NO_NEGATIVE_TIME,
  'conntrack.udpStreamTimeout': NO_NEGATIVE_TIME,
  'iptables.masqueradeBit': [0, 31, 'a number from 0 to 31'],
  'ipvs.tcpTimeout': NO_NEGATIVE_TIME,
  'ipvs.tcpFinTimeout': NO_NEGATIVE_TIME,
  'ipvs.udpTimeout': NO_NEGATIVE_TIME,
  'logging.verbosity': NO_NEGATIVE_NUMBER,
  'nftables.masqueradeBit': [0, 31, 'a number from 0 to 31'],
  oomScoreAdj: [-1000, 1000, 'a number from -1000 to 1000'],
};

/** What IPVS of Linux can do with connections. */
const SCHEDULERS = ['rr', 'wrr', 'lc', 'wlc', 'lblc', 'lblcr', 'sh', 'dh', 'sed', 'nq', 'mh'];

const isNetwork = (text: string): boolean => {
  const [, base = '', bits = ''] = /^(.+)\/([0-9]{1,3})$/.exec(text) ?? [];
  const address = parseIp(base);
  return address !== undefined && Number(bits) <= (address.family === 4 ? 32 : 128);
};

/** Whether a text is "ADDRESS:PORT", or an address alone, to which kube-proxy adds its port. */
function isListener(text: string): boolean {
  if (parseIp(text) !== undefined) return true;
  const [, bracketed, plain = '', port] = /^(?:\[([^\]]*)\]|([^:]*)):([0-9]{1,5})$/.exec(text) ?? [];
  return parseIp(bracketed ?? plain) !== undefined && Number(port) >= 1 && Number(port) <= 65_535;
}

const listenerFault = (value: Value | undefined, example: string): string | undefined =>
  value === '' || isListener(String(value))
    ? undefined
    : `expected an address with a port, like "${example}"`;

/** What is wrong with single fields and between them, by field. */
const RULES: Readonly<Record<string, (config: Config, minor: Minor) => string | undefined>> = {
  bindAddress: ({ bindAddress }) =>
    parseIp(String(bindAddress)) === undefined ? 'expected an IP address' : undefined,
  healthzBindAddress: ({ healthzBindAddress }) => listenerFault(healthzBindAddress, '0.0.0.0:10256'),
  metricsBindAddress: ({ metricsBindAddress }) => listenerFault(metricsBindAddress, '127.0.0.1:10249'),
  nodePortAddresses: ({ nodePortAddresses = [] }) => {
    const given = nodePortAddresses as readonly string[];
    if (given.includes('primary')) return given.length > 1 ? '"primary" is taken only by itself' : undefined;
    const wrong = given.find((text) => !isNetwork(text));
    return wrong === undefined ? undefined : `"${wrong}" is not a network like "10.77.0.0/24", nor "primary"`;
  },
  'ipvs.excludeCIDRs': (config) => {
    const wrong = ((fieldAt(config, 'ipvs.excludeCIDRs') ?? []) as readonly string[]).find(
      (text) => !isNetwork(text),
    );
    return wrong === undefined ? undefined : `"${wrong}" is not a network like "10.77.0.0/24"`;
  },
  'ipvs.scheduler': (config) => {
    const name = String(fieldAt(config, 'ipvs.scheduler'));
    return name === '' || SCHEDULERS.includes(name)
      ? undefined
      : `IPVS has no scheduler "${name}"; it has ${SCHEDULERS.join(', ')}`;
  },
  detectLocalMode: ({ detectLocalMode, detectLocal }) => {
    const needed = NEEDED[String(detectLocalMode)];
    const given = needed && fieldAt({ detectLocal: detectLocal ?? null }, `detectLocal.${needed}`);
    return needed === undefined || (typeof given === 'string' && given !== '')
      ? undefined
      : `${String(detectLocalMode)} needs detectLocal.${needed}`;
  },
  featureGates: ({ featureGates }, minor) =>
    [
      ...Object.entries(featureGates as object).flatMap(([gate, on]) => gateFaults(minor, gate, on)),
      ...dependencyFaults(minor, settingsOfMapping(featureGates)),
    ][0],
  showHiddenMetricsForVersion: ({ showHiddenMetricsForVersion: text }, minor) => {
    const before = minorBefore(minor);
    return text === '' || text === before ? undefined : `kube-proxy ${minor} takes ${before} alone`;
  },
};

const NEEDED: Readonly<Record<string, string>> = {
  BridgeInterface: 'bridgeInterface',
  InterfaceNamePrefix: 'interfaceNamePrefix',
};

/** The least time between two changes of rules by mode, in milliseconds, where none is set. */
const LEAST_SYNC: Readonly<Record<string, number>> = { iptables: 1000, ipvs: 0, nftables: 1000 };

/** The periods of the mode that is used; a field of the same name has them. */
function syncFaults(config: Config): readonly (readonly [string, string])[] {
  const mode = typeof config.mode === 'string' && config.mode !== '' ? config.mode : 'iptables';
  const [sync, least] = ['syncPeriod', 'minSyncPeriod'].map((name) =>
    timeOf(fieldAt(config, `${mode}.${name}`)),
  );
  for (const [name, time] of [['syncPeriod', sync] as const, ['minSyncPeriod', least] as const])
    if (time !== undefined && time < 0) return [[`${mode}.${name}`, 'expected a time that is not negative']];
  // An absent or zero period is 30 seconds.
  return (least || LEAST_SYNC[mode]!) > (sync || 30_000)
    ? [[`${mode}.minSyncPeriod`, 'it is longer than syncPeriod, which is 30s by default']]
    : [];
}

const timeOf = (value: Value | undefined): number | undefined =>
  typeof value === 'string' ? goMilliseconds(value) : undefined;

/** Faults of the overridden fields: unknown names, wrong types, and values that end kube-proxy. */
export function proxyFaults({
  kubeProxy: { config },
  versions,
  cni,
  serviceProxy,
}: ResolvedCluster): readonly ClusterFault[] {
  if (serviceProxy === 'none')
    return cni.plugin === 'none'
      ? []
      : [
          clusterError(
            'serviceProxy',
            `${cni.plugin} leaves Services to kube-proxy; set cni: none and add a network that carries them, such as Cilium`,
          ),
        ];
  const told = (field: string, message: string): ClusterFault =>
    clusterError(`overrides.kubeProxy.config.${field}`, message);
  const own = minorOf(versions['kube-proxy']);
  const minor = MINORS.find((one) => one === own);
  const shapes = shapeFaults(SHAPES.get(minor ?? MINORS[0])!, config, '', 'KubeProxyConfiguration');
  if (shapes.length > 0) return shapes.map(({ field, message }) => told(field, message));
  const words = Object.entries(WORDS).flatMap(([field, choices]) => {
    const value = fieldAt(config, field);
    return value === undefined || value === '' || choices.includes(String(value))
      ? []
      : [told(field, `expected one of ${choices.join(', ')}`)];
  });
  const ranges = Object.entries(RANGES).flatMap(([field, [least, most, what]]) => {
    const value = fieldAt(config, field);
    const amount = typeof value === 'number' ? value : timeOf(value);
    return amount === undefined || (amount >= least && amount <= most)
      ? []
      : [told(field, `expected ${what}`)];
  });
  const settings = settingsOfMapping(config.featureGates);
  const gated = LOGGING_GATES.flatMap(([field, gate, isUsed]) => {
    const value = fieldAt(config, field) ?? null;
    return minor === undefined || value === null || !isUsed(value) || isGateOn(minor, settings, gate)
      ? []
      : [told(field, `kube-proxy ${minor} takes it only with the feature gate ${gate}: true`)];
  });
  const rules = Object.entries(RULES).flatMap(([field, rule]) => {
    const message =
      fieldAt(config, field) === undefined || minor === undefined ? undefined : rule(config, minor);
    return message === undefined ? [] : [told(field, message)];
  });
  return [
    ...words,
    ...ranges,
    ...gated,
    ...rules,
    ...syncFaults(config).map(([field, message]) => told(field, message)),
  ];
}
