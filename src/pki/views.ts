/**
 * Keys and certificates as `muster pki status`, API and page show them. None contains a private
 * key.
 */

import type { Millis } from '../base/duration.ts';
import type { EncryptionKeyset } from './encryption.ts';
import { discoveryHash } from './keys.ts';
import type { Aged, Keyset, KeysetOf } from './keyset.ts';
import { keysetRow, type RotatedName } from './keysets.ts';
import {
  type AlarmLevel,
  alarmOf,
  dependentsOf,
  type Ending,
  endingsOf,
  firstWithoutBootHost,
  forecast,
  type Renewer,
  renewerOf,
  type ScopeKeys,
  type Standing,
} from './outlook.ts';
import type { IssuedCertificate } from './records.ts';
import { renewsAt } from './renewal-time.ts';
import { readAuthority } from './x509.ts';

const iso = (at: Millis): string => new Date(at).toISOString();

export interface GenerationView {
  readonly id: string;
  /** Absent: the store does not know, as for a secret of tickets that was never replaced. */
  readonly createdAt?: string;
  /** Only for key pairs. */
  readonly pin?: string;
  readonly state: 'primary' | 'made' | 'trusted' | 'distrusted';
  /** When a CA's own certificate ends, or the tickets of the secret before are refused. */
  readonly notAfter?: string;
  /** Other generations of a CA that signed a bridge to this one. */
  readonly bridgesFrom?: readonly string[];
  /** Holders of current certificates that this generation signed, by certificate. */
  readonly dependents?: Readonly<Record<string, readonly string[]>>;
  /** When the last of these certificates ends. */
  readonly dependentsUntil?: string;
}

interface KeysetView {
  readonly name: RotatedName;
  readonly generations: readonly GenerationView[];
}

/** A keyset of key pairs: with the discovery hash of each generation, and what depends on it. */
export const keysetView = (keyset: Keyset, keys: ScopeKeys, now: Millis): KeysetView =>
  generations(keyset, (one) => {
    const { holders, until } = dependentsOf(one, keys, now);
    return {
      pin: discoveryHash(one.publicKey),
      ...(one.certificate !== undefined && {
        notAfter: iso(readAuthority(one.certificate).notAfter),
        bridgesFrom: (one.bridges ?? []).map(({ issuer }) => issuer),
        dependents: holders,
        ...(until !== undefined && { dependentsUntil: iso(until) }),
      }),
    };
  });

/** The keys by id; a symmetric key has nothing else to show. */
export const encryptionView = (keyset: EncryptionKeyset): KeysetView => generations(keyset, () => ({}));

/** The secrets from which Muster derives tickets, as agent/identity/ticket-keys.ts names them. */
export interface TicketSecrets {
  readonly id: string;
  /** The one before, while its tickets are accepted. */
  readonly before?: { readonly id: string; readonly since: Millis; readonly until: Millis } | undefined;
}

/** The present secret of tickets, and the one before while its tickets are accepted. */
const ticketsView = ({ id, before }: TicketSecrets): KeysetView => ({
  name: 'ticket-secret',
  generations: [
    { id, ...(before && { createdAt: iso(before.since) }), state: 'primary' },
    ...(before ? [{ id: before.id, state: 'trusted', notAfter: iso(before.until) } as const] : []),
  ],
});

function generations<G extends Aged>(
  keyset: KeysetOf<RotatedName, G>,
  more: (one: G) => Partial<GenerationView>,
): KeysetView {
  const view = (state: (one: G) => GenerationView['state']) => (one: G) => ({
    id: one.id,
    createdAt: iso(one.createdAt),
    ...more(one),
    state: state(one),
  });
  return {
    name: keyset.name,
    generations: [
      ...keyset.made.map(view(({ id }) => (id === keyset.primary ? 'primary' : 'made'))),
      ...keyset.trusted.map(view(({ id }) => (id === keyset.primary ? 'primary' : 'trusted'))),
      ...keyset.distrusted.map(view(() => 'distrusted')),
    ],
  };
}

export interface CertificateView {
  readonly serial: string;
  readonly leaf: string;
  readonly subject: string;
  readonly to: string;
  readonly issuer: string;
  readonly notBefore: string;
  readonly notAfter: string;
  /**
   * `not yet valid`: it begins later, because the clock was wrong when it was issued. `expiring`:
   * less than a fifth of its life is left. `superseded`: its holder has a newer one, and an agent's
   * is no longer believed. `revoked`: an agent's certificate whose machine was taken out.
   * `removed`: a cluster's certificate whose machine has left: it is not renewed, but valid until
   * it ends.
   */
  readonly state: 'not yet valid' | 'valid' | 'expiring' | 'expired' | 'superseded' | 'revoked' | 'removed';
  readonly renewedBy: Renewer;
  /** When the agent, kubelet or the boot host renews it. */
  readonly renewsAt?: string;
}

