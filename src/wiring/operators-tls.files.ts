/** The certificate of the operators' HTTPS listener: the site's own, or one of Muster's CA. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { hostname, networkInterfaces } from 'node:os';
import type { TlsPair } from '../api/api.server.ts';
import { duration } from '../base/duration.ts';
import { messageOf } from '../base/error-text.ts';
import { MusterError } from '../base/errors.ts';
import type { ServeOptions } from '../cli/serve/options.ts';
import { serverCertificate } from '../pki/server-certificate.ts';
import type { Common } from './common.ts';
import type { State } from './state.ts';

/**
 * How often it is looked whether the certificate has to be renewed, its files have changed, or
 * another generation of Muster's CA signs.
 */
const CHECK_EVERY = duration('1m');

export interface OperatorsTls {
  readonly pair: TlsPair;
  /** The CA of the certificates with which operators log in. */
  readonly clientAuthority?: string | undefined;
  /** The SHA-256 fingerprint of Muster's CA; undefined with the site's own certificate. */
  readonly fingerprint?: string;
}

/**
 * Reads the site's own pair, or gets one of Muster's CA that names the listener's addresses and
 * this host, by the page's name too.
 *
 * @throws {MusterError} E_UNREADABLE when a file cannot be read; E_USAGE when certificate and key
 *   do not belong together
 */
export async function operatorsTls(
  options: Pick<ServeOptions, 'operatorsListen' | 'operatorsName' | 'operatorsPair' | 'operatorsClientCa'>,
  { clock }: Pick<Common, 'clock'>,
  { pki, secrets }: Pick<State, 'pki' | 'secrets'>,
): Promise<OperatorsTls> {
  const { operatorsListen, operatorsName, operatorsPair, operatorsClientCa } = options;
  const clientAuthority = operatorsClientCa === undefined ? undefined : read(operatorsClientCa);
  if (operatorsPair) return { pair: ownPair(operatorsPair), clientAuthority };
  const known = [hostname().toLowerCase(), ...(operatorsName === undefined ? [] : [operatorsName])];
  const names = [...new Set(known)].filter((name) => /^[a-z0-9.-]{1,253}$/.test(name));
  const deps = { pki, secrets, clock, listener: 'operators', names } as const;
  const found = await serverCertificate(deps, addressesOf(operatorsListen?.host ?? ''));
  return {
    pair: { certificate: found.certificate + found.authority, key: found.key.pem() },
    clientAuthority,
    fingerprint: new X509Certificate(found.authority).fingerprint256,
  };
}

/** Calls `renew` when there is another certificate. Returns a function that ends that. */
export function followOperatorsTls(
  options: ServeOptions,
  common: Common,
  state: Pick<State, 'pki' | 'secrets'>,
  first: OperatorsTls,
  renew: (tls: OperatorsTls) => void,
): () => Promise<void> {
  let current = first;
  let cancel = (): void => {};
  const check = async (): Promise<void> => {
    try {
      const next = await operatorsTls(options, common, state);
      if (next.pair.certificate !== current.pair.certificate || next.pair.key !== current.pair.key) {
        current = next;
        renew(next);
        common.log.info({}, "the operators' listener has another certificate");
      }
    } catch (error) {
      common.log.error({ err: error }, "the operators' certificate could not be renewed");
    }
    cancel = common.clock.after(CHECK_EVERY, () => void check());
  };
  cancel = common.clock.after(CHECK_EVERY, () => void check());
  return async () => cancel();
}

function ownPair(files: { readonly certificate: string; readonly key: string }): TlsPair {
  const certificate = read(files.certificate);
  const key = read(files.key);
  try {
    if (new X509Certificate(certificate).checkPrivateKey(createPrivateKey(key))) return { certificate, key };
  } catch (cause) {
    throw new MusterError('E_USAGE', '--operators-cert or --operators-key is not PEM', { cause });
  }
  throw new MusterError('E_USAGE', '--operators-key is not the key of the certificate');
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw new MusterError('E_UNREADABLE', `${file} cannot be read: ${messageOf(cause)}`, { cause });
  }
}

/** The addresses that the certificate names: the one that is listened on, or all of this host. */
function addressesOf(host: string): readonly string[] {
  if (host !== '0.0.0.0' && host !== '::') return /^[0-9a-f.:]+$/i.test(host) ? [host] : ['127.0.0.1'];
  return Object.values(networkInterfaces())
    .flatMap((all) => all ?? [])
    .map(({ address }) => address)
    .filter((address) => !address.startsWith('fe80:'));
}
