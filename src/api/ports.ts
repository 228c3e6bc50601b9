/**
 * The ports, sockets and paths that Muster opens or connects to, their clients, and how to turn
 * them off. docs/ports.md is generated from this table.
 */
import { ADDRESS_SOCKET, DEFAULT_SOCKET, JUDGE_SOCKET, OPERATORS_GROUP } from '../base/paths.ts';
import { DEFAULT_SIBLING_PORT } from '../store/etcd/place.ts';

export interface Port {
  readonly where: string;
  readonly protocol: string;
  readonly who: string;
  readonly what: string;
  readonly off: string;
}

export const PORTS: readonly Port[] = [
  {
    where: 'UDP 67',
    protocol: 'DHCP (RFC 2131), proxyDHCP',
    who: 'machines, relays',
    what: 'Addresses and boot files. One socket per interface, bound to it; IPv4. Answers 0.0.0.0, served subnets and their relay agents.',
    off: '`dhcp.mode: off` in the Network; no `--interface`',
  },
  {
    where: 'UDP 4011',
    protocol: 'PXE boot service (PXE 2.1 §2.2)',
    who: 'firmware that requests its boot file there',
    what: 'The same answer as by DHCP. One socket per interface. Answers served subnets and their relay agents.',
    off: '`dhcp.mode: off` in the Network; no `--interface`',
  },
  {
    where: 'UDP 69, answers from a random port',
    protocol: 'TFTP (RFC 1350, 2347, 2348, 2349, 7440)',
    who: 'firmware',
    what: 'Boot loaders and the first script, read-only. One socket per interface. Answers served subnets.',
    off: 'no `--interface`',
  },
  {
    where: 'TCP 8080 (`--http-port`)',
    protocol: 'HTTP/1.1',
    who: 'loaders, initrds, installed systems',
    what: 'Boot scripts, configuration, images, reports: the routes for machines below. Answers served subnets, and elsewhere addresses of Machine documents and of agents.',
    off: 'cannot be turned off; `--http-port` moves it',
  },
  {
    where: 'TCP 8443 (`--agent-port`)',
    protocol: 'HTTPS, TLS 1.2 and 1.3, client certificates',
    who: 'agents on the machines of clusters',
    what: 'Exchanges tickets for certificates, and serves plans: the routes for agents below. Container images below `/v2/`, as a registry. Answers any address; tickets only from served subnets and addresses of Machine documents.',
    off: 'no Cluster with `spec.kubernetes`',
  },
  {
    where: `TCP ${DEFAULT_SIBLING_PORT} (\`--sibling-port\`), and outgoing to it`,
    protocol: 'HTTPS, TLS 1.3, client certificates',
    who: 'the other boot hosts that share the store',
    what: 'Files of images and artifacts; requests to join while a host is invited. Closes otherwise the connection of every client whose certificate is not one that a boot host told in the store.',
    off: 'no `--store`; `--sibling-port` moves it',
  },
  {
    where: `unix socket ${DEFAULT_SOCKET} (\`--socket\`), mode 0660`,
    protocol: 'HTTP/1.1',
    who: `operators: root and members of group ${OPERATORS_GROUP}`,
    what: 'The routes for operators below. They need no log-in here: the system says who asks.',
    off: 'cannot be turned off; `--socket` moves it',
  },
  {
    where: `unix socket ${JUDGE_SOCKET} of the package, mode 0660`,
    protocol: 'one line of JSON each way',
    who: 'Muster itself, when a Cluster changes',
    what: 'Starts a program of a cluster, confined, and says whether it takes its values.',
    off: '`systemctl mask --now muster-judge.socket`',
  },
  {
    where: `unix socket ${ADDRESS_SOCKET} of the package, mode 0660`,
    protocol: 'lines of text',
    who: 'Muster itself, with `--boot-address`',
    what: 'Puts the boot addresses of /etc/default/muster, and no others, on their interfaces while this host acts.',
    off: 'no `MUSTER_BOOT_ADDRESS`',
  },
  {
    where: 'ARP, on interfaces with a boot address',
    protocol: 'ARP requests',
    who: 'the unit muster-address@.service, or a child of a server that is root',
    what: 'Asks whether the boot address is free, announces it, and answers who else announces it.',
    off: 'no `--boot-address`',
  },
  {
    where: 'unix socket /run/muster-signer/server.sock of the package, mode 0660',
    protocol: 'lines of JSON',
    who: 'Muster itself, with `--signer`',
    what: 'Asks the signer for certificates and sealed values; the signer answers by its rules.',
    off: 'no `--signer`; its unit is off unless you enable it',
  },
  {
    where: 'unix socket /run/muster-signer/operator.sock of the package, mode 0600',
    protocol: 'lines of JSON',
    who: 'root, by `muster signer`',
    what: 'Approves machines for the signer, and lets it give out or take keys for five minutes.',
    off: 'off unless you enable the unit',
  },
  {
    where: 'TCP, only if `--metrics-listen HOST:PORT` is given',
    protocol: 'HTTP/1.1, no authentication',
    who: 'monitoring',
    what: '/metrics, /healthz, /readyz, /version and nothing else.',
    off: 'off unless asked for',
  },
  {
    where: 'UDP to port 9 of free addresses',
    protocol: 'discard; the datagram makes the kernel ask by ARP',
    who: 'Muster itself, to its attached networks',
    what: 'Finds out in advance whether a free address is in use by another host.',
    off: '`dhcp.probe: off` in the Network',
  },
  {
    where: 'TCP 2379, outgoing',
    protocol: 'HTTPS, client certificate',
    who: 'Muster itself, to members of etcd of its clusters',
    what: 'Reads health and membership, never keys: while a founding or replacement depends on it, or when an operator asks.',
    off: 'no Cluster with `spec.kubernetes`',
  },
  {
    where: 'TCP, where `--operators-listen` says',
    protocol: 'HTTPS, log-in with password or token',
    who: 'operators',
    what: 'The operators’ API.',
    off: 'no `--operators-listen`',
  },
  {
    where: 'TCP 6443, outgoing',
    protocol: 'HTTPS, client certificate that is valid for an hour',
    who: 'Muster itself, for `muster cluster status`, `verify` and `remove-node`',
    what: 'Reads nodes and leases, runs probe pods, drains and deletes a node.',
    off: 'used only when an operator asks',
  },
  {
    where: 'TCP, outgoing, where a Webhook says',
    protocol: 'HTTP, HTTPS',
    who: 'Muster itself',
    what: 'Sends events, signed, to the servers that Webhook documents name.',
    off: 'no Webhook',
  },
  {
    where: 'TCP, outgoing, where a hook of a Cluster says',
    protocol: 'HTTP, HTTPS',
    who: 'Muster itself',
    what: 'Asks, signed, whether the turn of a machine in an upgrade or roll may begin or end.',
    off: 'no hooks',
  },
  {
    where: 'TCP, outgoing, where `--otlp-endpoint` says',
    protocol: 'HTTP, HTTPS',
    who: 'Muster itself',
    what: 'Sends traces of boots and of changes to a collector of OpenTelemetry.',
    off: 'off unless asked for',
  },
  {
    where: 'TCP 80 and 443, outgoing',
    protocol: 'HTTP, HTTPS',
    who: 'the commands `muster image add URL` and `muster artifacts pull`',
    what: 'Fetches images and artifacts. Unverified files are never served.',
    off: 'used only by these commands',
  },
];

