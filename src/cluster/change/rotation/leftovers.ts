/**
 * Finds what still contains the certificate of an old CA, or a token of an old key, in the objects
 * of a cluster: in plain text, or in base64 up to three times, as in kubeconfigs, webhooks and
 * Secrets. Pure.
 */
import { X509Certificate } from 'node:crypto';
import { firstFew } from '../../../base/first-few.ts';
import { fieldsOf, listOf, textOf } from '../../../base/foreign-json.ts';
import type { Leftover } from './order.ts';

/**
 * The kinds of objects that are searched besides custom resources, and the paths under which the
 * API lists them.
 */
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
  { kind: 'deployment', path: '/apis/apps/v1/deployments' },
  { kind: 'replicaset', path: '/apis/apps/v1/replicasets' },
  { kind: 'statefulset', path: '/apis/apps/v1/statefulsets' },
  { kind: 'daemonset', path: '/apis/apps/v1/daemonsets' },
  { kind: 'replicationcontroller', path: '/api/v1/replicationcontrollers' },
  { kind: 'cronjob', path: '/apis/batch/v1/cronjobs' },
  { kind: 'job', path: '/apis/batch/v1/jobs' },
  { kind: 'pod', path: '/api/v1/pods' },
] as const;

/** Kinds that are named even if another object owns them, because operators edit them directly. */
const NAMED_ITSELF: readonly string[] = ['configmap', 'secret'];

/** A copy of the object as somebody applied it once; it may be older than the object. */
const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

/** Objects that the rotation itself brings up to date, in a step of its own. */
const OWN: readonly RegExp[] = [
  /^configmap\/[^/]+\/kube-root-ca\.crt$/,
  /^configmap\/kube-public\/cluster-info$/,
  /^configmap\/kube-system\/extension-apiserver-authentication$/,
];

/** An old CA or key, as the search looks for it. */
export interface Needle {
  /** For example `the old ca`. */
  readonly of: string;
  /** The certificate in base64 without line breaks, or the key id in a token's header. */
  readonly text: string;
  /** Whether tokens of this key are looked for. */
  readonly token?: true;
}

export const needleOf = (of: string, certificate: string): Needle => ({
  of,
  text: new X509Certificate(certificate).raw.toString('base64'),
});

/** Looks for tokens of a service-account key, by its key id. */
export const tokenNeedle = (kid: string): Needle => ({
  of: 'a token of the old service-account key',
  text: kid,
  token: true,
});

/** The first part of a JSON Web Token, which names the key, and the point after it. */
const TOKEN_HEADER = /eyJ[A-Za-z0-9_-]{8,1000}\./g;

/** Text that can be base64 of a certificate or of a PEM file. */
const ENCODED = /[A-Za-z0-9+/]{200,}={0,2}/g;
/** How many layers of base64 are taken off: a kubeconfig in a Secret has three. */
const LAYERS = 3;

/** The needles that a text contains. */
export function mentions(text: string, needles: readonly Needle[], layers = LAYERS): readonly Needle[] {
  // JSON in the string of an object has its line breaks escaped more than once.
  const flat = text.replaceAll(/\\+[nr]|\s|\\/g, '');
  const kids = needles.some(({ token }) => token) ? (flat.match(TOKEN_HEADER) ?? []).map(kidOf) : [];
  const found = needles.filter(({ text: wanted, token }) =>
    token ? kids.includes(wanted) : flat.includes(wanted),
  );
  if (found.length > 0 || layers === 0) return found;
  return [
    ...new Set(
      (flat.match(ENCODED) ?? []).flatMap((encoded) =>
        mentions(Buffer.from(encoded, 'base64').toString('latin1'), needles, layers - 1),
      ),
    ),
  ];
}

/** One object that was searched. */
export interface Searched {
  readonly kind: string;
  /** `KIND/NAMESPACE/NAME`. */
  readonly path: string;
  readonly uid: string;
  /** Its controller, or else its first owner. */
  readonly owner?: { readonly uid: string; readonly kind: string; readonly name: string };
  /** What it contains. */
  readonly of: readonly string[];
  /** More about it. */
  readonly more: string;
}

/**
 * The objects of a list, each with what it contains. What has ended is left out: it starts nothing
 * again.
 *
 * @param list The body of the API's answer.
 */
export function searched(kind: string, list: unknown, needles: readonly Needle[]): readonly Searched[] {
  return listOf(fieldsOf(list).items).flatMap((item): Searched[] => {
    const { metadata, ...content } = fieldsOf(item);
    const { namespace, name, uid, ownerReferences, annotations } = fieldsOf(metadata);
    const path = [kind, textOf(namespace), textOf(name)].filter((part) => part !== '').join('/');
    const { [LAST_APPLIED]: _, ...annotated } = fieldsOf(annotations);
    const isSearched = !hasEnded(kind, content) && !OWN.some((one) => one.test(path));
    const found = isSearched ? mentions(JSON.stringify([content, annotated]), needles) : [];
    const owners = listOf(ownerReferences).map(fieldsOf);
    const owner = owners.find(({ controller }) => controller === true) ?? owners[0];
    return [
      {
        ...{ kind, path, uid: textOf(uid), of: found.map(({ of }) => of) },
        ...(owner && {
          owner: { uid: textOf(owner.uid), kind: textOf(owner.kind), name: textOf(owner.name) },
        }),
        more: legacyToken(kind, content, fieldsOf(annotations)),
      },
    ];
  });
}

/** Whether an object is only a record: an earlier ReplicaSet, a Job or a pod that is over. */
function hasEnded(kind: string, { spec, status }: Readonly<Record<string, unknown>>): boolean {
  const { phase, completionTime } = fieldsOf(status);
  if (kind === 'replicaset') return fieldsOf(spec).replicas === 0;
  if (kind === 'job') return completionTime !== undefined;
  return kind === 'pod' && (phase === 'Succeeded' || phase === 'Failed');
}

/** What was found, by the object that an operator has to change: the one that owns the others. */
export function leftoversOf(all: readonly Searched[]): readonly Leftover[] {
  const byUid = new Map(all.filter(({ uid }) => uid !== '').map((one) => [one.uid, one]));
  const ownerOf = (one: Searched): Searched => {
    let top = one;
    const passed = new Set([one.uid]);
    while (top.owner && !NAMED_ITSELF.includes(one.kind)) {
      const next = byUid.get(top.owner.uid);
      if (next === undefined || passed.has(next.uid)) break;
      passed.add(next.uid);
      top = next;
    }
    return top;
  };
  const groups = Map.groupBy(
    all.filter(({ of }) => of.length > 0),
    ownerOf,
  );
  return [...groups].map(([top, found]) => {
    const what = [...new Set(found.flatMap(({ of }) => of))].join(' and ');
    const others = found.filter((one) => one !== top).map(({ path }) => path);
    const inside = found.includes(top) || others.length === 0 ? '' : `, in ${firstFew(others, 3)}`;
    const owned = top.owner ? `, of ${top.owner.kind} ${top.owner.name}` : '';
    return { name: top.path, text: `contains ${what}${inside}${owned}${top.more}` };
  });
}

/** A service-account token in a Secret, which Kubernetes never renews. */
function legacyToken(
  kind: string,
  { type }: Readonly<Record<string, unknown>>,
  annotations: Readonly<Record<string, unknown>>,
): string {
  if (kind !== 'secret' || type !== 'kubernetes.io/service-account-token') return '';
  return `, a token of the service account ${textOf(annotations['kubernetes.io/service-account.name'])}, which Kubernetes never renews`;
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
