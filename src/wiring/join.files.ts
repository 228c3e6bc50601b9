/** What a host that joins gets from the acting one, so that it can stand by. */
import fs from 'node:fs';
import path from 'node:path';
import { formatIpv4 } from '../base/ipv4.ts';
import { SERVE_SETTINGS, type ServeOptions } from '../cli/serve/options.ts';
import { ageEncrypt, type Recipient } from '../pki/age.ts';
import { readVaultKey } from '../pki/vault-key.files.ts';
import type { JoinAnswer } from '../pxe/siblings/wire.ts';
import { documentsOf } from './backup.files.ts';

/** Documents that are longer together are copied by hand. */
const DOCUMENT_OCTETS = 8 * 1024 * 1024;

/**
 * Reads what the host `host` gets. The vault key is sealed to `recipient`.
 *
 * @throws {MusterError} E_VAULT_KEY when the vault key cannot be read; the system's error for the
 *   files of etcd
 */
export async function whatJoins(
  options: ServeOptions,
  host: string,
  recipient: Recipient,
  sharesCertificate: boolean,
): Promise<JoinAnswer> {
  const { etcd, signer, vaultKey: file, state } = options;
  const missing = [...missingOf(options)];
  const { ca, cert, key } = etcd?.files ?? {};
  const text = (name: string | undefined): string =>
    name === undefined ? '' : fs.readFileSync(name, 'utf8');
  const pair = sharesCertificate ? { cert: text(cert), key: text(key) } : undefined;
  const vaultKey =
    signer === undefined
      ? Buffer.from(readVaultKey(file, state, process.env.CREDENTIALS_DIRECTORY))
      : undefined;
  const sealed = vaultKey && (await ageEncrypt(vaultKey, { recipients: [recipient] })).toString('base64');
  const documents = documentsIn(options.config, missing);
  return {
    ...{ v: 1, host, settings: settingsOf(options, host), store: { ca: text(ca), ...(pair && { pair }) } },
    ...(sealed !== undefined && { vaultKey: sealed }),
    ...{ documents, missing },
  };
}

const bootAddressText = ({
  interface: name,
  address,
  prefix,
}: ServeOptions['bootAddresses'][number]): string => `${name}=${formatIpv4(address)}/${prefix}`;

/** Settings that are the same on all hosts, apart from its name. */
function settingsOf(options: ServeOptions, host: string): Record<string, string> {
  const { etcd, bootAddresses, operatorsListen, operatorsName } = options;
  const yes = (on: boolean): string => (on ? 'yes' : 'no');
  const all: Readonly<Record<string, string | undefined>> = {
    [SERVE_SETTINGS.store.env]:
      etcd && `etcd://${etcd.endpoints.join(',')}/${etcd.prefix.replace(/\/$/, '')}`,
    [SERVE_SETTINGS.hostName.env]: host,
    [SERVE_SETTINGS.bootAddress.env]: bootAddresses.map(bootAddressText).join(',') || undefined,
    [SERVE_SETTINGS.httpPort.env]: String(options.httpPort),
    [SERVE_SETTINGS.agentPort.env]: String(options.agentPort),
    [SERVE_SETTINGS.operatorsListen.env]:
      operatorsListen && isShared(options) ? `${operatorsListen.host}:${operatorsListen.port}` : undefined,
    [SERVE_SETTINGS.operatorsName.env]: operatorsListen && isShared(options) ? operatorsName : undefined,
    [SERVE_SETTINGS.requireSecondPerson.env]: yes(options.requireSecondPerson),
    [SERVE_SETTINGS.localWebhooks.env]: yes(options.localWebhooks),
  };
  return Object.fromEntries(
    Object.entries(all).filter((one): one is [string, string] => one[1] !== undefined),
  );
}

/** Whether operators log in at an address that the acting host has, whichever host that is. */
function isShared({ operatorsListen, bootAddresses }: ServeOptions): boolean {
  const at = operatorsListen?.host;
  return at === '0.0.0.0' || bootAddresses.some(({ address }) => formatIpv4(address) === at);
}

function* missingOf(options: ServeOptions): Generator<string> {
  yield 'MUSTER_INTERFACE, the interfaces of this host where machines boot';
  if (options.bootAddresses.length > 0)
    yield 'MUSTER_BOOT_ADDRESS has the names of interfaces of the other host: correct them if they differ here';
  if (options.signer !== undefined)
    yield 'the vault key, which the signer of the other host has: copy it to the signer of this host, and set MUSTER_SIGNER';
  if (options.operatorsListen !== undefined && !isShared(options))
    yield 'MUSTER_OPERATORS_LISTEN, because the other host listens at an address of its own';
  if (options.operatorsPair !== undefined)
    yield 'MUSTER_OPERATORS_CERT and MUSTER_OPERATORS_KEY with their files';
  if (options.operatorsClientCa !== undefined) yield 'MUSTER_OPERATORS_CLIENT_CA with its file';
  if (options.oidc !== undefined) yield 'MUSTER_OIDC with its file';
  if (options.releaseKey !== undefined) yield 'MUSTER_RELEASE_KEY with its file';
}

function documentsIn(config: string | undefined, missing: string[]): JoinAnswer['documents'] {
  let octets = 0;
  const documents = documentsOf(config).map((name) => {
    const text = fs.readFileSync(path.join(config!, name), 'utf8');
    octets += text.length;
    return { path: name, text };
  });
  if (octets <= DOCUMENT_OCTETS) return documents;
  missing.push(`the documents in ${config}, which are too many for this: copy them`);
  return [];
}
