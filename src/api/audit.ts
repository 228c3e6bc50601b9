/** The security log over the operators' API: its newest entries, its lines, and what signs them. */
import type { AuditEntry } from '../events/audit-chain.ts';
import { MAX_LIMIT } from './contract/contract.ts';
import type { ApiDeps } from './deps.ts';
import { EVENT_STREAM, resumePoint, subjectsOf } from './events.ts';
import { follow } from './follow.ts';
import { flag, type Handler, json, wholeNumber } from './handler.ts';

type H = Handler<ApiDeps>;

/** The key, the newest entry and the newest checkpoint; a checkpoint is made if one is due. */
export const auditStatus: H = async (_request, { security }) => {
  await security.checkpoint();
  return json({ kind: 'AuditStatus', ...security.status() });
};

/**
 * Query: `subject`, `after`, `limit`, `follow`, as for events. Only the newest entries are listed;
 * the export has all.
 */
export const auditEntries: H = (request, { security, roster, clock }) => {
  const { query } = request;
  const subject = query.get('subject');
  const subjects = subject === null ? undefined : subjectsOf(subject, roster);
  const limit = wholeNumber(query, 'limit', MAX_LIMIT);
  const after = resumePoint(request, security.status().head?.sequence ?? 0);
  const wanted = (entry: AuditEntry): boolean => subjects === undefined || subjects.has(entry.subject);
  const kept = (): readonly AuditEntry[] => {
    const found = security.list(after === undefined ? {} : { after }).filter(wanted);
    if (limit === undefined || limit >= found.length) return found;
    return after === undefined ? found.slice(found.length - limit) : found.slice(0, limit);
  };
  if (!flag(query, 'follow') && !request.headers.accept?.includes(EVENT_STREAM))
    return json({ kind: 'AuditEntryList', items: kept() });
  const { subscribe } = security;
  return {
    status: 200,
    headers: { 'content-type': EVENT_STREAM, 'cache-control': 'no-store' },
    body: follow(
      {
        kept,
        subscribe: (listener) => subscribe.call(security, listener),
        wanted,
        view: (entry) => entry,
        after: after ?? 0,
      },
      clock,
      request.signal,
    ),
  };
};

/** All lines, oldest first, the last one a checkpoint. */
export const auditExport: H = async (_request, { security }) => {
  await security.checkpoint();
  return { status: 200, headers: { 'content-type': 'application/jsonl' }, body: security.read() };
};
