/** Kubeconfigs as values, and as the text that kubectl and the components read. */
import type { Secret } from '../base/secret.ts';
import { type Plain, yamlText } from '../base/yaml-text.ts';
import { type PrivateKey, REDACTED } from './keys.ts';

export type Credential =
  /** Embedded, as kubeadm does it; `kubeadm certs` reads only these. */
  | { readonly kind: 'embedded'; readonly certificate: string; readonly key: PrivateKey }
  /**
   * Embedded, but the key stays on the machine: the text ends with `client-key-data: `, and the
   * machine appends the base64 of its key file and a line break.
   */
  | { readonly kind: 'own-key'; readonly certificate: string }
  /** Paths of files, which may be one file. */
  | { readonly kind: 'files'; readonly certificate: string; readonly key: string }
  /** A bootstrap token, `id.secret`. */
  | { readonly kind: 'token'; readonly token: Secret };

interface Kubeconfig {
  readonly cluster: string;
  /** URL of the API. */
  readonly server: string;
  /** Trust: the PEM of every trusted generation, or the path of a file with it. */
  readonly caBundle: string | { readonly file: string };
  readonly user: string;
  readonly credential: Credential;
}

const base64 = (text: string): string => Buffer.from(text, 'utf8').toString('base64');

function userFields(credential: Credential): Record<string, string> {
  switch (credential.kind) {
    case 'embedded':
      return {
        'client-certificate-data': base64(credential.certificate),
        'client-key-data': base64(credential.key.pem()),
      };
    case 'own-key':
      return { 'client-certificate-data': base64(credential.certificate) };
    case 'files':
      return { 'client-certificate': credential.certificate, 'client-key': credential.key };
    case 'token':
      return { token: credential.token.reveal() };
  }
}

const trustFields = (ca: Kubeconfig['caBundle']): Record<string, string> =>
  typeof ca === 'string'
    ? { 'certificate-authority-data': base64(ca) }
    : { 'certificate-authority': ca.file };

function document(config: Kubeconfig, user: Record<string, string>): Plain {
  const context = `${config.user}@${config.cluster}`;
  return {
    apiVersion: 'v1',
    clusters: [
      {
        cluster: { ...trustFields(config.caBundle), server: config.server },
        name: config.cluster,
      },
    ],
    contexts: [{ context: { cluster: config.cluster, user: config.user }, name: context }],
    'current-context': context,
    kind: 'Config',
    users: [{ name: config.user, user }],
  };
}

/** The text, in kubectl's order. Secret unless the credential is `own-key` or `files`. */
export function kubeconfigText(config: Kubeconfig): string {
  const text = yamlText(document(config, userFields(config.credential)));
  return config.credential.kind === 'own-key' ? `${text}      client-key-data: ` : text;
}

/** A kubeconfig as a value for display, with a placeholder for its secret. */
export function kubeconfigView(config: Kubeconfig): unknown {
  const secret = { embedded: 'client-key-data', token: 'token' }[config.credential.kind as string];
  const fields = userFields(config.credential);
  return document(config, secret === undefined ? fields : { ...fields, [secret]: REDACTED });
}
