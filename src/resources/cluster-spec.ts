/** The schema of Cluster documents. */
import { z } from 'zod';
import { addon } from './addons.ts';
import { apiServer, staticPods } from './apiserver-spec.ts';
import { backupSpec } from './backup-spec.ts';
import { bootDisk, dataDisk, etcdDisk } from './disk-spec.ts';
import {
  domainName,
  duration,
  machineName,
  name,
  nameOrAddress,
  networkText,
  trust,
  urlOf,
} from './fields.ts';
import { hooksSpec } from './hook-spec.ts';
import { maintenanceSpec } from './maintenance-spec.ts';
import { namesSpec } from './names-spec.ts';
import { NODE_FACTS } from './node-facts.ts';
import { nodeConfig } from './nodeconfig.ts';
import { proxySpec } from './proxy-spec.ts';
import { charactersFault, registries } from './registry-spec.ts';
import { sparesSpec } from './spares-spec.ts';
import { vendorTpm } from './tpm-spec.ts';

const machineNames = (description: string) => z.array(machineName).optional().meta({ description });
const networks = (description: string) => z.array(networkText).optional().meta({ description });

const CNIS = ['flannel', 'kube-router', 'none'] as const;

/** All other pod networks are add-ons, so the fault says how to write them. */
const cniError = ({ input }: { readonly input?: unknown }): string =>
  `"${String(input).slice(0, 40)}" is none of ${CNIS.join(', ')}; for another network write "cni: none" and add it as an add-on: \`muster addon ls\``;

