/** Static pods as typed data: those fields of Kubernetes' Pod that the control plane uses. */

import type { Rolled } from './restarts.ts';

export interface Probe {
  readonly failureThreshold: number;
  readonly httpGet?: {
    readonly host: string;
    readonly path: string;
    readonly port: string | number;
    readonly scheme: 'HTTP' | 'HTTPS';
  };
  readonly tcpSocket?: { readonly host: string; readonly port: string | number };
  readonly initialDelaySeconds?: number;
  readonly periodSeconds: number;
  readonly timeoutSeconds: number;
}

export interface Mount {
  readonly name: string;
  /** The same path on the host and in the pod. */
  readonly path: string;
  readonly type: 'Directory' | 'DirectoryOrCreate' | 'File' | 'FileOrCreate' | 'Socket';
  readonly readOnly: boolean;
}

export interface StaticPod {
  readonly name: Exclude<Rolled, 'kubelet' | 'haproxy'>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly image: string;
  readonly command: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly port: number;
  readonly requests: Readonly<Record<string, string>>;
  readonly limits?: Readonly<Record<string, string>>;
  /** Default: system-node-critical. */
  readonly priorityClassName?: keyof typeof PRIORITIES;
  readonly livenessProbe: Probe;
  readonly readinessProbe?: Probe;
  readonly startupProbe: Probe;
  readonly mounts: readonly Mount[];
}

/** Values of Kubernetes' own classes, which no API server adds to a static pod. */
const PRIORITIES = {
  'system-node-critical': 2_000_001_000,
  'system-cluster-critical': 2_000_000_000,
} as const;

/** The manifest, with its fields in kubeadm's (alphabetical) order. */
export function podManifest(pod: StaticPod) {
  const { mounts, priorityClassName = 'system-node-critical' } = pod;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      ...(Object.keys(pod.annotations).length > 0 && { annotations: pod.annotations }),
      labels: { component: pod.name, tier: 'control-plane' },
      name: pod.name,
      namespace: 'kube-system',
    },
    spec: {
      containers: [
        {
          command: pod.command,
          ...(pod.env && { env: Object.entries(pod.env).map(([name, value]) => ({ name, value })) }),
          image: pod.image,
          imagePullPolicy: 'IfNotPresent',
          livenessProbe: pod.livenessProbe,
          name: pod.name,
          ports: [{ containerPort: pod.port, name: 'probe-port', protocol: 'TCP' }],
          ...(pod.readinessProbe && { readinessProbe: pod.readinessProbe }),
          resources: { ...(pod.limits && { limits: pod.limits }), requests: pod.requests },
          startupProbe: pod.startupProbe,
          volumeMounts: mounts.map(({ name, path, readOnly }) => ({
            mountPath: path,
            name,
            ...(readOnly && { readOnly }),
          })),
        },
      ],
      hostNetwork: true,
      priority: PRIORITIES[priorityClassName],
      priorityClassName,
      securityContext: { seccompProfile: { type: 'RuntimeDefault' } },
      volumes: mounts.map(({ name, path, type }) => ({ hostPath: { path, type }, name })),
    },
    status: {},
  };
}
