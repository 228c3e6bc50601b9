/**
 * The PKI files of one machine: paths, modes, contents, and who supplies each private key. Pure.
 */
import { Secret } from '../base/secret.ts';
import { ENCRYPTION, type EncryptionKeyset, encryptionConfig } from './encryption.ts';
import {
  AUTHORITIES,
  BOOTSTRAP_KUBECONFIG,
  type Delivery,
  KUBELET_CLIENT,
  type LeafName,
  leafOf,
  leavesFor,
  MODES,
  type Role,
  SERVICE_ACCOUNT,
} from './hierarchy.ts';
import type { PrivateKey } from './keys.ts';
import { type Keyset, primaryOf, signingCertificate, trustBundle, verifiers } from './keyset.ts';
import { AUTHORITY_NAMES, type KeysetName } from './keysets.ts';
import { type Credential, kubeconfigText } from './kubeconfig.ts';

type FileContent =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'secret'; readonly secret: Secret }
  /** The file is removed. */
  | { readonly kind: 'absent' }
  /**
   * `onlyIfAbsent`: software on the machine may point the link elsewhere later, and a link that
   * exists is kept.
   */
  | { readonly kind: 'link'; readonly to: string; readonly onlyIfAbsent?: true }
  /**
   * A certificate whose key is next to it and changes with it: the machine's own, or one that was
   * made here.
   */
  | {
      readonly kind: 'pair';
      readonly certificate: string;
      readonly key: { readonly leaf: LeafName } | { readonly secret: Secret };
    }
  /**
   * The machine appends its key to the text: as PEM, or as base64 and a line break (a kubeconfig's
   * last field).
   */
  | {
      readonly kind: 'with-own-key';
      readonly leaf: LeafName;
      readonly text: string;
      readonly append: 'pem' | 'base64';
    };

export interface MachineFile {
  readonly path: string;
  /** 0 for a link and for an absent file. */
  readonly mode: number;
  readonly content: FileContent;
}

/**
 * A certificate, with its key only when the key was made here (inline delivery, kubeconfigs for
 * users).
 */
export interface Held {
  readonly certificate: string;
  readonly key?: PrivateKey;
}

export interface HandoutOf {
  readonly roles: readonly Role[];
  readonly cluster: string;
  readonly user: string;
  /** The cluster's keysets, and Muster's own `transport-ca`. */
  readonly keysets: ReadonlyMap<KeysetName, Keyset>;
  readonly leaves: ReadonlyMap<LeafName, Held>;
  /** The private keys with which programs of a control plane sign, see `Pki.handedOut`. */
  readonly signing: ReadonlyMap<KeysetName, Secret>;
  /**
   * Present on a machine whose kubelet gets its certificate from the cluster. `token` (`id.secret`)
   * authenticates its request; absent once it has a certificate.
   */
  readonly joins?: { readonly token?: Secret } | undefined;
  /** How apiservers encrypt Secrets. Absent: the file that says so is left out. */
  readonly encryption?: { readonly keyset: EncryptionKeyset | undefined; readonly encrypts: boolean };
  /** URLs of the cluster's endpoint, and of the API on this machine. */
  readonly servers: { readonly endpoint: string; readonly local: string };
}

/**
 * Returns all PKI files of a machine, ordered by path. Leaves of its roles that are not in `leaves`
 * are left out.
 *
 * @example
 * handout({ roles: ['worker'], cluster: 'blue', user: 'w1', keysets, leaves, servers });
 * // [{ path: '/etc/kubernetes/pki/ca.crt', mode: 0o644, content: { kind: 'text', text: '…' } }, …]
 */
export function handout(of: HandoutOf): readonly MachineFile[] {
  const files = [...trustFiles(of), ...pairFiles(of), ...serviceAccountFiles(of), ...encryptionFiles(of)];
  for (const name of leavesFor(of.roles)) {
    const held = of.leaves.get(name);
    if (held !== undefined) files.push(...leafFiles(of, name, held));
  }
  if (of.joins) files.push(...joiningFiles(of, of.joins));
  return files.sort((a, b) => (a.path < b.path ? -1 : 1));
}

const text = (path: string, mode: number, content: string): MachineFile => ({
  path,
  mode,
  content: { kind: 'text', text: content },
});

const secret = (path: string, mode: number, content: string): MachineFile => ({
  path,
  mode,
  content: { kind: 'secret', secret: new Secret(content) },
});

function trustFiles({ roles, keysets }: HandoutOf): MachineFile[] {
  return AUTHORITY_NAMES.flatMap((name) => {
    const { bundle } = AUTHORITIES[name];
    const keyset = keysets.get(name);
    return keyset && bundle.roles.some((role) => roles.includes(role))
      ? [text(bundle.path, MODES.certificate, trustBundle(keyset))]
      : [];
  });
}

function pairFiles({ roles, keysets, signing }: HandoutOf): MachineFile[] {
  return AUTHORITY_NAMES.flatMap((name) => {
    const { pair } = AUTHORITIES[name];
    const keyset = keysets.get(name);
    if (!pair || !keyset || !pair.roles.every((role) => roles.includes(role))) return [];
    return [
      text(pair.cert, MODES.certificate, signingCertificate(keyset)),
      pair.signsThere
        ? secret(pair.key, MODES.key, signing.get(name)!.reveal())
        : { path: pair.key, mode: 0, content: { kind: 'absent' } },
    ];
  });
}

