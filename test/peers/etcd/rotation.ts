/** What tests of rotations read of a rack. */
import type { ChangeView } from '../../../src/api/operations/changes.ts';
import { callApi } from './api.ts';
import type { Machine, Rack } from './rack.ts';

/** The rotation of the rack's cluster that is under way, or the last one. */
export async function rotationOf(rack: Rack): Promise<ChangeView> {
  const { text } = await callApi(rack.host.socket, 'GET', '/v1/clusters/one/change');
  return JSON.parse(text) as ChangeView;
}

/** How often this machine's etcd has started, by its log. */
export const starts = (machine: Machine): number =>
  (machine.read('/run/muster-etcd.service.log') ?? '').match(/"msg":"starting an etcd server"/g)?.length ?? 0;

/** The CA certificates that this member of etcd trusts. */
export const caOf = (machine: Machine): string =>
  machine.read('/etc/kubernetes/pki/etcd/ca-bundle.crt') ?? '';
