/**
 * Holds the virtual addresses on one control plane at a time, with keepalived as a service of the
 * host or kube-vip as a static pod. Each checks the API server of its own machine, or its own
 * machine's balancer if the endpoint has a port of its own.
 */

import type { PlanLine } from '../../agent/wire/plan.ts';
import { AUTHORITIES } from '../../pki/hierarchy.ts';
import { API_PORT } from '../model/ports.ts';
import {
  addressOfFamily,
  balancedPort,
  type ClusterMachine,
  type ResolvedCluster,
  withRole,
} from '../model/resolved-cluster.ts';
import { curlOptions } from '../resolve/health-requests.ts';
import { KUBE_VIP_MANIFEST, kubeVipManifest } from './kube-vip.ts';
import { digestOf, put, sections } from './lines.ts';

const CONFIG = '/etc/muster/keepalived.conf';
const SERVICE = 'muster-address.service';
const UNIT = `/etc/systemd/system/${SERVICE}`;

type VirtualAddress = NonNullable<ResolvedCluster['virtualAddress']>;

/** The text of keepalived's configuration on this control plane. */
export function keepalivedConfig(
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  { addresses, interface: device, routerId }: VirtualAddress,
): string {
  // VRRP works with one address family; the address of the other family moves together with it.
  const [first = '', ...others] = addresses;
  const family = first.includes(':') ? 6 : 4;
  const peers = withRole(resolved, 'control-plane')
    .filter(({ name }) => name !== machine.name)
    .map((peer) => `    ${addressOfFamily(peer, family)}\n`);
  const held = (address: string): string =>
    `    ${address}/${address.includes(':') ? 128 : 32} dev ${device}\n`;
  const excluded =
    others.length === 0 ? '' : `  virtual_ipaddress_excluded {\n${others.map(held).join('')}  }\n`;
  // kube-apiserver listens on all addresses, the balancer only on the endpoint's families.
  const port = balancedPort(resolved);
  const own = port === undefined || addresses.some((one) => !one.includes(':')) ? '127.0.0.1' : '[::1]';
  // Equal priorities and nopreempt: the address stays until the API server of its machine fails.
  return `global_defs {
  router_id ${machine.name}
  enable_script_security
  script_user root
  vrrp_garp_master_refresh 60
}

vrrp_script api {
  script "/usr/bin/curl -sf -o /dev/null --max-time 2 --cacert ${AUTHORITIES.ca.bundle.path}${curlOptions(resolved)} https://${own}:${port ?? API_PORT}/readyz"
  interval 2
  timeout 3
  fall 2
  rise 1
}

vrrp_instance api {
  state BACKUP
  nopreempt
  interface ${device}
  virtual_router_id ${routerId}
  priority 100
  advert_int 1
  unicast_src_ip ${addressOfFamily(machine, family)}
  unicast_peer {
${peers.join('')}  }
  virtual_ipaddress {
${held(first)}  }
${excluded}  track_script {
    api
  }
}
`;
}

const unit = sections(
  [
    'Unit',
    [
      "Description=The address of the cluster's API, on one control plane at a time",
      // Debian's own unit reads another configuration file.
      'Conflicts=keepalived.service',
      'Wants=network-online.target',
      'After=network-online.target',
      'StartLimitIntervalSec=0',
    ],
  ],
  [
    'Service',
    [
      'Type=exec',
      `ExecStart=keepalived --dont-fork --log-console --use-file ${CONFIG}`,
      'ExecReload=/bin/kill -HUP $MAINPID',
      'KillMode=process',
      'Restart=always',
      'RestartSec=1',
    ],
  ],
  ['Install', ['WantedBy=multi-user.target']],
);

/**
 * The lines of a control plane; undefined for other machines, and for a Cluster without a virtual
 * address. `pki`: lines of PKI files, including the files that kube-vip reads when it starts.
 */
export function virtualAddressLines(
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  pki: readonly PlanLine[],
): { readonly files: readonly PlanLine[]; readonly run: PlanLine } | undefined {
  const { virtualAddress } = resolved;
  if (virtualAddress === undefined || !machine.roles.includes('control-plane')) return undefined;
  // The other program is stopped, so that two programs never hold the address on one machine.
  if (virtualAddress.by === 'kube-vip')
    return {
      files: [put(KUBE_VIP_MANIFEST, kubeVipManifest(resolved, virtualAddress, pki), 0o600)],
      run: { do: 'stop', unit: SERVICE },
    };
  const files = [put(CONFIG, keepalivedConfig(resolved, machine, virtualAddress)), put(UNIT, unit)];
  return {
    files: [{ do: 'remove', path: KUBE_VIP_MANIFEST }, ...files],
    run: { do: 'reload', unit: SERVICE, digest: digestOf(files, () => true) },
  };
}
