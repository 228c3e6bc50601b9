/** The settings of `muster serve`. Each is a flag and an environment variable. */
import { DEFAULT_AGENT_PORT } from '../../agent/wire/protocol.ts';
import { MusterError } from '../../base/errors.ts';
import { DEFAULT_SOCKET } from '../../base/paths.ts';
import { suggest } from '../../base/suggest.ts';
import { type BootAddress, bootAddresses } from '../../pxe/boot-addresses.ts';
import {
  DEFAULT_SIBLING_PORT,
  type EtcdPlace,
  etcdPlace,
  type GivenFiles,
  HOST_NAME,
} from '../../store/etcd/place.ts';

const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Host and port of a TCP listener. */
export interface HostPort {
  readonly host: string;
  readonly port: number;
}

/** The settings of the server, which `serve` in src/main.ts takes. */
export interface ServeOptions {
  /** Directory of YAML documents; undefined when all documents come through the API. */
  readonly config: string | undefined;
  /** Directory of the store, the assets and the event journal; it is made when it is missing. */
  readonly state: string;
  /** The store on etcd, which several boot hosts share; undefined: SQLite in `state`. */
  readonly etcd: EtcdPlace | undefined;
  /** This host's name among the boot hosts; undefined: the system's. */
  readonly hostName: string | undefined;
  /** Addresses that this host has while it acts. */
  readonly bootAddresses: readonly BootAddress[];
  /** Port of the listener for the other boot hosts; open only where several share the store. */
  readonly siblingPort: number;
  /** Octets a second at most that this host fetches from the other ones. */
  readonly copyRate: number;
  /** The operators' unix socket. */
  readonly socket: string;
  /**
   * The interfaces that `systemd/bind-sockets.pl` was asked to bind. They are only informative when
   * the process has inherited its sockets.
   */
  readonly interfaces: readonly string[];
  /** Port of the HTTP listener for machines. */
  readonly httpPort: number;
  /** Port of the HTTPS listener for agents; open only when there is a cluster. */
  readonly agentPort: number;
  /**
   * File of the key that encrypts private keys at rest. Undefined: the systemd credential, or else
   * a key file in the state directory.
   */
  readonly vaultKey: string | undefined;
  /** The socket of the signer, which has the vault's key then. */
  readonly signer: string | undefined;
  /**
   * The TCP address of /metrics, /healthz, /readyz and /version; undefined when they are not served
   * over TCP.
   */
  readonly metricsListen: HostPort | undefined;
  /** Where operators log in over HTTPS; undefined: only the unix socket serves operators. */
  readonly operatorsListen: HostPort | undefined;
  /** The name of the page in browsers. */
  readonly operatorsName: string | undefined;
  /**
   * The site's own certificate (with its chain) and key for that listener, PEM files. Undefined:
   * Muster's own CA issues one.
   */
  readonly operatorsPair: { readonly certificate: string; readonly key: string } | undefined;
  /** The file (PEM) of the CA whose client certificates name operators; undefined: none do. */
  readonly operatorsClientCa: string | undefined;
  /** The file that describes the site's identity provider; undefined: there is none. */
  readonly oidc: string | undefined;
  /** The address of a collector of OpenTelemetry; undefined: no traces are sent. */
  readonly otlpEndpoint: string | undefined;
  /** Orders that cannot be undone wait until another operator confirms them. */
  readonly requireSecondPerson: boolean;
  readonly localWebhooks: boolean;
  /** Directories with boot loaders, searched in order. */
  readonly loaders: readonly string[];
  readonly logLevel: LogLevel;
  /** Octets of the security log that are kept; the oldest segments are removed beyond that. */
  readonly auditBytes: number;
  /** Other hosts that may become the boot host, as agents are told. */
  readonly standby: readonly string[];
  /** Directory of the programs that bring copies of snapshots elsewhere. */
  readonly backupCommands: string;
  /** A file with the public key of the releases whose agents running machines may get. */
  readonly releaseKey: string | undefined;
}

/**
 * One setting of the server. Flags, environment variables, help and docs are generated from the
 * table of settings.
 */
