/**
 * Checks each value of a resolved specification by itself, overridden or not. Values that reach
 * certificates, image names or files on machines have to match the same schemas as the fields of
 * the Cluster document.
 */
import { z } from 'zod';
import { isTag, parseReference } from '../../artifacts/reference.ts';
import { networkHolds, parseIp, parseIpNetwork, sizeOf } from '../../base/ip.ts';
import { kubernetesSpec } from '../../resources/cluster-spec.ts';
import { absolutePath, ipText, nameOrAddress } from '../../resources/fields.ts';
import type { ResolvedCluster, Value } from '../model/resolved-cluster.ts';
import { parseVersion } from '../model/versions.ts';

interface ValueFault {
  /** The path from the root of the resolved specification. */
  readonly path: string;
  readonly message: string;
}

const image = z.string().refine((text) => parseReference(text) !== undefined, {
  error: (issue) =>
    `"${issue.input}" is not an image reference; write it like "registry.k8s.io/etcd:3.6.8-0"`,
});
const name = nameOrAddress.refine(
  (text) => parseIp(text) === undefined,
  'an address; it belongs to sans.ips',
);
const version = z
  .string()
  .refine((text) => !text.startsWith('v'), 'write it without the "v"')
  .refine((text) => parseVersion(text) !== undefined, {
    error: (issue) => `"${issue.input}" is not a version like "1.36.3"`,
  });
const { coreDNS, dnsDomain, keys, mirrors, proxy, registries, timeServers, virtualAddress } =
  kubernetesSpec.shape;
const { http, https, noProxy } = proxy.unwrap().shape;
const { interface: device, routerId } = virtualAddress.unwrap().shape;
const least = (smallest: number) => z.int().min(smallest);

/** Schemas by path; `*` matches every key. */
const VALUES: Readonly<Record<string, z.ZodType>> = {
  dnsDomain: dnsDomain.unwrap(),
  'serviceAddresses.dns': z.array(ipText),
  'sans.dns': z.array(name),
  'sans.ips': z.array(ipText),
  keys,
  registry: z
    .string()
    .refine(
      (text) => parseReference(`${text}/name`) !== undefined,
      'not a registry; write it without a scheme, like "registry.example:5000/mirror"',
    ),
  'versions.coredns': z
    .string()
    .regex(/^v\d+\.\d+\.\d+$/, 'not a tag of CoreDNS; write it with its "v", like "v1.14.2"'),
  'versions.pause': z.string().refine(isTag, 'not the tag of an image; write it like "3.10.2"'),
  'versions.*': version,
  // Empty: the plugin is part of the machines' image.
  'cni.images.flannel-cni-plugin': z.union([z.literal(''), image]),
  'cni.images.*': image,
  'images.*': image,
  'virtualAddress.interface': device,
  'virtualAddress.routerId': routerId,
  'virtualAddress.image': image,
  cniPlugins: absolutePath,
  hostCertificates: z.array(absolutePath),
  timeServers,
  mirrors,
  'proxy.http': http,
  'proxy.https': https,
  'proxy.noProxy': noProxy,
  'coreDNS.replicas': coreDNS.unwrap().shape.replicas,
  registries: registries.unwrap(),
  'checks.memoryMiB.*': least(0),
  'checks.cpus': least(1),
  'checks.fsyncMs': least(1),
};

/**
 * Faults of single values, in the order of the table of schemas, and of the addresses of CoreDNS's
 * Service.
 */
export function valueFaults(resolved: ResolvedCluster): readonly ValueFault[] {
  const found = leavesOf(resolved as unknown as Value, '').flatMap(([path, value]) => {
    const schema = VALUES[path] ?? VALUES[path.replace(/[^.]+$/, '*')];
    const result = schema?.safeParse(value);
    return result === undefined || result.success
      ? []
      : [{ path, message: result.error.issues.map(issueText(value)).join('; ') }];
  });
  return [...found, ...serviceFaults(resolved)];
}

/** The issue's message; if the value is a list, the faulty item comes before it. */
const issueText =
  (value: Value) =>
  ({ message, path: [item] }: { readonly message: string; readonly path: readonly PropertyKey[] }): string =>
    Array.isArray(value) && typeof item === 'number' ? `"${String(value[item])}": ${message}` : message;

/**
 * Checks the addresses of CoreDNS's Service: the API refuses addresses outside of the service
 * networks. `checkNetworks` reports networks that are not valid.
 */
function serviceFaults({ networks, serviceAddresses: { dns } }: ResolvedCluster): readonly ValueFault[] {
  const path = 'serviceAddresses.dns';
  const services = networks.services.map(parseIpNetwork);
  if (services.some((network) => network === undefined || sizeOf(network) <= 10n)) return [];
  if (dns.length === 0) return [{ path, message: 'at least one address is needed' }];
  return dns.flatMap((text) => {
    const address = parseIp(text);
    return address === undefined || services.some((network) => networkHolds(network!, address))
      ? []
      : [{ path, message: `${text} is outside of networks.services` }];
  });
}

/** All values with their paths; a list counts as one value. */
function leavesOf(value: Value, path: string): readonly (readonly [string, Value])[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [[path, value]];
  return Object.entries(value).flatMap(([key, inner]) =>
    key === 'machines' && path === '' ? [] : leavesOf(inner, path === '' ? key : `${path}.${key}`),
  );
}
