/** Handlers for orders that change the machines of a cluster or its members of etcd. */
import { z } from 'zod';
import { parseDuration } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import { parsed } from '../base/foreign-json.ts';
import { trustKeysOf } from '../cluster/backup/readers.ts';
import type { NodeRole } from '../cluster/change/membership.ts';
import type { FoundingRecord } from '../cluster/etcd/founding.ts';
import { ADOPTED, type AdoptedKeys } from '../pki/adopted.ts';
import type { ApiDeps } from './deps.ts';
import { type Handler, json } from './handler.ts';
import { fieldsOf } from './machines.ts';
import { foundingView } from './times.ts';

type H = Handler<ApiDeps>;

const ROLES: readonly NodeRole[] = ['worker', 'control-plane', 'etcd'];

const namesOf = (text: string | undefined): readonly string[] =>
  (text ?? '').split(',').filter((name) => name !== '');

function once(names: readonly string[]): readonly string[] {
  if (new Set(names).size < names.length) throw new MusterError('E_USAGE', 'a machine is listed twice');
  return names;
}

function machinesOf(text: string | undefined): readonly string[] {
  const names = namesOf(text);
  if (names.length === 0) throw new MusterError('E_USAGE', 'name the machines: {"machines": "NAME,NAME"}');
  return once(names);
}

/** Adds machines to a cluster. Body: `{machines, role?}`; names are separated by commas. */
export const addNodes: H = async (request, { membership }) => {
  const { machines, role = 'worker' } = await fieldsOf(request, ['machines', 'role']);
  if (!ROLES.includes(role as NodeRole))
    throw new MusterError('E_USAGE', `"${role}" is not a role; the roles are ${ROLES.join(', ')}`);
  const order = { machines: machinesOf(machines), role: role as NodeRole };
  return json(await membership.add(request.params.name ?? '', order));
};

/**
 * Removes machines from a cluster. Body: `{machines, replacements?, clear?, drain?}`; `drain` is a
 * duration or `no`.
 */
export const removeNodes: H = async (request, { membership }) => {
  const given = await fieldsOf(request, ['machines', 'replacements', 'clear', 'drain']);
  const { drain = '5m', clear = 'false' } = given;
  const machines = machinesOf(given.machines);
  const replacements = once(namesOf(given.replacements));
  if (replacements.length > machines.length)
    throw new MusterError('E_USAGE', 'more replacements than machines; `muster cluster add-node` adds more');
  if (clear !== 'true' && clear !== 'false')
    throw new MusterError('E_USAGE', '"clear" must be true or false');
  const drainFor = drain === 'no' ? undefined : parseDuration(drain);
  if (drain !== 'no' && drainFor === undefined)
    throw new MusterError('E_USAGE', `"${drain}" is not a duration; write it like 5m, or no`);
  const order = { machines, replacements, clear: clear === 'true', drainFor };
  return json(await membership.remove(request.params.name ?? '', order));
};

/**
 * Reads the body of an order that may lose data: `confirm` must repeat the cluster's name.
 *
 * @throws {MusterError} E_USAGE when it does not
 */
async function confirmed<K extends string>(
  request: Parameters<H>[0],
  what: string,
  more: readonly K[],
): Promise<Partial<Record<K, string>>> {
  const name = request.params.name ?? '';
  const fields = await fieldsOf(request, ['confirm', ...more]);
  if (fields.confirm !== name)
    throw new MusterError('E_USAGE', `to ${what} ${name}, repeat its name: {"confirm": "${name}"}`);
  return fields as Partial<Record<K, string>>;
}

function memberOf({ member }: { readonly member?: string }): string {
  if (member === undefined || member === '')
    throw new MusterError('E_USAGE', 'name the member: {"member": "NAME"}');
  return member;
}

const shown = (record: FoundingRecord) => json({ record: foundingView(record) });

/** Clears all machines of a cluster. Body: `{confirm}`. */
export const resetCluster: H = async (request, { founding }) => {
  await confirmed(request, 'reset', []);
  return shown(await founding.reset(request.params.name ?? ''));
};

/**
 * Restores etcd after its quorum was lost: from the data of `member`, or from the snapshot `backup`
 * on `member` or the first member that can. Body: `{confirm, member?, backup?, without?}`;
 * `without` names abandoned members, separated by commas.
 */
export const restoreCluster: H = async (request, { founding, snapshots, pki }) => {
  const name = request.params.name ?? '';
  const given = await confirmed(request, 'restore', ['member', 'backup', 'without']);
  const without = namesOf(given.without);
  if (given.backup === undefined || given.backup === '')
    return shown(await founding.restore(name, memberOf(given), without));
  const snapshot = await snapshots.get(name, given.backup);
  await snapshots.verify(snapshot);
  const encryption = await pki.encryption(name);
  const keys = encryption ? [...encryption.trusted, ...encryption.distrusted].map(({ id }) => id) : [];
  const member = given.member === '' ? undefined : given.member;
  const record = await founding.restoreSnapshot(name, { snapshot, member, without, keys });
  const readers = await trustKeysOf(pki, snapshot);
  return json({ record: foundingView(record), readers });
};

/**
 * Takes over the keys of a cluster that kubeadm made, and records that it is founded. Body:
 * `{confirm, ca, etcd-ca, front-proxy-ca, sa}`; each is a text with `{"key", "certificate"}`, PEM.
 */
export const adoptKubeadm: H = async (request, { founding, pki }) => {
  const name = request.params.name ?? '';
  const given = await confirmed(request, 'take over', ADOPTED);
  const pairs = ADOPTED.map((keyset) => [keyset, pairOf(keyset, given[keyset])]);
  const keys = Object.fromEntries(pairs) as AdoptedKeys;
  return shown(await founding.adoptForeign(name, (write) => pki.adopt(name, keys, [write])));
};

const pairShape = z.strictObject({ key: z.string(), certificate: z.string().optional() });

function pairOf(keyset: string, text: string | undefined): AdoptedKeys['ca'] {
  const read = pairShape.safeParse(parsed(text ?? ''));
  if (!read.success) throw new MusterError('E_USAGE', `${keyset} is not {"key", "certificate"} as a text`);
  const { key, certificate } = read.data;
  return { key, ...(certificate !== undefined && { certificate }) };
}

/** Accepts the present disk of a member of etcd as its own. Body: `{confirm, member}`. */
export const adoptMember: H = async (request, { founding }) => {
  const member = memberOf(await confirmed(request, 'accept the present disk of a member of', ['member']));
  return shown(await founding.adopt(request.params.name ?? '', member));
};

/** Cancels the replacement of a member, or a restore from its data. Body: `{member}`. */
export const callOff: H = async (request, { founding }) => {
  const member = memberOf(await fieldsOf(request, ['member']));
  return shown(await founding.callOff(request.params.name ?? '', member));
};
