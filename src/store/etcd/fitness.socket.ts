/** Whether the members of etcd are fit to hold the store. */
import { messageOf } from '../../base/error-text.ts';
import { MusterError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { Message } from './api.ts';
import { type Members, refusalOf } from './members.socket.ts';

/** How long a member may take to answer. */
const STATUS_MS = 3000;
/** Octets that every member has to take in one request: a commit of several large records. */
export const REQUEST_BYTES = 8 * 1024 * 1024;

/**
 * Checks each member that answers.
 *
 * @throws {MusterError} E_STORE_UNFIT with the member and what to change; E_STORE_OPEN when a
 *   member refuses this host.
 */
export async function checkMembers(members: Members, { log }: { readonly log: Log }): Promise<void> {
  const places = Array.from({ length: members.count }, (_, place) => place);
  await Promise.all(
    places.map(async (place) => {
      const name = members.nameOf(place);
      let status: Message<'StatusResponse'>;
      try {
        status = await members.askOne('Status', {}, place, STATUS_MS);
      } catch (error) {
        const refusal = refusalOf(error);
        if (refusal) throw refusal;
        log.warn({ member: name, cause: messageOf(error) }, 'a member of etcd does not answer');
        return;
      }
      const why = unfit(status) ?? (await refusesLarge(members, place));
      if (why !== undefined) throw new MusterError('E_STORE_UNFIT', `${name}: ${why}`);
    }),
  );
}

/** Why a member with this status cannot hold the store. */
export function unfit({
  version,
  errors,
  isLearner,
  dbSize,
  dbSizeQuota,
}: Message<'StatusResponse'>): string | undefined {
  const [major = 0, minor = 0, patch = 0] = version.split('.').map((part) => Number.parseInt(part, 10));
  if (major !== 3 || minor < 4) return `etcd ${version} is not supported; 3.4 and later of version 3 are`;
  if (minor === 5 && patch < 3) return `etcd ${version} can lose acknowledged writes; install 3.5.3 or later`;
  const alarm = errors.find((text) => /NOSPACE|CORRUPT/i.test(text));
  if (alarm) return `etcd reports ${alarm}`;
  if (isLearner) return 'this member is a learner, which answers no client; name the voting members';
  // Members before 3.6 do not tell their quota.
  if (dbSizeQuota > 0n && dbSize * 10n > dbSizeQuota * 9n)
    return `its database has ${dbSize} of at most ${dbSizeQuota} octets; defragment it, or raise --quota-backend-bytes`;
  return undefined;
}

/** The members that took one; a process that opens several stores asks each member once. */
const memoLarge = new Set<string>();

/** Sends a request that is large and changes nothing. It goes no further than this member. */
async function refusesLarge(members: Members, place: number): Promise<string | undefined> {
  const name = members.nameOf(place);
  if (memoLarge.has(name)) return undefined;
  const key = new Uint8Array(REQUEST_BYTES).fill(107);
  try {
    await members.askOne('Range', { key, limit: 1n }, place, STATUS_MS);
    memoLarge.add(name);
    return undefined;
  } catch (error) {
    if (refusalOf(error)?.code !== 'E_STORE_LIMIT') return undefined;
    return `it takes no request of ${REQUEST_BYTES} octets; start it with --max-request-bytes=${REQUEST_BYTES}`;
  }
}
