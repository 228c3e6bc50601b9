/** Which scripts a loader gets: iPXE's or GRUB's. */
import type { ScriptRequest } from '../boot.ts';
import { grubBootScript, grubDiskScript, grubHoldScript } from './grub.ts';
import { bootScript, diskScript, holdScript } from './script.ts';

const IPXE = { boot: bootScript, hold: holdScript, disk: diskScript } as const;
const GRUB: typeof IPXE = { boot: grubBootScript, hold: grubHoldScript, disk: grubDiskScript };

/** The writers of scripts for the loader that asks. */
export const writerFor = (loader: ScriptRequest['loader']): typeof IPXE => (loader === 'grub' ? GRUB : IPXE);