export interface ServeSetting {
  readonly flag: string;
  readonly env: string;
  readonly about: string;
  readonly fallback: string;
  /**
   * Whether the setting may be given several times; in the environment its values are separated by
   * commas.
   */
  readonly repeatable?: true;
}

export const SERVE_SETTINGS = {
  config: {
    flag: '--config <dir>',
    env: 'MUSTER_CONFIG',
    about: 'directory of YAML documents, watched for changes',
    fallback: '',
  },
  state: {
    flag: '--state <dir>',
    env: 'MUSTER_STATE',
    about: 'directory of store, assets and journal',
    fallback: '/var/lib/muster',
  },
  store: {
    flag: '--store <url>',
    env: 'MUSTER_STORE',
    about:
      'keep the store on etcd, e.g. etcd://10.0.0.1,10.0.0.2,10.0.0.3/muster, so that other hosts can take over (docs/several-hosts.md); else it is a file in the state directory',
    fallback: '',
  },
  storeCa: {
    flag: '--store-ca <file>',
    env: 'MUSTER_STORE_CA',
    about: "the CA (PEM) of those members' certificates",
    fallback: '',
  },
  storeCert: {
    flag: '--store-cert <file>',
    env: 'MUSTER_STORE_CERT',
    about: 'the certificate (PEM) that this host shows them',
    fallback: '',
  },
  storeKey: {
    flag: '--store-key <file>',
    env: 'MUSTER_STORE_KEY',
    about: 'the private key of that certificate (PEM)',
    fallback: '',
  },
  hostName: {
    flag: '--host-name <name>',
    env: 'MUSTER_HOST_NAME',
    about: "this host's name among the hosts that share a store (default: the system's)",
    fallback: '',
  },
  bootAddress: {
    flag: '--boot-address <interface=address>',
    env: 'MUSTER_BOOT_ADDRESS',
    about:
      'address that this host has while it acts, e.g. eth1=10.0.0.2/24 (repeatable), the same on all hosts that share a store (docs/several-hosts.md)',
    fallback: '',
    repeatable: true,
  },
  siblingPort: {
    flag: '--sibling-port <port>',
    env: 'MUSTER_SIBLING_PORT',
    about:
      'port (TCP) where the other boot hosts fetch files of images from this one; open only with --store',
    fallback: String(DEFAULT_SIBLING_PORT),
  },
  copyRate: {
    flag: '--copy-rate <rate>',
    env: 'MUSTER_COPY_RATE',
    about: 'how fast this host fetches files of images from the other boot hosts at most, in MiB/s',
    fallback: '50',
  },
  socket: {
    flag: '--socket <path>',
    env: 'MUSTER_SOCKET',
    about: "the operators' unix socket",
    fallback: DEFAULT_SOCKET,
  },
  interface: {
    flag: '--interface <name>',
    env: 'MUSTER_INTERFACE',
    about:
      'interface to answer DHCP, PXE and TFTP on (repeatable); not needed when systemd passes the sockets',
    fallback: '',
    repeatable: true,
  },
  httpPort: {
    flag: '--http-port <port>',
    env: 'MUSTER_HTTP_PORT',
    about: 'port (TCP) from which machines fetch scripts, configuration and images',
    fallback: '8080',
  },
  agentPort: {
    flag: '--agent-port <port>',
    env: 'MUSTER_AGENT_PORT',
    about: 'port (TCP) where the HTTPS listener for agents is; open only when there is a cluster',
    fallback: String(DEFAULT_AGENT_PORT),
  },
  vaultKey: {
    flag: '--vault-key <file>',
    env: 'MUSTER_VAULT_KEY',
    about:
      'file (mode 0600) with the key that encrypts private keys at rest; else the systemd credential muster-vault-key, else a file that is made in the state directory',
    fallback: '',
  },
  signer: {
    flag: '--signer <socket>',
    env: 'MUSTER_SIGNER',
    about:
      "the socket of muster-signer, which has the vault's key and signs by its rules; else this process has the key",
    fallback: '',
  },
  metricsListen: {
    flag: '--metrics-listen <host:port>',
    env: 'MUSTER_METRICS_LISTEN',
    about: 'serve /metrics, /healthz, /readyz and /version there, without authentication',
    fallback: '',
  },
  otlpEndpoint: {
    flag: '--otlp-endpoint <url>',
    env: 'MUSTER_OTLP_ENDPOINT',
    about:
      'send traces of boots and of changes of clusters to this collector of OpenTelemetry (OTLP over HTTP, JSON), e.g. http://127.0.0.1:4318',
    fallback: '',
  },
  operatorsListen: {
    flag: '--operators-listen <host:port>',
    env: 'MUSTER_OPERATORS_LISTEN',
    about: 'serve the page and the API to operators there, over HTTPS with log-in',
    fallback: '',
  },
  operatorsName: {
    flag: '--operators-name <name>',
    env: 'MUSTER_OPERATORS_NAME',
    about:
      "the name by which browsers reach that listener, e.g. boot.example; the certificate names it, and passkeys count for it (default: the listener's host, or this host's name when it listens on all addresses)",
    fallback: '',
  },
  operatorsCert: {
    flag: '--operators-cert <file>',
    env: 'MUSTER_OPERATORS_CERT',
    about: "the site's own certificate for that listener, with its chain (PEM); else Muster's CA issues one",
    fallback: '',
  },
  operatorsKey: {
    flag: '--operators-key <file>',
    env: 'MUSTER_OPERATORS_KEY',
    about: 'the private key of that certificate (PEM)',
    fallback: '',
  },
  operatorsClientCa: {
    flag: '--operators-client-ca <file>',
    env: 'MUSTER_OPERATORS_CLIENT_CA',
    about:
      'file with the CA (PEM) of client certificates with which operators log in there; the common name is that of the account',
    fallback: '',
  },
  oidc: {
    flag: '--oidc <file>',
    env: 'MUSTER_OIDC',
    about:
      "file (YAML) that describes the site's identity provider (OpenID Connect), and which roles its users have",
    fallback: '',
  },
  requireSecondPerson: {
    flag: '--require-second-person <yes|no>',
    env: 'MUSTER_REQUIRE_SECOND_PERSON',
    about:
      'whether orders that cannot be undone wait until another operator confirms them (docs/ports.md): yes or no',
    fallback: 'no',
  },
  localWebhooks: {
    flag: '--local-webhooks <yes|no>',
    env: 'MUSTER_LOCAL_WEBHOOKS',
    about:
      'whether Webhooks and hooks of documents may go to this host itself and to link-local addresses: yes or no',
    fallback: 'no',
  },
  loaders: {
    flag: '--loaders <dir>',
    env: 'MUSTER_LOADERS',
    about: 'directory with boot loaders (repeatable), searched in order',
    fallback: '/usr/lib/ipxe',
    repeatable: true,
  },
  auditSize: {
    flag: '--audit-size <size>',
    env: 'MUSTER_AUDIT_SIZE',
    about: 'how much of the security log is kept, in MiB',
    fallback: '256',
  },
  standby: {
    flag: '--standby <address>',
    env: 'MUSTER_STANDBY',
    about:
      'name or address of a host that may become the boot host (repeatable); agents ask it when this one does not answer',
    fallback: '',
    repeatable: true,
  },
  releaseKey: {
    flag: '--release-key <file>',
    env: 'MUSTER_RELEASE_KEY',
    about:
      'file with the public key (PEM, Ed25519) of the releases whose agents running machines may get; else any (docs/install.md)',
    fallback: '',
  },
  backupCommands: {
    flag: '--backup-commands <dir>',
    env: 'MUSTER_BACKUP_COMMANDS',
    about: 'directory of the programs that `spec.backup.to` of a Cluster may name',
    fallback: '/etc/muster/backup-commands',
  },
  logLevel: {
    flag: '--log-level <level>',
    env: 'MUSTER_LOG_LEVEL',
    about: `least important lines to log: ${LOG_LEVELS.join(', ')}`,
    fallback: 'info',
  },
} as const satisfies Record<string, ServeSetting>;

