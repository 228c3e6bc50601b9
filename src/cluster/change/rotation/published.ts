/**
 * The ConfigMaps through which a cluster publishes its CAs. Kubernetes writes them; one of them the
 * rotation has to correct, because API servers only ever add to it.
 */

import { fieldsOf, listOf, textOf } from '../../../base/foreign-json.ts';
import { trustBundle } from '../../../pki/keyset.ts';
import { keysetRow, type PublishedAs } from '../../../pki/keysets.ts';
import type { Keysets } from '../../../pki/pki.ts';
import { ifThere, type Kube } from '../../kube.ts';

/** Namespaces whose kube-root-ca.crt is not `bundle`; kube-controller-manager publishes it. */
export async function namespacesWithout(kube: Kube, bundle: string): Promise<readonly string[]> {
  const [namespaces, published] = await Promise.all([
    kube('/api/v1/namespaces'),
    kube('/api/v1/configmaps?fieldSelector=metadata.name%3Dkube-root-ca.crt'),
  ]);
  const bundles = new Map(
    listOf(fieldsOf(published.body).items).map((item) => {
      const { metadata, data } = fieldsOf(item);
      return [textOf(fieldsOf(metadata).namespace), textOf(fieldsOf(data)['ca.crt'])] as const;
    }),
  );
  return listOf(fieldsOf(namespaces.body).items).flatMap((item) => {
    const { metadata, status } = fieldsOf(item);
    const name = textOf(fieldsOf(metadata).name);
    const ends = textOf(fieldsOf(status).phase) === 'Terminating';
    return ends || sameBundle(bundles.get(name) ?? '', bundle) ? [] : [name];
  });
}

/**
 * Writes a namespace's kube-root-ca.crt, as kube-controller-manager will, so that pods which start
 * before that get the right CA. One that does not exist yet is left to the controller manager.
 */
export async function publishRootCa(kube: Kube, namespace: string, bundle: string): Promise<void> {
  await kube(`/api/v1/namespaces/${encodeURIComponent(namespace)}/configmaps/kube-root-ca.crt`, {
    method: 'PATCH',
    contentType: 'application/merge-patch+json',
    body: { data: { 'ca.crt': bundle } },
  }).catch(ifThere);
}

/** Whether two bundles hold the same certificates in the same order. */
export const sameBundle = (a: string, b: string): boolean => a.trim() === b.trim();

const AUTHENTICATION = '/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication';

/** What aggregated API servers and the scheduler trust, by the keys of that ConfigMap. */
export type PublishedTrust = Readonly<Record<PublishedAs, string>>;

/** What the ConfigMap has to hold for these keys. */
export const publishedBy = (keysets: Keysets): PublishedTrust =>
  Object.fromEntries(
    [...keysets.values()].flatMap((keyset) => {
      const { publishedAs } = keysetRow(keyset.name);
      return publishedAs === undefined ? [] : [[publishedAs, trustBundle(keyset)]];
    }),
  ) as PublishedTrust;

/** Whether the ConfigMap holds exactly these bundles. */
export async function trustIsPublished(kube: Kube, trust: PublishedTrust): Promise<boolean> {
  const { body } = await kube(AUTHENTICATION);
  const data = fieldsOf(fieldsOf(body).data);
  return Object.entries(trust).every(([key, bundle]) => sameBundle(textOf(data[key]), bundle));
}

/**
 * Writes the bundles into the ConfigMap. API servers only add their CAs to it, and one that still
 * had the old file would put the old CA back, so this comes last. The ConfigMap is never deleted:
 * its readers keep what they had in memory (kubernetes/kubernetes#140130).
 */
export async function publishTrust(kube: Kube, trust: PublishedTrust): Promise<void> {
  await kube(AUTHENTICATION, {
    method: 'PATCH',
    contentType: 'application/merge-patch+json',
    body: { data: trust },
  });
}
