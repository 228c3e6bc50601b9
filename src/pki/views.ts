/**
 * Keys and certificates as `muster pki status`, API and page show them. None contains a private
 * key.
 */
import type { Millis } from '../base/duration.ts';
import type { EncryptionKeyset } from './encryption.ts';
import type { MachineFile } from './handout.ts';
import { isProbe } from './hierarchy.ts';
import { discoveryHash } from './keys.ts';
import type { Aged, Keyset, KeysetOf } from './keyset.ts';
import type { IssuedCertificate } from './records.ts';

const iso = (at: Millis): string => new Date(at).toISOString();

export interface GenerationView {
  readonly id: string;
  readonly createdAt: string;
  /** Only for key pairs. */
  readonly pin?: string;
  readonly state: 'primary' | 'made' | 'trusted' | 'distrusted';
}

interface KeysetView {
  readonly name: string;
  readonly generations: readonly GenerationView[];
}

/** A keyset of key pairs, with the discovery hash of each generation. */
export const keysetView = (keyset: Keyset): KeysetView =>
  generations(keyset, ({ publicKey }) => ({ pin: discoveryHash(publicKey) }));

/** The keys by id; a symmetric key has nothing else to show. */
export const encryptionView = (keyset: EncryptionKeyset): KeysetView => generations(keyset, () => ({}));

function generations<G extends Aged>(
  keyset: KeysetOf<string, G>,
  more: (one: G) => { readonly pin?: string },
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
   * `expiring`: less than a fifth of its life is left. `superseded`: an agent's certificate that is
   * no longer believed. `revoked`: an agent's certificate whose machine was taken out. `removed`: a
   * cluster's certificate whose machine has left: it is not renewed, but valid until it ends.
   */
  readonly state: 'valid' | 'expiring' | 'expired' | 'superseded' | 'revoked' | 'removed';
}

/** An entry of the ledger at wall-clock time `now`, with its dates and its state by date. */
export function certificateView(issued: IssuedCertificate, now: Millis): CertificateView {
  const left = issued.notAfter - now;
  const life = issued.notAfter - Math.max(issued.notBefore, issued.issuedAt);
  return {
    serial: issued.serial,
    leaf: issued.leaf,
    subject: issued.subject,
    to: issued.to,
    issuer: `${issued.issuer.keyset}/${issued.issuer.generation}`,
    notBefore: iso(issued.notBefore),
    notAfter: iso(issued.notAfter),
    state: left <= 0 ? 'expired' : left < life / 5 ? 'expiring' : 'valid',
  };
}

/** Keysets, and every certificate that was handed out; the one that ends next comes first. */
export function pkiStatusView(
  keysets: Iterable<Keyset>,
  issued: readonly IssuedCertificate[],
  now: Millis,
  encryption?: EncryptionKeyset,
): {
  readonly keysets: readonly KeysetView[];
  readonly certificates: readonly CertificateView[];
} {
  return {
    keysets: [...[...keysets].map(keysetView), ...(encryption ? [encryptionView(encryption)] : [])],
    certificates: issued
      .toSorted((a, b) => a.notAfter - b.notAfter || (a.serial < b.serial ? -1 : 1))
      .map((one) => certificateView(one, now)),
  };
}

/** A file's path and mode (octal), with the origin of its content instead of the content. */
export function machineFileView(file: MachineFile): {
  readonly path: string;
  readonly mode: string;
  readonly content: string;
} {
  const { path, mode, content } = file;
  const shown = {
    text: 'public',
    secret: 'secret',
    link: `link to ${content.kind === 'link' ? content.to : ''}`,
    absent: 'taken away',
    'own-key': 'made on the machine',
    'with-own-key': 'public, and a key made on the machine',
  }[content.kind];
  return { path, mode: mode.toString(8).padStart(4, '0'), content: shown };
}

/**
 * The certificates that depend on a CA's generation, probes aside: as long as there is one,
 * distrusting the generation would cut off its holder.
 */
export const stillDependsOn = (
  issued: readonly IssuedCertificate[],
  generation: string,
  now: Millis,
): readonly IssuedCertificate[] =>
  issued.filter((one) => one.issuer.generation === generation && one.notAfter > now && !isProbe(one.leaf));
