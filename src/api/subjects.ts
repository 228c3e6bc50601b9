/** Under which subjects events of a machine or a document are recorded. Pure. */
import { parseMac } from '../base/mac.ts';
import type { Roster } from '../machines/roster.ts';
import { type Kind, PLURAL } from '../resources/kinds.ts';

export const KIND_NAMES = Object.keys(PLURAL) as Kind[];

/**
 * All subjects under which events of `text` may be recorded. For a machine (by name or by any
 * spelling of an address) these are its names, its addresses (events from before it was
 * recognised), the name that it had before it was accepted, and its document (`Machine/NAME`), also
 * after that was deleted.
 */
export function subjectsOf(text: string, roster: Pick<Roster, 'get' | 'byMac'>): ReadonlySet<string> {
  const mac = parseMac(text);
  const member = roster.get(text) ?? (mac && roster.byMac(mac));
  const macs = [
    ...(mac ? [mac] : []),
    ...(member?.entry?.document.spec.macs ?? []),
    ...(member?.status.seen.macs ?? []),
  ];
  const recorded = macs.map((one) => `m-${one.replaceAll(':', '')}`);
  const names = [...(mac || text.includes('/') ? [] : [text]), ...(member ? [member.name] : []), ...recorded];
  const documents = names.map((name) => `Machine/${name}`);
  const others = mac || text.includes('/') ? [] : KIND_NAMES.map((kind) => `${kind}/${text}`);
  // Machine/NAME is the same machine as NAME
  const machine = text.startsWith('Machine/')
    ? [...subjectsOf(text.slice('Machine/'.length), roster)].filter(
        (one) => !one.includes('/') || one.startsWith('Machine/'),
      )
    : [];
  return new Set([mac ?? text, ...names, ...macs, ...documents, ...others, ...machine]);
}
