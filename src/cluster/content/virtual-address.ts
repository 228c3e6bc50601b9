/**
 * The endpoint's address on one of the control planes: keepalived, which asks the apiserver of its own machine whether it is ready. The apiserver
 * listens on all addresses, so that no balancer stands before it; its port is that of the endpoint.
 */
import type { PlanLine } from '../../agent/plan.ts';
import { AUTHORITIES } from '../../pki/hierarchy.ts';
import { addressOf, type ClusterMachine, type FullCluster, withRole } from '../full.ts';
import { digestOf, put, sections } from './lines.ts';

const CONFIG = '/etc/muster/keepalived.conf';
const UNIT = '/etc/systemd/system/muster-address.service';

type VirtualAddress = NonNullable<FullCluster['virtualAddress']>;

export function keepalivedConfig(
  full: FullCluster,
  machine: ClusterMachine,
  { address, interface: device, routerId }: VirtualAddress,
): string {
  const peers = withRole(full, 'control-plane')
    .filter(({ name }) => name !== machine.name)
    .map((peer) => `    ${addressOf(peer)}\n`);
  const prefix = address.includes(':') ? 128 : 32;
  // The same priority for all, and nopreempt: the address stays where it is until that machine's apiserver fails.
  return `global_defs {
  router_id ${machine.name}
  enable_script_security
  script_user root
  vrrp_garp_master_refresh 60
}

vrrp_script api {
  script "/usr/bin/curl -sf -o /dev/null --max-time 2 --cacert ${AUTHORITIES.ca.bundle.path} https://127.0.0.1:6443/readyz"
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
  unicast_src_ip ${addressOf(machine)}
  unicast_peer {
${peers.join('')}  }
  virtual_ipaddress {
    ${address}/${prefix} dev ${device}
  }
  track_script {
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
      // Debian's own unit reads another file.
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

/** Nothing without a virtual address. */
export function virtualAddressLines(
  full: FullCluster,
  machine: ClusterMachine,
): { readonly files: readonly PlanLine[]; readonly run: PlanLine } | undefined {
  const { virtualAddress } = full;
  if (virtualAddress === undefined || !machine.roles.includes('control-plane')) return undefined;
  const files = [put(CONFIG, keepalivedConfig(full, machine, virtualAddress)), put(UNIT, unit)];
  const digest = digestOf(files, () => true);
  return { files, run: { do: 'reload', unit: 'muster-address.service', digest } };
}
