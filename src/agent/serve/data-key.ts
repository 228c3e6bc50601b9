/**
 * Gives an agent the key of its machine's encrypted data filesystem (`encrypt: boot-host`). The
 * agent's key may be on the same disk, so whoever has the disk can ask, too: only the machine's own
 * addresses get an answer, and each answer is in the security log.
 */
import { MusterError } from '../../base/errors.ts';
import type { Secret } from '../../base/secret.ts';
import type { EventSink, Reason } from '../../events/event.ts';
import { type DataKeys, FILESYSTEM_ID } from '../../pki/data-keys.ts';

interface DataKeyDeps {
  readonly pki: { readonly dataKeys: Pick<DataKeys, 'get' | 'getOrMake'> };
  /** Whether the machine itself is at the address. */
  readonly isAt: (machine: string, address: string) => boolean;
  /** Whether the documents want a disk of the machine encrypted with a key of the boot host. */
  readonly keepsDataKey: (machine: string) => boolean;
  readonly events: EventSink;
}

interface DataKeyRequest {
  readonly machine: string;
  /** Source address of the connection. */
  readonly address: string;
  readonly form: { get(name: string): string | undefined };
}

/** Why a key is not given. */
const DATA_KEY_REFUSALS = {
  foreign_address:
    "The request came from an address that is not this machine's, or from hardware that is not. If it is, list the address under the machine's spec.addresses, the hardware address under spec.macs.",
  not_asked_for:
    'No document asks for `encrypt: boot-host` for a disk of this machine, so no key is made for it.',
  no_key:
    'This boot host has no key for this filesystem of this machine: the disk was made elsewhere, or belongs to another machine. A copy of the store has it, or the disk has to be made again.',
} as const satisfies Record<string, string>;

/**
 * Resolves to the key of a filesystem, as the text that cryptsetup reads. `make=yes` in the form
 * makes one that does not exist.
 *
 * @throws {MusterError} E_USAGE when the form names no filesystem; E_DATA_KEY when the key is not
 *   given, with the reason; and what the vault and the store throw
 */
export async function dataKey(
  { pki: { dataKeys }, isAt, keepsDataKey, events }: DataKeyDeps,
  { machine, address, form }: DataKeyRequest,
): Promise<Secret> {
  const filesystem = form.get('filesystem') ?? '';
  if (!FILESYSTEM_ID.test(filesystem)) throw new MusterError('E_USAGE', 'the form names no filesystem');
  const fields = { address, filesystem };
  const refuse = (code: keyof typeof DATA_KEY_REFUSALS): never => {
    const reason: Reason = { code, text: DATA_KEY_REFUSALS[code] };
    events.record({ kind: 'agent.refused', subject: machine, reason, fields });
    throw new MusterError('E_DATA_KEY', reason.text);
  };
  if (!isAt(machine, address)) return refuse('foreign_address');
  const make = form.get('make') === 'yes';
  if (make && !keepsDataKey(machine)) return refuse('not_asked_for');
  const key = await (make ? dataKeys.getOrMake(machine, filesystem) : dataKeys.get(machine, filesystem));
  if (key === undefined) return refuse('no_key');
  events.record({ kind: 'agent.data-key', subject: machine, fields });
  return key;
}
