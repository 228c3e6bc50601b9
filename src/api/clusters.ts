/** Handlers for clusters beyond their documents: the founding of etcd. */
import { MusterError } from '../base/errors.ts';
import type { ApiDeps } from './deps.ts';
import { type Handler, json } from './handler.ts';
import { fieldsOf } from './machines.ts';

type H = Handler<ApiDeps>;

/** What is known of a cluster's founding, and what each member was told last. */
export const showFounding: H = async (request, { founding }) =>
  json(await founding.status(request.params.name ?? ''));

/** Body: `{confirm}`, the cluster's name once more. */
export const foundCluster: H = async (request, { founding }) => {
  const name = request.params.name ?? '';
  const { confirm } = await fieldsOf(request, ['confirm']);
  if (confirm !== name)
    throw new MusterError(
      'E_USAGE',
      `to found the etcd of ${name}, confirm it by its name: {"confirm": "${name}"}`,
    );
  return json(await founding.order(name));
};