export type SettingName = keyof typeof SERVE_SETTINGS;

/**
 * Values from the command line. A missing setting is taken from the environment, otherwise from the
 * table's default.
 */
export type GivenSettings = Readonly<Partial<Record<SettingName, string | readonly string[]>>>;

/**
 * Reads the server's options from the command line and the environment.
 *
 * @throws {MusterError} E_USAGE, with the flag or variable that is wrong.
 */
export function serveOptions(
  given: GivenSettings,
  env: Readonly<Record<string, string | undefined>>,
): ServeOptions {
  /** All values of a setting, and the name of their source for messages. */
  const values = (name: SettingName): { list: readonly string[]; source: string } => {
    const setting: ServeSetting = SERVE_SETTINGS[name];
    const flagName = setting.flag.split(' ')[0]!;
    const flagged = given[name];
    if (flagged !== undefined && flagged.length > 0)
      return { list: typeof flagged === 'string' ? [flagged] : flagged, source: flagName };
    const fromEnv = env[setting.env];
    const text = fromEnv || setting.fallback;
    const list = setting.repeatable ? text.split(',') : [text];
    return {
      list: list.map((item) => item.trim()).filter((item) => item !== ''),
      source: fromEnv ? setting.env : flagName,
    };
  };
  const one = (name: SettingName): { value: string | undefined; source: string } => {
    const { list, source } = values(name);
    return { value: list[0], source };
  };

  const metrics = one('metricsListen');
  const level = one('logLevel');
  if (!LOG_LEVELS.includes(level.value as LogLevel))
    throw new MusterError(
      'E_USAGE',
      `${level.source}: "${level.value}" is not a log level; use one of ${LOG_LEVELS.join(', ')}`,
    );
  const audit = one('auditSize');
  if (!/^[1-9][0-9]{0,6}$/.test(audit.value ?? ''))
    throw new MusterError(
      'E_USAGE',
      `${audit.source}: "${audit.value}" is not a number of MiB (1 to 9999999)`,
    );
  const rate = one('copyRate');
  if (!/^[1-9][0-9]{0,5}$/.test(rate.value ?? ''))
    throw new MusterError('E_USAGE', `${rate.source}: "${rate.value}" is not a number of MiB/s`);
  const siblings = one('siblingPort');
  const operators = one('operatorsListen');
  const http = one('httpPort');
  const agents = one('agentPort');
  const booting = values('bootAddress');
  return {
    config: one('config').value,
    state: one('state').value ?? SERVE_SETTINGS.state.fallback,
    etcd: etcdOf(one('store').value, {
      ca: one('storeCa').value,
      cert: one('storeCert').value,
      key: one('storeKey').value,
    }),
    hostName: hostNameOf(one('hostName')),
    bootAddresses: bootAddresses(booting.list, booting.source),
    siblingPort: portOf(siblings.value ?? '', siblings.source),
    copyRate: Number(rate.value) * 1024 * 1024,
    socket: one('socket').value ?? SERVE_SETTINGS.socket.fallback,
    interfaces: values('interface').list,
    httpPort: portOf(http.value ?? '', http.source),
    agentPort: portOf(agents.value ?? '', agents.source),
    vaultKey: one('vaultKey').value,
    signer: one('signer').value,
    metricsListen: metrics.value === undefined ? undefined : hostPort(metrics.value, metrics.source),
    operatorsListen: operators.value === undefined ? undefined : hostPort(operators.value, operators.source),
    operatorsName: pageName(one('operatorsName')),
    operatorsPair: pairOf(one('operatorsCert').value, one('operatorsKey').value),
    operatorsClientCa: one('operatorsClientCa').value,
    oidc: one('oidc').value,
    otlpEndpoint: httpUrlOf(one('otlpEndpoint')),
    requireSecondPerson: yesOrNo(one('requireSecondPerson')),
    localWebhooks: yesOrNo(one('localWebhooks')),
    loaders: values('loaders').list,
    logLevel: level.value as LogLevel,
    auditBytes: Number(audit.value) * 1024 * 1024,
    standby: standbyOf(values('standby')),
    releaseKey: one('releaseKey').value,
    backupCommands: one('backupCommands').value ?? SERVE_SETTINGS.backupCommands.fallback,
  };
}