/** The settings that an operator decides; src/cluster/resolve/values.ts derives all others. */
export const kubernetesSpec = z.strictObject({
  version: z
    .string()
    .regex(
      /^v?1\.[0-9]{1,3}(\.[0-9]{1,4})?$/,
      'not a version of Kubernetes; write it like "1.36.3" or "1.36", quoted',
    )
    .meta({
      description:
        'Version of Kubernetes, quoted: "1.36.3", or "1.36" for the newest patch release that this version of Muster knows.',
    }),
  acceptUntested: z
    .string()
    .regex(/^1\.[0-9]{1,3}$/, 'not a minor version of Kubernetes; write it like "1.37", quoted')
    .optional()
    .meta({
      description:
        'The minor version of Kubernetes, quoted, that this Cluster may have although Muster knows it by documents only, as the table of versions in README.md says: its flags, feature gates and fields come from what Kubernetes publishes, and no program of it has judged them.',
    }),
  endpoint: z.string().meta({
    description:
      'Where clients reach the Kubernetes API: a name or address, with a port unless it is 6443. With a virtual address by keepalived and another port than 6443, haproxy listens there on every control plane and balances over all API servers.',
  }),
  virtualAddress: z
    .strictObject({
      addresses: z.array(z.string()).min(1).optional().meta({
        description:
          'The virtual addresses, at most one per address family. Default: the address in `endpoint`. They are added to the certificates of the API server.',
      }),
      by: z.enum(['keepalived', 'kube-vip']).optional().meta({
        description:
          'keepalived (default): VRRP, run as a service of the host. kube-vip: leader election by a lock in etcd, run as a static pod; its image is an artifact that must be pulled or imported.',
      }),
      interface: z
        .string()
        .regex(/^[a-zA-Z0-9._][a-zA-Z0-9._-]{0,14}$/, 'not the name of a network device')
        .meta({ description: 'Network device of the control planes that gets the addresses, e.g. eth0.' }),
      routerId: z.int().min(1).max(255).optional().meta({
        description:
          'VRRP virtual router ID (keepalived), unique on the segment. Default: the last octet of the address; 51 if that is not possible.',
      }),
    })
    .optional()
    .meta({
      description:
        'Addresses that one control plane holds at a time. Absent: you provide a load balancer or DNS names.',
    }),
  controlPlanes: z
    .array(machineName)
    .min(1)
    .meta({ description: 'Names of the Machines that are control planes.' }),
  workers: machineNames(
    'Names of the Machines that are workers. A control plane that is named here too runs pods of everybody, as its Node has no taint of control planes.',
  ),
  nodes: z
    .array(
      z.strictObject({
        machines: z
          .array(machineName)
          .min(1)
          .meta({ description: 'Names of control planes and workers of this cluster.' }),
        labels: z.record(z.string(), z.string()).optional().meta({ description: 'Labels of their Nodes.' }),
        labelsFromFacts: z.record(z.string(), z.enum(NODE_FACTS)).optional().meta({
          description:
            'Labels whose values are what the agents of the machines report, e.g. "lab.example/switch": switch. Characters that a label cannot have become dashes. A Node gets such a label, and a change of it, when its agent reports the fact. The machine says these facts itself, so give nothing to a Node because of them that another must not have.',
        }),
        taints: z.array(z.string()).optional().meta({
          description: 'Taints of their Nodes, e.g. "gpu=yes:NoSchedule" or "gpu:NoExecute".',
        }),
        maxUnavailable: z.int().min(1).max(100).optional().meta({
          description:
            'How many workers of the group may be down at the same time in an upgrade or a roll (docs/upgrading.md). A worker counts that is drained, reboots, does not report or is not Ready, whatever took it down. Absent: as many as the whole cluster.',
        }),
      }),
    )
    .optional()
    .meta({
      description:
        'Labels and taints of Nodes, and how many may be down at a time, by groups of machines; a machine may be in several groups. Registered Nodes get a change within half a minute; labels and taints that are removed here are removed from the Nodes. A change by kubectl stays until the document changes.',
    }),
  etcd: z
    .strictObject({
      topology: z.enum(['stacked', 'external']).optional().meta({
        description:
          'stacked (default): every control plane is a member of etcd. external: the machines named in `machines` are the members.',
      }),
      machines: machineNames('Names of the Machines that are members (topology external).'),
      runs: z.enum(['pod', 'service']).optional().meta({
        description:
          'pod: a static pod (default of topology stacked). service: a service of the host, muster-etcd.service (topology external always).',
      }),
    })
    .optional()
    .meta({ description: 'Where etcd runs.' }),
  networks: z
    .strictObject({
      machines: networks('Networks of the machines. A machine with an address outside is refused.'),
      pods: networks('Networks of the pods, one per address family. Default 10.244.0.0/16.'),
      services: networks('Networks of the Services, one per address family. Default 10.96.0.0/16.'),
    })
    .optional()
    .meta({ description: 'Address ranges of machines, pods and Services.' }),
  dnsDomain: domainName
    .refine((text) => !/[A-Z]/.test(text), 'Kubernetes wants lower case here')
    .refine((text) => /[a-z]/.test(text), 'an address is no domain; write a name, e.g. "cluster.local"')
    .optional()
    .meta({ description: 'DNS domain of the cluster, in lower case. Default cluster.local.' }),
  sans: z
    .array(nameOrAddress)
    .optional()
    .meta({ description: 'Further names and addresses in the certificate of the API server.' }),
  keys: z.enum(['ECDSA-P256', 'RSA-2048', 'RSA-3072', 'RSA-4096']).optional().meta({
    description: 'Algorithm of all keys of the cluster. Default ECDSA-P256.',
  }),
  pki: z
    .strictObject({
      leafLifetime: duration.optional().meta({
        description:
          'How long certificates of machines are good for: from 1h to 3650d. Default 365d. They are renewed at two thirds of it. Agents’ certificates always live for 30 days.',
      }),
      rotateAfter: duration.optional().meta({
        description:
          'The age at which the CAs and keys of the cluster are rotated: from 1d to 3285d. A CA that would end before is rotated after half of its life. Default: never by itself.',
      }),
      rehearsal: duration.optional().meta({
        description:
          'For how long one API server is watched while it refuses the old keys of a rotation, before all do: from 1s to 1h. Default 1m.',
      }),
    })
    .optional()
    .meta({ description: 'How long certificates and CAs are used.' }),
  encryptSecrets: z.boolean().optional().meta({
    description:
      'Whether the API server encrypts Secrets before it writes them to etcd. Default true. With false, Secrets that are already encrypted can still be read.',
  }),
  joining: z.enum(['certificate', 'token']).optional().meta({
    description:
      'How the kubelets of workers get their first client certificate. certificate (default): Muster signs it, for a key that the machine made. token: the cluster signs it; the machine requests it with its own bootstrap token, and Muster approves the request if it agrees with the documents.',
  }),
  podSecurity: z.enum(['privileged', 'baseline', 'restricted']).optional().meta({
    description:
      'The Pod Security Standard that is enforced in namespaces that set none themselves. Default baseline; privileged is the default of Kubernetes.',
  }),
  registry: z
    .string()
    .optional()
    .meta({ description: 'Registry of the Kubernetes images. Default registry.k8s.io.' }),
  cni: z.enum(CNIS, { error: cniError }).optional().meta({
    description: 'The pod network. Default flannel. none: an add-on provides it, or you do.',
  }),
  networkPolicy: z
    .strictObject({
      enforce: z.enum(['kube-router', 'addon']).optional().meta({
        description:
          'What enforces NetworkPolicy objects. kube-router: the firewall of kube-router, in addition to another pod network. addon: an add-on of yours. Default: the pod network, if it can (kube-router, the add-ons calico and cilium); flannel cannot.',
      }),
      isolate: z.array(name).optional().meta({
        description:
          'Namespaces whose pods accept connections only from their own namespace, unless a NetworkPolicy of yours allows more. Muster creates namespaces that do not exist. Default none.',
      }),
    })
    .optional()
    .meta({
      description: 'What enforces network policies, and which namespaces are isolated from the start.',
    }),
  serviceProxy: z.enum(['kube-proxy', 'none']).optional().meta({
    description:
      'What carries the addresses of Services on every machine. none: your own network does, such as Cilium; needs cni: none. Default kube-proxy.',
  }),
  runtime: z.enum(['containerd', 'cri-o']).optional().meta({
    description: 'Container runtime of all machines. Default containerd.',
  }),
  addons: z.array(addon).optional().meta({
    description: "Add-ons, applied in this order after Muster's own objects (docs/addons.md).",
  }),
  timeServers: z
    .array(
      z
        .string()
        .refine(
          (text) =>
            nameOrAddress.safeParse(text).success &&
            !/^(\*\..*|0\.0\.0\.0|255\.255\.255\.255|::)$/.test(text),
          'not the name or address of a host; write it like "ntp.example" or "10.77.0.5", without scheme, port and options',
        ),
    )
    .optional()
    .meta({
      description:
        'Names or addresses of the time servers that systemd-timesyncd asks on every machine. Absent: those of DHCP or of the image.',
    }),
  mirrors: z
    .array(
      urlOf(/^https?:$/, 'not an http:// or https:// URL')
        .refine(
          (text) => !URL.canParse(text) || new URL(text).username + new URL(text).password === '',
          'container runtimes drop a login in a URL; write the mirror below `registries`, which takes a `login`',
        )
        .refine((text) => !/[?#]/.test(text), 'the URL of a mirror has no "?" and no "#"')
        .superRefine((text, context) => {
          const message = /[?#@]/.test(text) ? undefined : charactersFault(text);
          if (message !== undefined) context.addIssue({ code: 'custom', message });
        }),
    )
    .optional()
    .meta({
      description:
        "URLs of registries that are asked before the one in an image's name, in this order. With a path that has /v2 in it (Harbor's proxy caches: https://harbor.example/v2/CACHE), images are asked for below that path. An https registry needs a certificate of Muster's CA or of one that the machines trust; for a CA or login of its own write it below `registries`.",
    }),
  proxy: proxySpec.optional().meta({
    description:
      'Proxies through which container runtimes and kubelets reach other networks, mostly for images. The list of what is reached directly is derived.',
  }),
  coreDNS: z
    .strictObject({
      replicas: z.int().min(1).max(100).optional().meta({
        description:
          'How many pods of CoreDNS run, until an operator or an autoscaler sets another number. Default 2.',
      }),
    })
    .optional()
    .meta({ description: 'The DNS server of the cluster.' }),
  apiServer: apiServer.optional().meta({
    description:
      'Documents that API servers read: audit policy, authentication, authorization, kubeconfigs of webhooks. Muster writes the files, mounts them and sets the flags.',
  }),
  staticPods: staticPods.optional().meta({
    description: 'Additions to the static pods of the control plane: volumes, environment, resources.',
  }),
  registries: registries.optional(),
  overrides: z.record(z.string(), z.unknown()).optional().meta({
    description:
      'Replaces any derived value of the resolved Cluster, by its path; null leaves a flag out. `muster get cluster NAME --full` lists the values.',
  }),
});

export const clusterSpec = z.strictObject({
  kubernetes: kubernetesSpec.optional().meta({
    description:
      'Makes the machines a Kubernetes cluster. Absent: the machines only share `config` and disks.',
  }),
  trust: trust.optional(),
  tpm: vendorTpm.optional(),
  dataDisk: dataDisk.optional(),
  etcdDisk: etcdDisk.optional(),
  bootDisk: bootDisk.optional(),
  names: namesSpec.optional().meta({
    description:
      'Where the name in `kubernetes.endpoint` is registered: with the virtual addresses, else with those of all control planes (docs/networks.md).',
  }),
  backup: backupSpec.optional().meta({
    description: 'Snapshots of etcd, which the boot host keeps sealed (docs/backup.md).',
  }),
  maintenance: maintenanceSpec.optional().meta({
    description: 'When machines may reboot in a roll (docs/upgrading.md). Absent: at any time.',
  }),
  hooks: hooksSpec.optional().meta({
    description:
      'HTTP servers of yours that are asked before or after the turn of each machine in upgrades and rolls (docs/upgrading.md). Absent: nobody is asked.',
  }),
  spares: sparesSpec.optional().meta({
    description:
      'Machines that take the place of a lost one by themselves (docs/life.md). Absent: an operator replaces it.',
  }),
  config: nodeConfig.optional().meta({ description: 'Configuration of all machines of the cluster.' }),
});
