/**
 * What kubelet reads out of the texts in its configuration as it starts: resources, thresholds,
 * sets of CPUs, taints and so on. With a text that it cannot read it ends on every machine.
 */
import { parseIp } from '../../base/ip.ts';
import { didYouMean } from '../../base/suggest.ts';
import type { NodeTaint, Value } from '../model/resolved-cluster.ts';
import type { Minor } from '../model/versions.ts';
import { curvesFault, goMilliseconds, goTruth, isQuantity, isZeroQuantity } from './flag-values.ts';
import { FLAGS } from './flags.ts';
import { taintPartsFaults, taintPlace } from './nodes.ts';

/** What is wrong with the value of a field that has its type. */
type ValueCheck = (value: Value, minor: Minor) => readonly string[];

const entries = (value: Value): readonly (readonly [string, string])[] =>
  Object.entries(value as Readonly<Record<string, string>>);
const texts = (value: Value): readonly string[] => value as readonly string[];

const isNegative = (quantity: string): boolean => quantity.startsWith('-');

const oneOf = (name: string, names: readonly string[], what: string): readonly string[] =>
  names.includes(name)
    ? []
    : [
        `${what} "${name}"${didYouMean(name, names)}; there ${names.length === 1 ? 'is' : 'are'} ${names.join(', ')}`,
      ];

const RESOURCES = ['cpu', 'memory', 'ephemeral-storage', 'pid'];

const reservation: ValueCheck = (value) =>
  entries(value).flatMap(([name, amount]) => [
    ...oneOf(name, RESOURCES, 'kubelet cannot reserve'),
    ...(isQuantity(amount) && !isNegative(amount)
      ? []
      : [`${name}: "${amount}" is not a quantity like "500m" or "1Gi"`]),
  ]);

/** kubelet's signals of eviction (pkg/kubelet/eviction/api/types.go). */
const SIGNALS = [
  'memory.available',
  'nodefs.available',
  'nodefs.inodesFree',
  'imagefs.available',
  'imagefs.inodesFree',
  'containerfs.available',
  'containerfs.inodesFree',
  'pid.available',
  'allocatableMemory.available',
];

const signal = (name: string): readonly string[] => oneOf(name, SIGNALS, 'kubelet has no signal');

/** The percentage of a text like "10%"; undefined for every other text. */
const percentage = (text: string): number | undefined =>
  /^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)%$/.test(text) ? Number(text.slice(0, -1)) : undefined;

function amountFault(name: string, text: string, mayBeZero: boolean): readonly string[] {
  const share = percentage(text);
  const good =
    share === undefined
      ? isQuantity(text) && !isNegative(text) && (mayBeZero || !isZeroQuantity(text))
      : share >= 0 && share <= 100;
  return good ? [] : [`${name}: "${text}" is not an amount like "100Mi" or "10%"`];
}

const thresholds: ValueCheck = (value) =>
  entries(value).flatMap(([name, text]) => [...signal(name), ...amountFault(name, text, false)]);

const reclaim: ValueCheck = (value) =>
  entries(value).flatMap(([name, text]) => [...signal(name), ...amountFault(name, text, true)]);

const gracePeriods: ValueCheck = (value) =>
  entries(value).flatMap(([name, text]) => [
    ...signal(name),
    ...((goMilliseconds(text) ?? -1) >= 0 ? [] : [`${name}: "${text}" is not a duration like "1m30s"`]),
  ]);

/** A set of CPUs like "0,2-3" (k8s.io/utils/cpuset). */
const cpus: ValueCheck = (value) =>
  value === '' ||
  String(value)
    .split(',')
    .every((part) => {
      const [, first, last = first] = /^([0-9]+)(?:-([0-9]+))?$/.exec(part) ?? [];
      return first !== undefined && Number(first) <= Number(last);
    })
    ? []
    : [`"${String(value)}" is not a set of CPUs like "0,2-3"`];

const address: ValueCheck = (value) =>
  value === '' || parseIp(String(value)) !== undefined ? [] : [`"${String(value)}" is not an IP address`];

const addresses: ValueCheck = (value) =>
  texts(value).flatMap((text) => (parseIp(text) === undefined ? [`"${text}" is not an IP address`] : []));

/** Options of a manager, each with what its text has to be. */
const options =
  (known: Readonly<Record<string, (text: string) => boolean>>): ValueCheck =>
  (value) =>
    entries(value).flatMap(([name, text]) => [
      ...oneOf(name, Object.keys(known), 'kubelet has no option'),
      ...((known[name]?.(text) ?? true) ? [] : [`${name}: "${text}" is not a value of this option`]),
    ]);

const isTruth = (text: string): boolean => goTruth(text) !== undefined;

const taints: ValueCheck = (value) => {
  const list = value as readonly Partial<NodeTaint>[];
  const places = list.map(taintPlace);
  const twice = places.find((place, n) => places.indexOf(place) < n);
  return [
    ...list.flatMap(taintPartsFaults),
    ...(twice === undefined ? [] : [`${twice} is listed twice, and the API refuses such a Node; keep one`]),
  ];
};