/**
 * Sentences about environment variables that look like misspelt settings, such as
 * MUSTER_INTERFACES.
 */
export function misspeltVariables(env: Readonly<Record<string, string | undefined>>): readonly string[] {
  const short = (name: string): string => name.slice(PREFIX.length);
  const known = Object.values(SERVE_SETTINGS).map((setting) => short(setting.env));
  return Object.keys(env)
    .filter((name) => name.startsWith(PREFIX) && !known.includes(short(name)))
    .flatMap((name) => {
      const meant = suggest(short(name), known);
      return meant === undefined
        ? []
        : [`${name} in the environment is not a setting of Muster; did you mean ${PREFIX}${meant}?`];
    });
}

const PREFIX = 'MUSTER_';

function etcdOf(url: string | undefined, files: GivenFiles): EtcdPlace | undefined {
  if (url !== undefined) return etcdPlace(url, files);
  if (files.ca ?? files.cert ?? files.key)
    throw new MusterError('E_USAGE', '--store-ca, --store-cert and --store-key belong to --store etcd://…');
  return undefined;
}

function hostNameOf({ value, source }: { readonly value: string | undefined; readonly source: string }) {
  if (value === undefined || HOST_NAME.test(value)) return value;
  throw new MusterError('E_USAGE', `${source}: "${value}" is not a name like host1`);
}

