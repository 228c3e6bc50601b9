/**
 * Finds what still contains the certificate of an old CA in the objects of a cluster: as PEM, or in
 * base64 once or twice, as in kubeconfigs, webhooks and Secrets. Pure.
 */
import { X509Certificate } from 'node:crypto';
import { fieldsOf, listOf, textOf } from '../../../base/foreign-json.ts';
import type { Leftover } from './order.ts';

/** The kinds of objects that are searched, and the paths under which the API lists them. */
export const SEARCHED = [
  { kind: 'configmap', path: '/api/v1/configmaps' },
  { kind: 'secret', path: '/api/v1/secrets' },
  {
    kind: 'validatingwebhookconfiguration',
    path: '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations',
  },
  {
    kind: 'mutatingwebhookconfiguration',
    path: '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations',
  },
  { kind: 'apiservice', path: '/apis/apiregistration.k8s.io/v1/apiservices' },
  { kind: 'customresourcedefinition', path: '/apis/apiextensions.k8s.io/v1/customresourcedefinitions' },
] as const;

/** Objects that the rotation itself brings up to date, in a step of its own. */
const OWN: readonly RegExp[] = [
  /^configmap\/[^/]+\/kube-root-ca\.crt$/,
  /^configmap\/kube-public\/cluster-info$/,
  /^configmap\/kube-system\/extension-apiserver-authentication$/,
];

/** An old CA, as the search looks for it. */
export interface Needle {
  /** For example `the old ca`. */
  readonly of: string;
  /** The certificate in base64 without line breaks. */
  readonly text: string;
}

export const needleOf = (of: string, certificate: string): Needle => ({
  of,
  text: new X509Certificate(certificate).raw.toString('base64'),
});

/** Text that can be base64 of a certificate or of a PEM file. */
const ENCODED = /[A-Za-z0-9+/]{200,}={0,2}/g;
/** How many layers of base64 are taken off: a kubeconfig in a Secret has three. */
const LAYERS = 3;

/** The needles that a text contains. */
export function mentions(text: string, needles: readonly Needle[], layers = LAYERS): readonly Needle[] {
  const flat = text.replaceAll(/\\n|\s/g, '');
  const found = needles.filter((needle) => flat.includes(needle.text));
  if (found.length > 0 || layers === 0) return found;
  return [
    ...new Set(
      (flat.match(ENCODED) ?? []).flatMap((encoded) =>
        mentions(Buffer.from(encoded, 'base64').toString('latin1'), needles, layers - 1),
      ),
    ),
  ];
}

/**
 * The objects of a list that contain a needle, each with its owner.
 *
 * @param list The body of the API's answer.
 */
export function leftoversIn(kind: string, list: unknown, needles: readonly Needle[]): readonly Leftover[] {
  return listOf(fieldsOf(list).items).flatMap((item): Leftover[] => {
    const { metadata, ...content } = fieldsOf(item);
    const { namespace, name, ownerReferences, annotations } = fieldsOf(metadata);
    const path = [kind, textOf(namespace), textOf(name)].filter((part) => part !== '').join('/');
    if (OWN.some((one) => one.test(path))) return [];
    const found = mentions(JSON.stringify(content), needles);
    const token = legacyToken(kind, content, fieldsOf(annotations));
    if (found.length === 0) return [];
    const owner = listOf(ownerReferences).map(fieldsOf)[0];
    const owned = owner ? `, of ${textOf(owner.kind)} ${textOf(owner.name)}` : '';
    const what = found.map(({ of }) => of).join(' and ');
    return [{ name: path, text: `contains ${what}${owned}${token}` }];
  });
}

/** A service-account token in a Secret, which Kubernetes never renews. */
function legacyToken(
  kind: string,
  { type }: Readonly<Record<string, unknown>>,
  annotations: Readonly<Record<string, unknown>>,
): string {
  if (kind !== 'secret' || type !== 'kubernetes.io/service-account-token') return '';
  return `, a token of the service account ${textOf(annotations['kubernetes.io/service-account.name'])}`;
}

/** The key ids (`kid`) of the service-account tokens in a list of Secrets, by the Secret's path. */
export function legacyTokens(list: unknown): readonly { readonly name: string; readonly kid: string }[] {
  return listOf(fieldsOf(list).items).flatMap((item) => {
    const { metadata, type, data } = fieldsOf(item);
    if (type !== 'kubernetes.io/service-account-token') return [];
    const { namespace, name } = fieldsOf(metadata);
    const token = Buffer.from(textOf(fieldsOf(data).token), 'base64').toString('latin1');
    const kid = kidOf(token);
    return kid === undefined ? [] : [{ name: `secret/${textOf(namespace)}/${textOf(name)}`, kid }];
  });
}

/** The `kid` in the header of a JSON Web Token; undefined when it has none. */
export function kidOf(token: string): string | undefined {
  try {
    const header: unknown = JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString());
    return textOf(fieldsOf(header).kid) || undefined;
  } catch {
    return undefined;
  }
}