function serviceAccountFiles({ roles, keysets, signing }: HandoutOf): MachineFile[] {
  const keyset = keysets.get('sa');
  if (!keyset || !SERVICE_ACCOUNT.roles.some((role) => roles.includes(role))) return [];
  const { publicKey } = primaryOf(keyset);
  return [
    secret(SERVICE_ACCOUNT.key, MODES.key, signing.get('sa')!.reveal()),
    text(SERVICE_ACCOUNT.publicKey, MODES.publicKey, publicKey.pem()),
    text(SERVICE_ACCOUNT.verifiers, MODES.publicKey, verifiers(keyset)),
  ];
}

function encryptionFiles({ roles, encryption }: HandoutOf): MachineFile[] {
  if (!encryption || !ENCRYPTION.roles.some((role) => roles.includes(role))) return [];
  return [secret(ENCRYPTION.path, MODES.key, encryptionConfig(encryption.keyset, encryption.encrypts))];
}

function leafFiles(of: HandoutOf, leaf: LeafName, held: Held): MachineFile[] {
  const { certificate, key } = held;
  const { delivery } = leafOf(leaf);
  switch (delivery.form) {
    case 'none':
      return [];
    case 'pair':
      return [
        {
          path: delivery.cert,
          mode: MODES.certificate,
          content: { kind: 'pair', certificate, key: key ? { secret: new Secret(key.pem()) } : { leaf } },
        },
      ];
    case 'one-file':
      return [pairInOneFile(delivery.path, leaf, certificate, key)];
    case 'combined': {
      return [
        pairInOneFile(delivery.path, leaf, certificate, key),
        // kubelet turned the link if it rotated its certificate itself; a certificate that Muster
        // issues again would never reach it.
        { path: delivery.link, mode: 0, content: { kind: 'link', to: delivery.path } },
        kubeletKubeconfig(of, delivery),
      ];
    }
    case 'kubeconfig-files':
      return [
        text(delivery.authority, MODES.certificate, trustBundle(of.keysets.get('ca')!)),
        pairInOneFile(delivery.pair, leaf, certificate, key),
        kubeconfigWithFiles(of, leaf, delivery.path, delivery.authority, delivery.pair),
        embeddedKubeconfig(of, leaf, { path: delivery.embedded, server: 'local' }, held),
      ];
    case 'kubeconfig':
      return [embeddedKubeconfig(of, leaf, delivery, held)];
  }
}

const userOf = (of: HandoutOf, leaf: LeafName): string =>
  leafOf(leaf).subject({ name: of.user, addresses: [] }).commonName;

/** A certificate and its key in one file. */
const pairInOneFile = (
  path: string,
  leaf: LeafName,
  certificate: string,
  key: PrivateKey | undefined,
): MachineFile =>
  key
    ? secret(path, MODES.key, certificate + key.pem())
    : { path, mode: MODES.key, content: { kind: 'with-own-key', leaf, text: certificate, append: 'pem' } };

function embeddedKubeconfig(
  of: HandoutOf,
  leaf: LeafName,
  { path, server }: { readonly path: string; readonly server: 'endpoint' | 'local' },
  { certificate, key }: Held,
): MachineFile {
  const user = userOf(of, leaf);
  if (key)
    return secret(
      path,
      MODES.kubeconfig,
      kubeconfig(of, user, server, { kind: 'embedded', certificate, key }),
    );
  const text = kubeconfig(of, user, server, { kind: 'own-key', certificate });
  return { path, mode: MODES.kubeconfig, content: { kind: 'with-own-key', leaf, text, append: 'base64' } };
}

/**
 * kubelet's kubeconfig, which names its certificate by a link, and the bootstrap kubeconfig with
 * the token, with which kubelet requests that certificate.
 */
function joiningFiles(of: HandoutOf, { token }: NonNullable<HandoutOf['joins']>): MachineFile[] {
  return [
    kubeletKubeconfig(of, KUBELET_CLIENT),
    token
      ? secret(
          BOOTSTRAP_KUBECONFIG,
          MODES.kubeconfig,
          kubeconfig(of, 'tls-bootstrap-token-user', 'local', { kind: 'token', token }),
        )
      : { path: BOOTSTRAP_KUBECONFIG, mode: 0, content: { kind: 'absent' } },
  ];
}

/** kubelet's kubeconfig, which names its certificate by a link, whether that exists or not. */
const kubeletKubeconfig = (
  of: HandoutOf,
  { link, kubeconfig: path }: Extract<Delivery, { form: 'combined' }>,
): MachineFile => kubeconfigWithFiles(of, 'kubelet', path, AUTHORITIES.ca.bundle.path, link);

function kubeconfigWithFiles(
  of: HandoutOf,
  leaf: LeafName,
  path: string,
  authority: string,
  pair: string,
): MachineFile {
  const credential = { kind: 'files', certificate: pair, key: pair } as const;
  const content = kubeconfig(of, userOf(of, leaf), 'local', credential, { file: authority });
  return text(path, MODES.kubeconfig, content);
}

function kubeconfig(
  of: HandoutOf,
  user: string,
  server: 'endpoint' | 'local',
  credential: Credential,
  caBundle: string | { readonly file: string } = trustBundle(of.keysets.get('ca')!),
): string {
  return kubeconfigText({ cluster: of.cluster, server: of.servers[server], caBundle, user, credential });
}
