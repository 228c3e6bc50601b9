/**
 * Accepting a machine: the operator allows it to boot, and what was seen of it becomes its
 * document. A machine can claim what it likes, so of its addresses only the one that it booted from
 * is taken, and others that the operator names.
 */
import { MusterError } from '../base/errors.ts';
import type { Mac } from '../base/mac.ts';
import type { EventSink } from '../events/event.ts';
import type { LiveCatalog } from '../resources/catalog.ts';
import { API_VERSION, type Document, type MachineSpec } from '../resources/kinds.ts';
import { MAX_TEXT, plainText, serialKey, uuidKey } from './identity.ts';
import type { Inventories } from './inventories.ts';
import type { KnownMachine } from './machine.ts';
import { memberNamed } from './member.ts';
import { isUsableMac } from './placeholders.ts';
import type { Member, Roster } from './roster.ts';

export interface AcceptOptions {
  readonly profile?: string;
  /** The document's name; default: the name under which the machine was recorded. */
  readonly name?: string;
  readonly cluster?: string;
  /** Addresses that it claimed besides the one that it booted from, and that are its own. */
  readonly macs?: readonly Mac[];
}

interface AcceptDeps {
  readonly catalog: Pick<LiveCatalog, 'get' | 'list' | 'apply'>;
  readonly roster: Roster;
  readonly events: EventSink;
  readonly inventories: Pick<Inventories, 'unsettle'>;
}

/**
 * Accepts a machine by the name that it has in the roster. A machine that was only seen gets a
 * document, owned by the API. A machine with a document may boot again (its count of boots without
 * a ready report is reset), with another profile if one is named; a Profile may select it by the
 * last inventory that it reported.
 *
 * @throws {MusterError} E_NOT_FOUND when the roster has no such machine; E_CONFLICT when the wanted
 *   name is taken, or when a machine with a document should get another name; and what applying a
 *   document throws (E_FILE_OWNED, E_REFERENCE …). Nothing has changed then.
 */
export async function acceptMachine(
  deps: AcceptDeps,
  name: string,
  options: AcceptOptions = {},
): Promise<KnownMachine> {
  const { roster, catalog } = deps;
  const member = memberNamed(roster, name);
  if (member.entry === undefined) return acceptDiscovered(deps, member, options);
  if (options.name !== undefined && options.name !== name)
    throw new MusterError(
      'E_CONFLICT',
      `machine "${name}" has a document; its name is its identity and stays`,
    );
  const { document } = member.entry;
  const spec = {
    ...document.spec,
    ...(options.profile === undefined ? {} : { profile: options.profile }),
    ...(options.cluster === undefined ? {} : { cluster: options.cluster }),
    macs: [...new Set([...document.spec.macs, ...claimedOf(member, options)])],
  };
  if (
    spec.profile !== document.spec.profile ||
    spec.cluster !== document.spec.cluster ||
    spec.macs.length > document.spec.macs.length
  )
    await catalog.apply([{ ...document, spec }]);
  roster.move(member, 'accepted', { bootsWithoutReady: 0, logTail: undefined, trial: undefined });
  await roster.commit([member], []);
  await deps.inventories.unsettle(name);
  deps.events.record({
    kind: 'machine.accepted',
    subject: name,
    fields: { again: true, ...(spec.profile ? { profile: spec.profile } : {}) },
  });
  return roster.view(member);
}

async function acceptDiscovered(
  { catalog, roster }: AcceptDeps,
  member: Member,
  options: AcceptOptions,
): Promise<KnownMachine> {
  const name = options.name ?? member.name;
  if (name !== member.name && (roster.get(name) ?? catalog.get('Machine', name)))
    throw new MusterError('E_CONFLICT', `there is a machine "${name}" already; choose another --name`);
  const document = documentOf(member, { ...options, name }, catalog);
  // The roster follows the catalogue: it joins the document with what was seen.
  await catalog.apply([document], { expectRevision: 'absent' });
  const accepted = roster.get(name);
  if (accepted === undefined)
    throw new MusterError('E_INTERNAL', `machine "${name}" was applied and is not there`);
  await roster.commit([accepted], []);
  return roster.view(accepted);
}

/**
 * The addresses that the operator names.
 *
 * @throws {MusterError} E_USAGE for one that the machine never claimed.
 */
export function claimedOf(
  { name, status }: Pick<Member, 'name' | 'status'>,
  { macs = [] }: Pick<AcceptOptions, 'macs'>,
): Mac[] {
  const foreign = macs.find((mac) => !status.seen.macs.includes(mac));
  if (foreign !== undefined)
    throw new MusterError(
      'E_USAGE',
      `"${name}" never claimed ${foreign}; it claimed ${status.seen.macs.join(', ') || 'no address'}`,
    );
  return [...macs];
}

/**
 * Makes the document of a machine that was seen: the address that it booted from, those that the
 * operator names, and its UUID and serial unless they are placeholders or another document has both
 * (blades that share them are recognised by their addresses).
 *
 * @throws {MusterError} E_USAGE when no address is left, or for one that it never claimed.
 */
function documentOf(
  member: Pick<Member, 'name' | 'status'>,
  options: AcceptOptions & { readonly name: string },
  catalog: Pick<LiveCatalog, 'list'>,
): Document<'Machine'> {
  const { seen } = member.status;
  const others = catalog.list('Machine').map(({ document }) => document.spec);
  const taken = new Set(others.flatMap((spec) => spec.macs));
  const macs = [...new Set([...bootedFrom(member), ...claimedOf(member, options)])].filter(
    (mac) => !taken.has(mac),
  );
  if (macs.length === 0)
    throw new MusterError(
      'E_USAGE',
      `"${member.name}" booted from no address that is free: it is in another Machine document; add the machine there, correct that, or name another address with --mac`,
    );
  const { uuid, serial } = ownHardware(seen, others);
  const spec: MachineSpec = {
    macs,
    ...(uuid === undefined ? {} : { uuid }),
    ...(serial === undefined ? {} : { serial }),
    ...(options.profile === undefined ? {} : { profile: options.profile }),
    ...(options.cluster === undefined ? {} : { cluster: options.cluster }),
  };
  return { apiVersion: API_VERSION, kind: 'Machine', metadata: { name: options.name }, spec };
}

/**
 * The address that it booted from, if it can identify a machine; of several the one by which it is
 * named.
 */
export function bootedFrom({ name, status }: Pick<Member, 'name' | 'status'>): readonly Mac[] {
  const booted = (status.seen.bootMacs ?? []).filter(isUsableMac);
  const named = booted.find((mac) => name === `m-${mac.replaceAll(':', '')}`);
  return [named ?? booted[0]].filter((mac) => mac !== undefined);
}

/** UUID and serial number of a machine, unless another document has both. */
export function ownHardware(
  seen: { readonly uuid?: string; readonly serial?: string },
  others: readonly MachineSpec[],
): { readonly uuid: string | undefined; readonly serial: string | undefined } {
  const uuid = uuidKey(seen.uuid);
  const serial = serialKey(seen.serial);
  const shared = others.some(
    (spec) => uuid !== undefined && uuidKey(spec.uuid) === uuid && serialKey(spec.serial) === serial,
  );
  if (shared) return { uuid: undefined, serial: undefined };
  return {
    uuid: uuid === undefined ? undefined : seen.uuid,
    serial: serial === undefined || seen.serial === undefined ? undefined : plainText(seen.serial, MAX_TEXT),
  };
}
