/**
 * Certificates for keys that machines made. A key keeps its certificate until it is to be renewed,
 * or until its names or its CA have to change. So a repeated poll gets the same plan.
 */
import { X509Certificate } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import { formatIp, parseIp } from '../../base/ip.ts';
import { type ClusterNames, type Holder, isProbe, type LeafName, leafOf } from '../../pki/hierarchy.ts';
import { PublicKey } from '../../pki/keys.ts';
import type { Keysets, Pki } from '../../pki/pki.ts';
import type { IssuedCertificate } from '../../pki/records.ts';
import { renewsAt } from '../../pki/renewal-time.ts';

interface CertificateOrder {
  readonly leaf: LeafName;
  readonly holder: Holder;
  readonly cluster: ClusterNames;
  /** Pin of the machine's key. */
  readonly pin: string;
  /** The key of which the machine's request proved possession; absent without a request. */
  readonly publicKey?: PublicKey | undefined;
  /** The generation that signs a probe; the primary signs everything else. */
  readonly generation?: string | undefined;
}

export interface Certificates {
  /**
   * The current certificate of this key, issued if necessary; undefined when the machine has to
   * send a request first.
   */
  get(scope: string, keysets: Keysets, order: CertificateOrder): Promise<IssuedCertificate | undefined>;
}

/** `generation`: of a probe, of which a key has one certificate for each generation. */
const keyOf = (machine: string, leaf: LeafName, pin: string, generation = ''): string =>
  `${machine} ${leaf} ${pin} ${generation}`;

/** Opens the certificates that machines of all clusters get for their own keys. */
export function openCertificates({ pki, clock }: { readonly pki: Pki; readonly clock: Clock }): Certificates {
  /**
   * The newest certificate of each machine, leaf and pin, by scope. They are read from the store
   * once; later certificates are issued here.
   */
  const ledgers = new Map<string, Promise<Map<string, IssuedCertificate>>>();
  /** Certificates that are being issued now, so that two simultaneous polls get one certificate. */
  const ordered = new Map<string, Promise<IssuedCertificate>>();

  const ledgerOf = (scope: string): Promise<Map<string, IssuedCertificate>> => {
    const reading = ledgers.get(scope) ?? read(scope);
    ledgers.set(scope, reading);
    // A failed read is repeated with the next request.
    reading.catch(() => ledgers.delete(scope));
    return reading;
  };

  const read = async (scope: string): Promise<Map<string, IssuedCertificate>> => {
    const ledger = new Map<string, IssuedCertificate>();
    const all = [...(await pki.issued(scope))].sort((a, b) => a.issuedAt - b.issuedAt);
    for (const one of all) {
      const generation = isProbe(one.leaf) ? one.issuer.generation : undefined;
      ledger.set(keyOf(one.to, one.leaf, one.publicKey, generation), one);
    }
    return ledger;
  };

  const issue = async (scope: string, order: CertificateOrder, publicKey: PublicKey) => {
    const { leaf, holder, cluster, pin, generation } = order;
    const signs = generation === undefined ? {} : { generation };
    const issued = await pki.issue(scope, { leaf, holder, cluster, publicKey, ...signs });
    (await ledgerOf(scope)).set(keyOf(holder.name, leaf, pin, generation), issued);
    return issued;
  };

  return {
    async get(scope, keysets, order) {
      const key = keyOf(order.holder.name, order.leaf, order.pin, order.generation);
      const known = (await ledgerOf(scope)).get(key);
      if (known && stillGood(known, keysets, order, clock)) return known;
      const publicKey =
        order.publicKey ?? (known && new PublicKey(new X509Certificate(known.certificate).publicKey));
      if (publicKey === undefined || publicKey.pin() !== order.pin) return undefined;
      const running = ordered.get(`${scope} ${key}`) ?? issue(scope, order, publicKey);
      ordered.set(`${scope} ${key}`, running);
      return running.finally(() => ordered.delete(`${scope} ${key}`));
    },
  };
}

function stillGood(
  known: IssuedCertificate,
  keysets: Keysets,
  order: CertificateOrder,
  clock: Clock,
): boolean {
  if (clock.now() >= renewsAt(known)) return false;
  const signs = order.generation ?? keysets.get(known.issuer.keyset)?.primary;
  if (signs !== known.issuer.generation) return false;
  return namesAre(known, order);
}

/** Whether the certificate has exactly the alternative names that a new one would get. */
function namesAre(known: IssuedCertificate, { leaf, holder, cluster }: CertificateOrder): boolean {
  const { dns, ips } = leafOf(leaf).sans(holder, cluster);
  const wanted = new Set([...dns.map(dnsName), ...ips.map(ipName)]);
  const has = namesOf(known);
  return has.size === wanted.size && [...wanted].every((name) => has.has(name));
}

const dnsName = (name: string): string => `DNS:${name}`;
/** The address in canonical form, because openssl writes out the zeros of IPv6 addresses. */
const ipName = (text: string): string => {
  const address = parseIp(text);
  return `IP:${address === undefined ? text : formatIp(address)}`;
};

/** Alternative names of each certificate, parsed once: every poll of its machine needs them. */
const memoNames = new WeakMap<IssuedCertificate, ReadonlySet<string>>();

function namesOf(issued: IssuedCertificate): ReadonlySet<string> {
  const known = memoNames.get(issued);
  if (known) return known;
  const text = new X509Certificate(issued.certificate).subjectAltName;
  const names = new Set(
    text
      ?.split(', ')
      .map((name) => (name.startsWith('IP Address:') ? ipName(name.slice('IP Address:'.length)) : name)),
  );
  memoNames.set(issued, names);
  return names;
}
