/**
 * Replaces the hardware of a machine: a board or a whole machine that was seen takes the place of
 * one that has a document. The name stays, with addresses, profile, cluster and configuration.
 */
import { MusterError } from '../../base/errors.ts';
import type { Mac } from '../../base/mac.ts';
import type { EventSink } from '../../events/event.ts';
import type { LiveCatalog } from '../../resources/catalog.ts';
import { bootedFrom, claimedOf, ownHardware } from '../accept.ts';
import type { Inventories } from '../inventories.ts';
import type { KnownMachine } from '../machine.ts';
import { memberNamed } from '../member.ts';
import type { Roster } from '../roster.ts';
import { afterOrder, lifeOf } from './orders.ts';

interface ReplaceDeps {
  readonly catalog: Pick<LiveCatalog, 'list' | 'apply'>;
  readonly roster: Roster;
  readonly events: EventSink;
  readonly inventories: Pick<Inventories, 'unsettle'>;
  /** Whether a TPM is known for a machine. */
  readonly hasTpm: (machine: string) => boolean;
  /** Ends its certificate, and forgets its TPM: the next key gets a new one. */
  readonly endCertificate: (machine: string) => Promise<unknown>;
  /** Ends the leases of a hardware address. */
  readonly endLease: (mac: Mac) => Promise<void>;
}

export interface Replacement {
  /** The machine that was seen and has no document. */
  readonly by: string;
  /** Addresses that it claimed besides the one that it booted from. */
  readonly macs: readonly Mac[];
  /** The disks of the old machine are in the new one. */
  readonly keepsDisks: boolean;
}

/**
 * Gives a machine's document the hardware of another one.
 *
 * - The hardware addresses, UUID and serial number become those of the new machine.
 * - With its old disks, the machine keeps its certificate, whose key is there, and an installed
 *   system. Without, both end: the old machine may still have them.
 * - A TPM that is known ends the certificate in both cases, because the new board has another.
 *
 * @throws {MusterError} E_NOT_FOUND; E_LIFE when the old machine runs or its state does not allow
 *   it; E_CONFLICT when it has no document, or the new one has; E_USAGE for an address that the new
 *   one never claimed, or a TPM that the document names; and what applying a document throws
 *   (E_FILE_OWNED …). Nothing has changed then.
 */
export async function replaceMachine(
  { catalog, roster, events, inventories, hasTpm, endCertificate, endLease }: ReplaceDeps,
  name: string,
  { by, macs, keepsDisks }: Replacement,
): Promise<KnownMachine> {
  const member = memberNamed(roster, name);
  const next = memberNamed(roster, by);
  afterOrder(name, lifeOf(member), 'replace');
  if (member.entry === undefined)
    throw new MusterError('E_CONFLICT', `${name} has no document; accept ${by} instead`);
  if (next.entry !== undefined)
    throw new MusterError(
      'E_CONFLICT',
      `${by} has a document of its own; delete that first (\`muster delete machine ${by}\`), and boot the machine`,
    );
  if (member.status.quarantine !== undefined)
    throw new MusterError('E_LIFE', `${name} is in quarantine; \`muster machine release ${name}\` first`);
  if (roster.heartbeats.alive(name) !== undefined)
    throw new MusterError('E_LIFE', `${name} runs: its agent was heard moments ago; switch it off first`);
  const { document } = member.entry;
  if (document.spec.tpm?.endorsementKey !== undefined)
    throw new MusterError(
      'E_USAGE',
      `the document of ${name} names a TPM; take spec.tpm.endorsementKey out, or write that of the new board`,
    );
  const others = catalog
    .list('Machine')
    .filter((one) => one.document.metadata.name !== name)
    .map((one) => one.document.spec);
  const { uuid: _, serial: __, ...spec } = document.spec;
  const hardware = [...new Set([...bootedFrom(next), ...claimedOf(next, { macs })])];
  if (hardware.length === 0)
    throw new MusterError('E_USAGE', `${by} booted from no address; boot it, or name one with --mac`);
  const { uuid, serial } = ownHardware(next.status.seen, others);
  const old = document.spec.macs.join(' ');
  // The roster joins the document with what was seen of the new machine.
  await catalog.apply([
    {
      ...document,
      spec: {
        ...spec,
        macs: hardware,
        ...(uuid !== undefined && { uuid }),
        ...(serial !== undefined && { serial }),
      },
    },
  ]);
  if (!keepsDisks || hasTpm(name)) await endCertificate(name);
  roster.move(member, 'accepted', { bootsWithoutReady: 0, logTail: undefined });
  if (!keepsDisks) roster.change(member, { install: undefined });
  await roster.commit([member], []);
  // The old hardware has the machine's address until its lease ends, the new one another address.
  for (const mac of new Set([...document.spec.macs, ...hardware])) await endLease(mac as Mac);
  await inventories.unsettle(name);
  events.record({
    kind: 'machine.replaced',
    subject: name,
    fields: { by, old, macs: hardware.join(' '), disks: keepsDisks ? 'kept' : 'new' },
  });
  return roster.view(member);
}
