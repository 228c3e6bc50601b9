/**
 * Certificates for keys that machines made. A key keeps its certificate until it is to be renewed,
 * or until its names or its CA have to change. So a repeated poll gets the same plan.
 */
import { X509Certificate } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import { duration, type Millis } from '../../base/duration.ts';
import { formatIp, parseIp } from '../../base/ip.ts';
import {
  type ClusterNames,
  type Holder,
  isProbe,
  type LeafName,
  leafOf,
  leavesFor,
  lifetimeOf,
} from '../../pki/hierarchy.ts';
import { PublicKey } from '../../pki/keys.ts';
import type { Keysets, Pki } from '../../pki/pki.ts';
import type { IssuedCertificate } from '../../pki/records.ts';
import { lifeOf, renewsAt } from '../../pki/renewal-time.ts';
import { isToBeRenewed, needsNewKey, type RenewalOrder } from '../../pki/renewals.ts';
import { readAuthority } from '../../pki/x509.ts';
import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';
import { pkiRoles } from '../resolve/certificate-names.ts';
import { healthClient } from '../resolve/health-requests.ts';

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
  /** See lifetimeOf of hierarchy.ts. */
  readonly lifetime?: Millis | undefined;
}

/** What certificates are judged by. */
interface Rules {
  readonly keysets: Keysets;
  readonly renewals: readonly RenewalOrder[];
}

export interface Certificates {
  /**
   * The current certificate of this key, issued if necessary; undefined when the machine has to
   * send a request first; `new-key` when it has to make another key.
   */
  get(
    scope: string,
    rules: Rules,
    order: CertificateOrder,
  ): Promise<IssuedCertificate | 'new-key' | undefined>;
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
  const ledgers = new Map<string, Promise<Map<string, Known>>>();
  /** Certificates that are being issued now, so that two simultaneous polls get one certificate. */
  const ordered = new Map<string, Promise<IssuedCertificate>>();

  const ledgerOf = (scope: string): Promise<Map<string, Known>> => {
    const reading = ledgers.get(scope) ?? read(scope);
    ledgers.set(scope, reading);
    // A failed read is repeated with the next request.
    reading.catch(() => ledgers.delete(scope));
    return reading;
  };

  const read = async (scope: string): Promise<Map<string, Known>> => {
    const ledger = new Map<string, Known>();
    for (const one of await pki.issued(scope)) note(ledger, one);
    return ledger;
  };

  const note = (ledger: Map<string, Known>, newest: IssuedCertificate): void => {
    const generation = isProbe(newest.leaf) ? newest.issuer.generation : undefined;
    const key = keyOf(newest.to, newest.leaf, newest.publicKey, generation);
    ledger.set(key, { newest, keySince: ledger.get(key)?.keySince ?? newest.issuedAt });
  };

  const issue = async (scope: string, order: CertificateOrder, publicKey: PublicKey) => {
    const { leaf, holder, cluster, lifetime, generation } = order;
    const signs = generation === undefined ? {} : { generation };
    const issued = await pki.issue(scope, { leaf, holder, cluster, publicKey, lifetime, ...signs });
    note(await ledgerOf(scope), issued);
    return issued;
  };

  return {
    async get(scope, rules, order) {
      const key = keyOf(order.holder.name, order.leaf, order.pin, order.generation);
      const { newest: known, keySince } = (await ledgerOf(scope)).get(key) ?? {};
      if (known && needsNewKey(rules.renewals, { ...known, issuedAt: keySince! }, clock.now()))
        return 'new-key';
      if (known && stillGood(known, rules, order, clock)) return known;
      const publicKey =
        order.publicKey ?? (known && new PublicKey(new X509Certificate(known.certificate).publicKey));
      if (publicKey === undefined || publicKey.pin() !== order.pin) return undefined;
      const running = ordered.get(`${scope} ${key}`) ?? issue(scope, order, publicKey);
      ordered.set(`${scope} ${key}`, running);
      return running.finally(() => ordered.delete(`${scope} ${key}`));
    },
  };
}

/** The newest certificate of a key, and when the key got its first one. */
interface Known {
  readonly newest: IssuedCertificate;
  readonly keySince: Millis;
}

/** Certificates count whole seconds, so one may be good for a second more or less. */
const A_SECOND = 1000;
/** A certificate that was issued by so much later than now is of a clock that was wrong. */
const AHEAD = duration('20h');

function stillGood(
  known: IssuedCertificate,
  { keysets, renewals }: Rules,
  order: CertificateOrder,
  clock: Clock,
): boolean {
  const now = clock.now();
  if (isFromFuture(known, now) && !isBoundByItsCa(known, keysets, now)) return false;
  // While nobody knows what time it is, nothing is renewed.
  if (clock.doubt() !== undefined) return true;
  if (now >= renewsAt(known) || isToBeRenewed(renewals, known, now)) return false;
  if (order.lifetime !== undefined && lifeOf(known) > lifetimeOf(order.leaf, order.lifetime) + A_SECOND)
    return false;
  const signs = order.generation ?? keysets.get(known.issuer.keyset)?.primary;
  if (signs !== known.issuer.generation) return false;
  return namesAre(known, order);
}

/**
 * Whether the certificate was issued in the future, by a clock that was wrong: every program that
 * has the right time refuses it. It is issued again.
 */
const isFromFuture = ({ notBefore, issuedAt }: IssuedCertificate, now: number): boolean =>
  notBefore > now || issuedAt > now + AHEAD;

/** Whether its CA begins in the future, too: then another certificate would not begin earlier. */
function isBoundByItsCa({ issuer }: IssuedCertificate, keysets: Keysets, now: number): boolean {
  const generations = keysets.get(issuer.keyset)?.trusted ?? [];
  const certificate = generations.find(({ id }) => id === issuer.generation)?.certificate;
  return certificate !== undefined && readAuthority(certificate).notBefore > now;
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

/**
 * The certificates that a plan brings. The agent's own is not one of them, because it comes with
 * the ticket. The applier's is one only while there are objects to apply, and that for questions
 * about health only where they need one.
 */
export const leavesOf = (
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  applies: boolean,
): readonly LeafName[] => {
  const left: Partial<Record<LeafName, boolean>> = {
    agent: true,
    applier: !applies,
    health: healthClient(resolved) === undefined,
  };
  return leavesFor(pkiRoles(machine)).filter((leaf) => !left[leaf]);
};
