/**
 * Certificates for keys that machines made. The same key gets the same certificate, until a third
 * of its life is left, or its names or its CA are no longer those that it should have: so a plan
 * that is asked for again is the same plan.
 */
import { X509Certificate } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import { formatIp, parseIp } from '../../base/ip.ts';
import { type ClusterNames, type Holder, type LeafName, leafOf } from '../../pki/hierarchy.ts';
import { PublicKey } from '../../pki/keys.ts';
import type { Keysets, Pki } from '../../pki/pki.ts';
import type { IssuedCertificate } from '../../pki/records.ts';

export interface CertificateOrder {
  readonly leaf: LeafName;
  readonly holder: Holder;
  readonly cluster: ClusterNames;
  /** Pin of the machine's key. */
  readonly pin: string;
  /** What a request proved; absent when the machine sent none. */
  readonly publicKey?: PublicKey | undefined;
}

export interface Certificates {
  /**
   * The certificate in force for this key, issued if need be; undefined when the machine has to
   * send a request first.
   */
  get(scope: string, keysets: Keysets, order: CertificateOrder): Promise<IssuedCertificate | undefined>;
}

const keyOf = (machine: string, leaf: LeafName, pin: string): string => `${machine} ${leaf} ${pin}`;

export function openCertificates({ pki, clock }: { readonly pki: Pki; readonly clock: Clock }): Certificates {
  /**
   * The ledger of a scope by machine, leaf and pin; the newest of each. Read once: what comes later
   * passes through here.
   */
  const ledgers = new Map<string, Promise<Map<string, IssuedCertificate>>>();
  /** Orders under way, so that two polls at once get one certificate. */
  const ordered = new Map<string, Promise<IssuedCertificate>>();

  const ledgerOf = (scope: string): Promise<Map<string, IssuedCertificate>> => {
    const reading = ledgers.get(scope) ?? read(scope);
    ledgers.set(scope, reading);
    // What could not be read now is read again when it is asked for.
    reading.catch(() => ledgers.delete(scope));
    return reading;
  };

  const read = async (scope: string): Promise<Map<string, IssuedCertificate>> => {
    const ledger = new Map<string, IssuedCertificate>();
    const all = [...(await pki.issued(scope))].sort((a, b) => a.issuedAt - b.issuedAt);
    for (const one of all) ledger.set(keyOf(one.to, one.leaf, one.publicKey), one);
    return ledger;
  };

  const issue = async (scope: string, order: CertificateOrder, publicKey: PublicKey) => {
    const { leaf, holder, cluster, pin } = order;
    const issued = await pki.issue(scope, { leaf, holder, cluster, publicKey });
    (await ledgerOf(scope)).set(keyOf(holder.name, leaf, pin), issued);
    return issued;
  };

  return {
    async get(scope, keysets, order) {
      const key = keyOf(order.holder.name, order.leaf, order.pin);
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
  const life = known.notAfter - known.issuedAt;
  if (known.notAfter - clock.now() < life / 3) return false;
  if (keysets.get(known.issuer.keyset)?.primary !== known.issuer.generation) return false;
  return namesAre(known, order);
}

/** Whether a certificate has exactly the alternative names that it would get today. */
function namesAre(known: IssuedCertificate, { leaf, holder, cluster }: CertificateOrder): boolean {
  const { dns, ips } = leafOf(leaf).sans(holder, cluster);
  const wanted = new Set([...dns.map(dnsName), ...ips.map(ipName)]);
  const has = namesOf(known);
  return has.size === wanted.size && [...wanted].every((name) => has.has(name));
}

const dnsName = (name: string): string => `DNS:${name}`;
/** In one spelling: openssl writes out the zeros of IPv6. */
const ipName = (text: string): string => {
  const address = parseIp(text);
  return `IP:${address === undefined ? text : formatIp(address)}`;
};

/** Read once for each certificate: every poll of its machine asks. */
const named = new WeakMap<IssuedCertificate, ReadonlySet<string>>();

function namesOf(issued: IssuedCertificate): ReadonlySet<string> {
  const known = named.get(issued);
  if (known) return known;
  const text = new X509Certificate(issued.certificate).subjectAltName;
  const names = new Set(
    text
      ?.split(', ')
      .map((name) => (name.startsWith('IP Address:') ? ipName(name.slice('IP Address:'.length)) : name)),
  );
  named.set(issued, names);
  return names;
}
