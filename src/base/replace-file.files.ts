/**
 * Writes files that others may read meanwhile: a reader finds the whole old content or the whole
 * new one. Two levels differ in what a power cut leaves.
 */
import fs from 'node:fs';
import { open, rename } from 'node:fs/promises';
import path from 'node:path';

/**
 * Replaces a file without waiting for the disk: a power cut may leave it old or empty. For what its
 * owner makes again: cached certificates, contexts of log-ins, results of a run.
 */
export function replaceFile(file: string, content: string): void {
  const begun = `${file}.${process.pid}`;
  fs.writeFileSync(begun, content, { mode: 0o600 });
  fs.renameSync(begun, file);
}

/**
 * Replaces a file; it is on the disk when the promise resolves. For what others rely on from then:
 * the description of a snapshot makes it count.
 */
export async function replaceDurably(file: string, content: string): Promise<void> {
  const begun = `${file}.new`;
  const handle = await open(begun, 'w', 0o600);
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await moveDurably(begun, file);
}

/** Gives a file that is whole and synced its name; both are on the disk when it resolves. */
export async function moveDurably(begun: string, file: string): Promise<void> {
  await rename(begun, file);
  await syncDirectory(path.dirname(file));
}

/** Syncs a directory: a new or removed name survives a power cut only then. */
export async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** {@link syncDirectory} for commands, and before the server starts. */
export function syncDirectorySync(directory: string): void {
  const handle = fs.openSync(directory, 'r');
  try {
    fs.fsyncSync(handle);
  } finally {
    fs.closeSync(handle);
  }
}