/** Sysctls of a namespace (component-helpers/node/util/sysctl/namespace.go), up to a "*". */
const NAMESPACED = /^(kernel\.(sem|shm(all|max|mni|_rmid_forced)?|msg(max|mnb|mni)?)$|net\.|fs\.mqueue\.)/;
const SYSCTL =
  /^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*([a-z0-9]([-_a-z0-9]*[a-z0-9])?\*?|[a-z0-9]?[-_a-z0-9]*\*)$/;

const sysctls: ValueCheck = (value) =>
  texts(value).flatMap((text) => {
    if (!SYSCTL.test(text)) return [`"${text}" is not a sysctl like "net.core.somaxconn" or "net.*"`];
    return NAMESPACED.test(text.replaceAll('/', '.').replace(/\*.*/, ''))
      ? []
      : [`${text} is a sysctl of the whole machine, not of a pod; set it with config.sysctls`];
  });

const ciphers: ValueCheck = (value, minor) => {
  const known = FLAGS.kubelet.get('tls-cipher-suites')?.get(minor)?.choices ?? [];
  return texts(value).flatMap((name) =>
    known.length === 0 || known.includes(name)
      ? []
      : [`kubelet has no cipher suite "${name}"${didYouMean(name, known)}`],
  );
};

const path: ValueCheck = (value) =>
  /^\/[\x20-\x7e]*$/.test(String(value)) && !/\/\/|\/\.{1,2}(\/|$)|.\/$/.test(String(value))
    ? []
    : [`"${String(value)}" is not an absolute path without "..", "//" and a slash at its end`];

const memory: ValueCheck = (value) => {
  const seen = new Set<string>();
  return (
    value as readonly { readonly numaNode?: number; readonly limits?: Record<string, Value> }[]
  ).flatMap(({ numaNode = 0, limits = {} }) =>
    Object.entries(limits).flatMap(([name, amount]) => {
      const key = `${numaNode} ${name}`;
      const twice = seen.has(key) ? [`NUMA node ${numaNode} has ${name} twice`] : [];
      seen.add(key);
      const known = name === 'memory' || name.startsWith('hugepages-');
      return [
        ...twice,
        ...(known ? [] : [`kubelet cannot reserve "${name}" of a NUMA node; use memory or hugepages-SIZE`]),
        ...(/\..*i$/.test(String(amount))
          ? [`${name} of NUMA node ${numaNode}: kubelet takes no fraction here; write it in a smaller unit`]
          : []),
        ...(isZeroQuantity(String(amount)) ? [`${name} of NUMA node ${numaNode} is zero`] : []),
      ];
    }),
  );
};

export const VALUE_CHECKS: Readonly<Record<string, ValueCheck>> = {
  address: (value, minor) =>
    /^(127\.|::1$)/.test(String(value))
      ? ['API servers could not reach it there for logs and exec; write "0.0.0.0" or "::"']
      : address(value, minor),
  allowedUnsafeSysctls: sysctls,
  clusterDNS: addresses,
  containerLogMaxSize: (value) =>
    isQuantity(String(value)) && !isNegative(String(value)) && !isZeroQuantity(String(value))
      ? []
      : [`"${String(value)}" is not a size like "10Mi"`],
  cpuManagerPolicyOptions: options({
    'align-by-socket': isTruth,
    'distribute-cpus-across-cores': isTruth,
    'distribute-cpus-across-numa': isTruth,
    'full-pcpus-only': isTruth,
    'prefer-align-cpus-by-uncorecache': isTruth,
    'strict-cpu-reservation': isTruth,
  }),
  evictionHard: thresholds,
  evictionMinimumReclaim: reclaim,
  evictionSoft: thresholds,
  evictionSoftGracePeriod: gracePeriods,
  healthzBindAddress: address,
  kubeReserved: reservation,
  podLogsDir: path,
  qosReserved: (value) =>
    entries(value).flatMap(([name, text]) => [
      ...oneOf(name, ['memory'], 'kubelet cannot reserve'),
      ...(/^([0-9]|[1-9][0-9]|100)%$/.test(text)
        ? []
        : [`${name}: "${text}" is not a percentage like "50%"`]),
    ]),
  registerWithTaints: taints,
  reservedMemory: memory,
  reservedSystemCPUs: cpus,
  systemReserved: reservation,
  tlsCipherSuites: ciphers,
  tlsCurvePreferences: (value) => {
    const fault = curvesFault(value as readonly number[]);
    return fault === undefined ? [] : [fault];
  },
  topologyManagerPolicyOptions: options({
    // kubelet's own number, below which it ends.
    'max-allowable-numa-nodes': (text) => /^[0-9]+$/.test(text) && Number(text) >= 8,
    'prefer-closest-numa-nodes': isTruth,
  }),
};
