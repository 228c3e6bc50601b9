/** Handlers for backups of the boot host, and for the life of its store. */
import { beforeChange } from '../base/rehearsal.ts';
import type { ApiDeps } from './deps.ts';
import { flag, type Handler, json } from './handler.ts';

type H = Handler<ApiDeps>;

/** Shows the state of the store's life. */
export const showLife: H = (_request, { hostBackup: { life } }) =>
  json({ life: life.number, state: life.state, ...(life.detail !== undefined && { detail: life.detail }) });

/** Answers with the archive of a backup, in the clear. Query: assets. */
export const writeBackup: H = ({ query }, { hostBackup }) => {
  const assets = flag(query, 'assets');
  beforeChange('give out all keys and records');
  return {
    status: 200,
    headers: { 'content-type': 'application/x-tar' },
    body: hostBackup.archive({ assets }),
  };
};

/** Accepts a restored store. */
export const acceptStore: H = async (_request, { hostBackup: { life } }) => {
  await life.accept();
  return json({ life: life.number, state: life.state });
};
