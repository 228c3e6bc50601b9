/**
 * What a person at the host may order of the signer, through a socket that root alone may open: the
 * server's user cannot, so a server that was taken over cannot either.
 */
import { z } from 'zod';
import { MusterError } from '../../base/errors.ts';
import type { EventSink } from '../../events/event.ts';
import type { Approved, Inventory } from './inventory.files.ts';
import type { Service } from './service.ts';
import { PROOFS, type Proof } from './site.ts';

const names = z.array(z.string().min(1).max(253)).min(1).max(10_000);

/** What `muster signer status` shows. */
export interface SignerStatus {
  /** The ids of the vault's keys, the one that seals first. */
  readonly keys: readonly string[];
  /** The public key that signs backups and the signer's log, PEM, and its id. */
  readonly signs: { readonly id: string; readonly pem: string };
  readonly machines: readonly Approved[];
  readonly log: { readonly entries: number; readonly failing: boolean };
}

interface OrderDeps {
  readonly inventory: Inventory;
  readonly events: EventSink;
  readonly status: () => SignerStatus;
}

/**
 * Answers the orders.
 *
 * @throws {MusterError} the service: E_SIGNER for what it does not understand
 */
export function openOrders({ inventory, events, status }: OrderDeps): Service {
  const orders: Readonly<Record<string, (body: unknown) => unknown>> = {
    status,
    approve(body) {
      const { machines, cluster, roles } = z
        .strictObject({
          machines: names,
          cluster: z.string().min(1).max(63),
          roles: z.array(z.enum(['control-plane', 'etcd', 'worker'])).min(1),
        })
        .parse(body);
      inventory.approve(machines.map((machine) => ({ machine, cluster, roles })));
      for (const machine of machines)
        events.record({
          kind: 'signer.approved',
          subject: machine,
          fields: { cluster, roles: roles.join(' ') },
        });
      return { machines: machines.length };
    },
    withdraw(body) {
      const { machines } = z.strictObject({ machines: names }).parse(body);
      inventory.withdraw(machines);
      for (const machine of machines) events.record({ kind: 'signer.withdrawn', subject: machine });
      return { machines: machines.length };
    },
    allow(body) {
      const all = Object.keys(PROOFS) as [Proof, ...Proof[]];
      const { what } = z.strictObject({ what: z.enum(all) }).parse(body);
      inventory.allow(what);
      events.record({ kind: 'signer.allowed', subject: what });
      return { what };
    },
  };
  return async (kind, body) => {
    const order = Object.hasOwn(orders, kind) ? orders[kind] : undefined;
    if (order === undefined) throw new MusterError('E_SIGNER', `the signer knows no order "${kind}"`);
    try {
      return order(body);
    } catch (cause) {
      if (!(cause instanceof z.ZodError)) throw cause;
      throw new MusterError('E_SIGNER', `the order "${kind}" is not understood`, { cause });
    }
  };
}
