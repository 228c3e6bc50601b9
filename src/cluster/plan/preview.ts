/** The plan of a machine as text, for `muster cluster plan`. */
import type { PlanLine } from '../../agent/wire/plan.ts';
import { addressOf, type ClusterMachine, type ResolvedCluster, withRole } from '../model/resolved-cluster.ts';
import type { RenderedAddon } from '../objects/addons/addon.ts';
import { bundleOf } from '../objects/bundle.ts';
import { previewLogins } from './logins.ts';
import { planLines } from './machine-plan.ts';
import { objectsPart } from './objects-unit.ts';

/**
 * The lines of a machine of a founded cluster, without certificates and keys. etcd is shown as it
 * starts after the founding.
 */
export function previewLines(
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  addons: readonly RenderedAddon[] = [],
): readonly PlanLine[] {
  const members = withRole(resolved, 'etcd').map((one) => ({ name: one.name, address: addressOf(one) }));
  const founding = { state: 'existing', token: '[of the founding]', members } as const;
  return planLines({
    resolved,
    machine,
    data: [],
    etcd: machine.roles.includes('etcd') ? { lines: [], founding } : undefined,
    pki: [],
    logins: previewLogins(resolved),
    objects: machine.roles.includes('control-plane')
      ? objectsPart(machine, bundleOf(resolved, '[CA of the cluster]'), addons)
      : undefined,
  });
}

/** These lines in order, each followed by its content. */
export const previewText = (...of: Parameters<typeof previewLines>): string =>
  previewLines(...of)
    .map((line) => `${shownLine(line)}\n`)
    .join('');

/** A line as words, with the text of its file indented below it unless that is secret. */
function shownLine(line: PlanLine): string {
  const words = Object.entries(line).flatMap(([key, value]) => {
    if (key === 'content' || key === 'digest') return [];
    return [key === 'mode' ? `0${(value as number).toString(8)}` : [value].flat().join(' ')];
  });
  const head = words.filter((word) => word !== '').join(' ');
  if ((line.do !== 'put' && line.do !== 'put-with-key') || !('text' in line.content) || line.content.secret)
    return head;
  const text = line.content.text.trimEnd().split('\n');
  return [head, ...text.map((one) => (one === '' ? '' : `    ${one}`))].join('\n');
}
