/**
 * The agents' API for snapshots of etcd: a machine that its plan orders to take one sends it in
 * parts, and a machine that restores one gets it.
 */
import { MusterError } from '../../base/errors.ts';
import { printable } from '../../machines/identity.ts';
import { readForm } from '../wire/form.ts';
import type { AgentApiAnswer, AgentSnapshots } from '../wire/protocol.ts';

/** Longer versions of etcd are cut. */
const MAX_VERSION = 64;

/** The handlers. `C`: the client's certificate. */
export interface SnapshotApi<C> {
  /**
   * Takes a part of a snapshot of etcd. The body is read only if the machine was ordered to send
   * it.
   *
   * @throws {MusterError} E_AGENT_CERTIFICATE when the certificate is not accepted, E_USAGE when
   *   the query is malformed, and what {@link AgentSnapshots.take} throws.
   */
  snapshotPart(
    query: URLSearchParams,
    body: AsyncIterable<Uint8Array>,
    certificate: C,
    address: string,
  ): Promise<AgentApiAnswer>;
  /** Ends a snapshot. Throws as {@link AgentApi.snapshotPart}. */
  snapshotEnd(body: string, certificate: C, address: string): Promise<AgentApiAnswer>;
  /** Answers with a snapshot. Throws as {@link AgentApi.snapshotPart}. */
  snapshotGet(body: string, certificate: C, address: string): Promise<AgentApiAnswer>;
}

/**
 * Makes the handlers. `machineOf` authenticates a certificate.
 *
 * @throws {MusterError} nothing itself; {@link SnapshotApi} documents what the handlers throw
 */
export function createSnapshotApi<C>(
  snapshots: AgentSnapshots,
  machineOf: (certificate: C, peer: string) => string,
): SnapshotApi<C> {
  const number = (given: URLSearchParams | ReadonlyMap<string, string>, name: string): number => {
    const text = given.get(name) ?? '';
    if (!/^[0-9]{1,15}$/.test(text)) throw new MusterError('E_USAGE', `${name} is not a number of octets`);
    return Number(text);
  };
  return {
    async snapshotPart(query, body, certificate, peer) {
      const machine = machineOf(certificate, peer);
      const part = { offset: number(query, 'offset'), expected: number(query, 'expected') };
      await snapshots.take(machine, { id: query.get('id') ?? '', ...part }, body);
      return { status: 200, headers: {} };
    },
    async snapshotEnd(body, certificate, peer) {
      const machine = machineOf(certificate, peer);
      const form = readForm(body);
      const [id = '', status = ''] = ['id', 'status'].map((name) => form.get(name));
      const etcd = printable(form.get('etcd') ?? '', MAX_VERSION);
      await snapshots.end(machine, { id, status, etcd, size: number(form, 'size') });
      return { status: 204, headers: {} };
    },
    async snapshotGet(body, certificate, peer) {
      const machine = machineOf(certificate, peer);
      const given = await snapshots.give(machine, readForm(body).get('id') ?? '');
      return { status: 200, contentType: 'application/octet-stream', body: given, headers: {} };
    },
  };
}
