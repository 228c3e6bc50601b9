/**
 * kube-vip as a static pod: the control plane that holds a lock in etcd has the virtual addresses.
 * The lock is a key in etcd and not a Lease, because a Lease needs a reachable API, and so a first
 * control plane.
 */
import type { PlanLine } from '../../agent/wire/plan.ts';
import { urlHost } from '../../base/ip.ts';
import { type Plain, yamlText } from '../../base/yaml-text.ts';
import { AUTHORITIES, PKI_DIRECTORY } from '../../pki/hierarchy.ts';
import { ETCD_CLIENT_PORT } from '../model/ports.ts';
import { addressOf, type ResolvedCluster, withRole } from '../model/resolved-cluster.ts';
import { apiserverQuestion } from '../resolve/health-requests.ts';
import { digestOf } from './lines.ts';
import { MANIFEST_DIRECTORY } from './manifests.ts';

export const KUBE_VIP_MANIFEST = `${MANIFEST_DIRECTORY}/kube-vip.yaml`;

/** The files are mounted one by one, because their directories also contain keys of CAs. */
const FILES = {
  'etcd-ca': AUTHORITIES['etcd-ca'].bundle.path,
  'etcd-client-certificate': `${PKI_DIRECTORY}/apiserver-etcd-client.crt`,
  'etcd-client-key': `${PKI_DIRECTORY}/apiserver-etcd-client.key`,
} as const;

/**
 * Whether a change of the file restarts the pod. A file that is mounted by itself does not show its
 * replacement.
 */
const isRead = (path: string): boolean =>
  [FILES['etcd-ca'], FILES['etcd-client-certificate']].some((file) => file === path);

/**
 * The time in seconds after its last renewal at which the lock expires. kube-vip does not notice
 * that it lost the lock, and then two machines hold the address. So this time is longer than a
 * restart of the local etcd and than the election of another leader.
 */
const leaseSeconds = ({ flags }: ResolvedCluster): number =>
  Math.max(15, Math.ceil((5 * Number(flags.etcd['election-timeout'] ?? 1000)) / 1000));

/** The manifest of kube-vip's static pod, as YAML. */
export function kubeVipManifest(
  resolved: ResolvedCluster,
  { addresses, interface: device, image }: NonNullable<ResolvedCluster['virtualAddress']>,
  pki: readonly PlanLine[],
): string {
  // kube-vip uses the member on its own machine if there is one. It would keep using a connection
  // that died with another machine's power, and then see neither the lock nor its end.
  const endpoints =
    resolved.etcd.topology === 'external'
      ? withRole(resolved, 'etcd').map((member) => `${urlHost(addressOf(member))}:${ETCD_CLIENT_PORT}`)
      : [`127.0.0.1:${ETCD_CLIENT_PORT}`];
  const env = {
    address: addresses.join(','),
    cp_enable: 'true',
    port: String(resolved.endpoint.port),
    vip_arp: 'true',
    vip_interface: device,
    vip_leaderelection: 'true',
    vip_leaseduration: String(leaseSeconds(resolved)),
    vip_subnet: addresses.map((address) => (address.includes(':') ? '128' : '32')).join(','),
  };
  const mounts = Object.entries(FILES);
  const pod: Plain = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      annotations: { 'muster/reads': digestOf(pki, isRead) },
      labels: { component: 'kube-vip', tier: 'control-plane' },
      name: 'kube-vip',
      namespace: 'kube-system',
    },
    spec: {
      containers: [
        {
          args: [
            'manager',
            '--leaderElectionType=etcd',
            `--etcdCACert=${FILES['etcd-ca']}`,
            `--etcdCert=${FILES['etcd-client-certificate']}`,
            `--etcdKey=${FILES['etcd-client-key']}`,
            `--etcdEndpoints=${endpoints.join(',')}`,
          ],
          env: [
            ...Object.entries(env).map(([name, value]) => ({ name, value })),
            { name: 'vip_nodename', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } },
          ],
          image,
          imagePullPolicy: 'IfNotPresent',
          // The lock shows that this machine runs, not that its API server does. Without a ready
          // API server the probe ends the pod, and another machine takes the addresses.
          livenessProbe: {
            failureThreshold: 2,
            ...apiserverQuestion(resolved, '127.0.0.1', '/readyz'),
            periodSeconds: 2,
            timeoutSeconds: 2,
          },
          name: 'kube-vip',
          resources: { requests: { cpu: '20m', memory: '32Mi' } },
          securityContext: { capabilities: { add: ['NET_ADMIN', 'NET_RAW'], drop: ['ALL'] } },
          // The API server has five minutes for its first start; until then nobody needs the
          // addresses.
          startupProbe: {
            failureThreshold: 150,
            ...apiserverQuestion(resolved, '127.0.0.1', '/readyz'),
            periodSeconds: 2,
            timeoutSeconds: 2,
          },
          volumeMounts: mounts.map(([name, mountPath]) => ({ mountPath, name, readOnly: true })),
        },
      ],
      hostNetwork: true,
      priorityClassName: 'system-node-critical',
      securityContext: { seccompProfile: { type: 'RuntimeDefault' } },
      volumes: mounts.map(([name, path]) => ({ hostPath: { path, type: 'File' }, name })),
    },
  };
  return yamlText(pod);
}
