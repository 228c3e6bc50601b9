/** A member as a record in the store, and as the API shows it. */
import { KEYS } from '../store/keys.ts';
import type { Write } from '../store/store.ts';
import type { KnownMachine, MachineStatus } from './machine.ts';
import type { Member } from './member.ts';

/** The write of a member's record. */
export function statusWrite(member: Member): Write {
  return { key: KEYS.machine.key(member.name), put: JSON.stringify(withLastSeen(member)) };
}

function withLastSeen(member: Member): MachineStatus {
  return member.lastSeen === undefined ? member.status : { ...member.status, lastSeen: member.lastSeen };
}

/** A member as lists and the API show it. */
export function viewOf(member: Member): KnownMachine {
  const document = member.entry?.document;
  return {
    name: member.name,
    ...(document ? { spec: document.spec } : {}),
    ...(document?.metadata.labels ? { labels: document.metadata.labels } : {}),
    status: withLastSeen(member),
  };
}

/** Drops the fields that a change set to undefined. */
export function prune(status: { [K in keyof MachineStatus]: MachineStatus[K] | undefined }): MachineStatus {
  const pruned: Record<string, unknown> = {};
  for (const name in status) {
    const value = status[name as keyof MachineStatus];
    if (value !== undefined) pruned[name] = value;
  }
  return pruned as unknown as MachineStatus;
}
