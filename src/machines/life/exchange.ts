/**
 * Exchanges the hardware of two machines with documents: that of a spare becomes a lost machine's,
 * whose own is kept under the spare's name, taken out, until somebody has looked at it.
 */
import type { Clock } from '../../base/clock.ts';
import { MusterError } from '../../base/errors.ts';
import type { Mac } from '../../base/mac.ts';
import type { EventSink } from '../../events/event.ts';
import type { LiveCatalog } from '../../resources/catalog.ts';
import type { MachineSpec } from '../../resources/kinds.ts';
import type { Inventories } from '../inventories.ts';
import { memberNamed } from '../member.ts';
import type { Roster } from '../roster.ts';

export interface ExchangeDeps {
  readonly catalog: Pick<LiveCatalog, 'apply'>;
  readonly roster: Roster;
  readonly events: EventSink;
  readonly inventories: Pick<Inventories, 'unsettle'>;
  /** Ends a machine's certificate, and forgets its TPM: its next key gets another one. */
  readonly endCertificate: (machine: string) => Promise<unknown>;
  /** Ends the lease of a hardware address, so that the address goes to who has its name now. */
  readonly endLease: (mac: Mac) => Promise<void>;
  /** Exchanges what is known of the BMCs of two machines. */
  readonly exchangeBmcs: (one: string, other: string) => Promise<void>;
  readonly clock: Pick<Clock, 'now'>;
}

/** What belongs to the hardware and not to the name. */
const OF_HARDWARE = ['macs', 'uuid', 'serial', 'bmc', 'tpm', 'pxe'] as const;
/** Disks of the document that are the hardware's where the spare names its own. */
const DISKS = ['dataDisk', 'etcdDisk', 'bootDisk', 'installDisk'] as const;

type Disk = { readonly serial?: string | undefined; readonly wwn?: string | undefined };

/** Why a spare cannot get the name of a lost machine; undefined when it can. Pure. */
export function whyNotExchanged(lost: MachineSpec, spare: MachineSpec): string | undefined {
  for (const field of DISKS) {
    const disk = lost[field] as Disk | undefined;
    if ((disk?.serial ?? disk?.wwn) !== undefined && spare[field] === undefined)
      return `the document of the lost machine names ${field} by its number, and that of the spare names none`;
  }
  return undefined;
}

/** The two documents after the exchange. Pure. */
export function exchanged(
  lost: MachineSpec,
  spare: MachineSpec,
): { readonly lost: MachineSpec; readonly spare: MachineSpec } {
  const with_ = (
    own: MachineSpec,
    from: MachineSpec,
    fields: readonly (keyof MachineSpec)[],
  ): MachineSpec => {
    const entries = Object.entries(own).filter(([name]) => !fields.includes(name as keyof MachineSpec));
    const taken = fields.flatMap((name) => (from[name] === undefined ? [] : [[name, from[name]] as const]));
    return Object.fromEntries([...entries, ...taken]) as MachineSpec;
  };
  const disks = DISKS.filter((field) => spare[field] !== undefined);
  return {
    lost: with_(lost, spare, [...OF_HARDWARE, ...disks]),
    spare: with_(spare, lost, OF_HARDWARE),
  };
}

/**
 * Exchanges the hardware. The lost machine has to be off. The certificates of both end first, so
 * that whatever happens next, the lost hardware has none. May be repeated after it was interrupted.
 *
 * @param macs The hardware addresses of the spare: a document of the lost machine that has them was
 *   exchanged already.
 * @throws {MusterError} E_CONFLICT when one of them has no document; what applying documents throws
 */
export async function exchangeHardware(
  deps: ExchangeDeps,
  name: string,
  {
    spare: spareName,
    macs,
    by,
  }: { readonly spare: string; readonly macs: readonly string[]; readonly by: string },
): Promise<void> {
  const { catalog, roster, events, clock } = deps;
  const [lost, spare] = [memberNamed(roster, name), memberNamed(roster, spareName)];
  for (const member of [lost, spare])
    if (member.entry === undefined)
      throw new MusterError('E_CONFLICT', `${member.name} has no document any more`);
  for (const machine of [name, spareName]) {
    await deps.endCertificate(machine);
    roster.heartbeats.forget(machine);
  }
  const [own, its] = [lost.entry!.document, spare.entry!.document];
  const old = own.spec.macs.join(' ');
  const isDone = macs.some((mac) => own.spec.macs.includes(mac));
  if (!isDone) {
    const specs = exchanged(own.spec, its.spec);
    await catalog.apply([
      { ...own, spec: specs.lost },
      { ...its, spec: specs.spare },
    ]);
  }
  for (const mac of [...lost.entry!.document.spec.macs, ...spare.entry!.document.spec.macs])
    await deps.endLease(mac as Mac);
  roster.exchange(lost, spare);
  const clean = { bootsWithoutReady: 0, logTail: undefined, agent: undefined, install: undefined };
  roster.move(lost, 'accepted', clean);
  const text = `It is what ${name} was until it was lost. Repair it, and \`muster machine bring-back ${spareName}\` makes it a spare again.`;
  roster.move(spare, 'accepted', { ...clean, life: { at: clock.now(), state: 'taken-out', text, by } });
  await roster.commit([lost, spare], []);
  for (const machine of [name, spareName]) await deps.inventories.unsettle(machine);
  await deps.exchangeBmcs(name, spareName);
  if (!isDone)
    events.record({
      kind: 'machine.replaced',
      subject: name,
      fields: { by: spareName, old, macs: macs.join(' '), disks: 'new' },
    });
}
