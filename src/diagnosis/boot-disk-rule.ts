/** The verdict about a boot disk whose root image changed. */
import { type ObservedBoot, type Shown, shown, withReason } from './observe.ts';

export const BOOT_DISK_DAMAGED = {
  code: 'boot-disk-damaged',
  title: 'The root image on the boot disk is damaged',
  certainty: 'certain',
  about:
    'At this boot the root image on the boot disk did not have its SHA-256, and was fetched from this host again. A block that changes while a machine reads it restarts the machine, and its next boot says this.',
  remedy:
    'Nothing, if it happens once. Else replace the disk; `muster machine test NAME` reads all of it, and asks it for its health.',
  find: (boot: ObservedBoot): readonly Shown[] =>
    shown(withReason(boot, ['agent.boot-disk'], ['damaged']).slice(-1)),
} as const;