/** A file or directory of an installation from the package. */
export interface Place {
  readonly path: string;
  readonly mode: string;
  readonly owner: string;
  readonly what: string;
}

export const PLACES: readonly Place[] = [
  {
    path: '/etc/muster/',
    mode: '0750',
    owner: 'root',
    what: 'Documents (`--config`); the group `muster` reads them.',
  },
  {
    path: '/etc/default/muster',
    mode: '0644',
    owner: 'root',
    what: 'Settings of the service: the variables below.',
  },
  {
    path: '/var/lib/muster/',
    mode: '0750',
    owner: 'muster',
    what: 'Store, assets, event journal (`--state`).',
  },
  {
    path: '/var/lib/muster/judged/',
    mode: '0750',
    owner: 'muster',
    what: 'Programs of clusters that are asked about their values; may be deleted at any time.',
  },
  {
    path: '/var/lib/muster/audit/',
    mode: '0700',
    owner: 'muster',
    what: 'The [security log](audit.md).',
  },
  {
    path: '/var/lib/muster/vault.key',
    mode: '0600',
    owner: 'muster',
    what: 'The key that encrypts stored private keys, unless `--vault-key` or the credential names another.',
  },
  {
    path: '/var/lib/muster-signer/',
    mode: '0700',
    owner: 'muster-signer',
    what: "With the signer: the vault key if it is not a credential, the signer's log, and approvals.",
  },
  {
    path: '/var/cache/muster/',
    mode: '0750',
    owner: 'muster',
    what: 'Compiled code; may be deleted.',
  },
  {
    path: '/var/cache/muster-images/',
    mode: '0755',
    owner: 'root',
    what: 'Images that root has built; may be deleted.',
  },
  { path: '/run/muster/', mode: '0750', owner: 'muster', what: "The operators' socket." },
  { path: '/usr/lib/muster/', mode: '0755', owner: 'root', what: 'Program, its own Node, boot scripts.' },
  { path: '/usr/bin/muster', mode: '0755', owner: 'root', what: 'Link to the command `muster`.' },
  {
    path: '/usr/lib/muster/sbom.cdx.json',
    mode: '0644',
    owner: 'root',
    what: 'All components with their hashes and licences (CycloneDX).',
  },
];
