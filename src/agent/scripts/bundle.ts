/**
 * The agent of this version of Muster as machines fetch it: a tar of the scripts, whose SHA-256 is
 * the agent's name on the machine, in facts and in the header that asks for it. Pure.
 */
import { createHash } from 'node:crypto';
import { tar } from '../../artifacts/tar.ts';
import { AGENT_SCRIPTS, BOOT_SCRIPT } from './scripts.files.ts';

export interface AgentBundle {
  /** SHA-256 of the tar, hex. */
  readonly digest: string;
  readonly tar: Uint8Array;
}

/** Packs scripts, by file name. */
export function bundleOf(scripts: Readonly<Record<string, string>>): AgentBundle {
  const entries = Object.entries(scripts).map(([name, text]) => ({ name, content: Buffer.from(text) }));
  const packed = tar(entries);
  return { digest: createHash('sha256').update(packed).digest('hex'), tar: packed };
}

/**
 * The agent of this server. The script for boot disks is always in it, so that all machines of a
 * version have the same bundle.
 */
export const AGENT_BUNDLE: AgentBundle = bundleOf({ ...AGENT_SCRIPTS, 'muster-boot.sh': BOOT_SCRIPT });

/** The first characters of a digest, for people. */
export const shortBuild = (digest: string): string => digest.slice(0, 8);