const BY_THEMSELVES: ReadonlySet<Renewer> = new Set<Renewer>(['agent', 'kubelet', 'muster']);

/** An entry of the ledger at wall-clock time `now`, with its dates and its state. */
export function certificateView(
  issued: IssuedCertificate,
  now: Millis,
  standing: Standing = 'current',
): CertificateView {
  const byDate = stateByDate(issued, now);
  const renewedBy = renewerOf(issued.leaf, byDate === 'expired' ? 'removed' : standing);

  return {
    serial: issued.serial,
    leaf: issued.leaf,
    subject: issued.subject,
    to: issued.to,
    issuer: `${issued.issuer.keyset}/${issued.issuer.generation}`,
    notBefore: iso(issued.notBefore),
    notAfter: iso(issued.notAfter),
    state: byDate === 'expired' || standing === 'current' ? byDate : standing,
    renewedBy,
    ...(BY_THEMSELVES.has(renewedBy) && { renewsAt: iso(renewsAt(issued)) }),
  };
}

function stateByDate(
  issued: IssuedCertificate,
  now: Millis,
): 'not yet valid' | 'valid' | 'expiring' | 'expired' {
  if (issued.notBefore > now) return 'not yet valid';
  const left = issued.notAfter - now;
  const life = issued.notAfter - Math.max(issued.notBefore, issued.issuedAt);
  return left <= 0 ? 'expired' : left < life / 5 ? 'expiring' : 'valid';
}

/** What ends or is renewed at a time. */
export interface ForecastView {
  readonly at: string;
  readonly does: 'renewed' | 'ends';
  /** For example `certificate kubelet`, `CA etcd-ca`. */
  readonly what: string;
  /** A machine, a user or `muster`; of a CA, the id of its generation. */
  readonly of: string;
  readonly by: Ending['renewedBy'];
  readonly ends: string;
  /** It ends so soon that it should have been renewed. */
  readonly alarm?: AlarmLevel;
}

const endingView = (ending: Ending, now: Millis) => {
  const alarm = alarmOf(ending, now);
  return {
    what: ending.what,
    of: ending.of,
    by: ending.renewedBy,
    ends: iso(ending.ends),
    ...(alarm && { alarm }),
  };
};

export interface PkiStatusView {
  readonly keysets: readonly (KeysetView & { readonly about: string })[];
  readonly certificates: readonly CertificateView[];
  /** What is renewed or ends within the time that was asked for, the first one first. */
  readonly forecast: readonly ForecastView[];
  /**
   * The first thing that ends while the boot host stays away and that the cluster needs: until then
   * it works without. Absent for Muster's own keys.
   */
  readonly withoutBootHost?: Omit<ForecastView, 'at' | 'does'> & { readonly leftSeconds: number };
}

/**
 * Keysets with what depends on them, every certificate that was handed out (the one that ends next
 * comes first), and what happens within a time.
 */
export function pkiStatusView(
  keys: ScopeKeys & {
    readonly encryption?: EncryptionKeyset | undefined;
    readonly tickets?: TicketSecrets | undefined;
    readonly ofCluster?: boolean;
  },
  now: Millis,
  within: Millis,
): PkiStatusView {
  const keysets = [...keys.keysets];
  const endings = endingsOf({ ...keys, keysets });
  const first = keys.ofCluster ? firstWithoutBootHost(endings) : undefined;
  return {
    keysets: [
      ...keysets.map((keyset) => keysetView(keyset, keys, now)),
      ...(keys.encryption ? [encryptionView(keys.encryption)] : []),
      ...(keys.tickets ? [ticketsView(keys.tickets)] : []),
    ].map((view) => ({ about: keysetRow(view.name).about, ...view })),
    certificates: keys.issued
      .toSorted((a, b) => a.notAfter - b.notAfter || (a.serial < b.serial ? -1 : 1))
      .map((one) => certificateView(one, now, keys.standing(one))),
    forecast: forecast(endings, now, within).map(({ at, does, ending }) => ({
      at: iso(at),
      does,
      ...endingView(ending, now),
    })),
    ...(first && {
      withoutBootHost: {
        ...endingView(first, now),
        leftSeconds: Math.max(0, Math.floor((first.ends - now) / 1000)),
      },
    }),
  };
}
