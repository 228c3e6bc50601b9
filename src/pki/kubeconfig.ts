/** Kubeconfigs as values, and as the text that kubectl and the components read. */
import type { Secret } from '../base/secret.ts';
import { type Plain, yamlText } from '../base/yaml-text.ts';
import type { PrivateKey } from './keys.ts';

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
  /** A command that kubectl runs for a certificate (client.authentication.k8s.io/v1). */
  | {
      readonly kind: 'exec';
      readonly command: string;
      readonly args: readonly string[];
      readonly env: Readonly<Record<string, string>>;
    }
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

/** The version of what kubectl and such a command say to each other; kubectl has it since 1.22. */
export const EXEC_API = 'client.authentication.k8s.io/v1';

const base64 = (text: string): string => Buffer.from(text, 'utf8').toString('base64');

function userFields(credential: Credential): Record<string, Plain> {
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
    case 'exec':
      return {
        exec: {
          apiVersion: EXEC_API,
          args: [...credential.args],
          command: credential.command,
          env: Object.entries(credential.env).map(([name, value]) => ({ name, value })),
          installHint: 'Install the command `muster`, and log in with `muster login`.',
          interactiveMode: 'Never',
          provideClusterInfo: false,
        },
      };
    case 'token':
      return { token: credential.token.reveal() };
  }
}

const trustFields = (ca: Kubeconfig['caBundle']): Record<string, string> =>
  typeof ca === 'string'
    ? { 'certificate-authority-data': base64(ca) }
    : { 'certificate-authority': ca.file };

function document(config: Kubeconfig, user: Record<string, Plain>): Plain {
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

/** The text, in kubectl's order. Secret unless the credential is `own-key`, `files` or `exec`. */
export function kubeconfigText(config: Kubeconfig): string {
  const text = yamlText(document(config, userFields(config.credential)));
  return config.credential.kind === 'own-key' ? `${text}      client-key-data: ` : text;
}
