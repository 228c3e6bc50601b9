/**
 * Writes all Secrets of a cluster again, so that the API server encrypts them with the key that is
 * primary now, and counts those in etcd that name another key.
 */
import { fieldsOf, listOf, textOf } from '../../../base/foreign-json.ts';
import { type Kube, KubeRefusal } from '../../kube.ts';

/** How many Secrets are read with one request. */
const PAGE = 200;

/**
 * Writes every Secret unchanged. The API server stores an object again even when nothing changes in
 * it, if the key that encrypted it is not the primary (apiserver, storage `stale` transformer).
 * Others may change or delete a Secret meanwhile, which writes it too.
 */
export async function writeSecretsAgain(kube: Kube): Promise<number> {
  let written = 0;
  let next = '';
  do {
    const query = `limit=${PAGE}${next === '' ? '' : `&continue=${encodeURIComponent(next)}`}`;
    const { body } = await kube(`/api/v1/secrets?${query}`);
    for (const secret of listOf(fieldsOf(body).items)) {
      const { namespace, name } = fieldsOf(fieldsOf(secret).metadata);
      await putAgain(kube, `/api/v1/namespaces/${textOf(namespace)}/secrets/${textOf(name)}`, secret);
      written++;
    }
    next = textOf(fieldsOf(fieldsOf(body).metadata).continue);
  } while (next !== '');
  return written;
}

async function putAgain(kube: Kube, path: string, secret: unknown): Promise<void> {
  try {
    await kube(path, { method: 'PUT', body: { apiVersion: 'v1', kind: 'Secret', ...fieldsOf(secret) } });
  } catch (error) {
    // 404: it was deleted. 409: another client has just written it, with the primary key.
    if (!(error instanceof KubeRefusal) || ![404, 409].includes(error.status)) throw error;
  }
}

/** Where the API server keeps Secrets in etcd. */
export const STORED_SECRETS = '/registry/secrets/';

/**
 * How many values were not encrypted with this key. A value begins with the provider, its version
 * and the key's name.
 */
export const otherKeys = (values: readonly Buffer[], primary: string): number =>
  values.filter((value) => !value.toString('latin1').startsWith(`k8s:enc:secretbox:v1:${primary}:`)).length;