function pairOf(certificate: string | undefined, key: string | undefined): ServeOptions['operatorsPair'] {
  if (certificate !== undefined && key !== undefined) return { certificate, key };
  if (certificate !== undefined || key !== undefined)
    throw new MusterError('E_USAGE', '--operators-cert and --operators-key are given together');
  return undefined;
}

function yesOrNo({
  value,
  source,
}: {
  readonly value: string | undefined;
  readonly source: string;
}): boolean {
  if (value === 'yes' || value === 'no') return value === 'yes';
  throw new MusterError('E_USAGE', `${source}: "${value}" is neither yes nor no`);
}

/**
 * An HTTP address.
 *
 * @throws {MusterError} E_USAGE when it is none
 */
function httpUrlOf({ value, source }: { readonly value: string | undefined; readonly source: string }) {
  if (value === undefined || /^https?:$/.test(URL.parse(value)?.protocol ?? '')) return value;
  throw new MusterError('E_USAGE', `${source}: "${value}" is not an address like http://127.0.0.1:4318`);
}

/**
 * The name of the page.
 *
 * @throws {MusterError} E_USAGE when it is none
 */
function pageName({ value, source }: { readonly value: string | undefined; readonly source: string }) {
  const name = value?.toLowerCase();
  if (name === undefined || (name.length <= 253 && PAGE_NAME.test(name) && !/^[0-9.]+$/.test(name)))
    return name;
  throw new MusterError('E_USAGE', `${source}: "${value}" is not a name like boot.example, without a port`);
}

const PAGE_NAME = /^[a-z0-9]([a-z0-9-]{0,62})(\.[a-z0-9]([a-z0-9-]{0,62}))*$/;

/** Names and addresses that agents can be told. */
function standbyOf({ list, source }: { readonly list: readonly string[]; readonly source: string }) {
  for (const one of list)
    if (!/^[A-Za-z0-9][A-Za-z0-9.-]{0,252}$/.test(one))
      throw new MusterError('E_USAGE', `${source}: "${one}" is not a name or IPv4 address`);
  return list;
}

function portOf(text: string, source: string): number {
  if (!/^[0-9]{1,5}$/.test(text) || Number(text) < 1 || Number(text) > 65535)
    throw new MusterError('E_USAGE', `${source}: "${text}" is not a TCP port (1 to 65535)`);
  return Number(text);
}

/**
 * Reads `10.0.0.1:9090` or `[::1]:9090`; `9090` alone means a port on loopback.
 *
 * @throws {MusterError} E_USAGE when the text has none of these forms.
 */
export function hostPort(text: string, source: string): HostPort {
  const found = /^(?:(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]+)):)?([0-9]+)$/.exec(text);
  if (!found) throw new MusterError('E_USAGE', `${source}: "${text}" is not HOST:PORT, e.g. 127.0.0.1:9090`);
  return { host: found[1] ?? found[2] ?? '127.0.0.1', port: portOf(found[3]!, source) };
}
