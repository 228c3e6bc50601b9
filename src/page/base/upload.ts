/** Files of this browser's computer, sent to the boot host in pieces, which checks their hashes. */
import { sha256 as sha2 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import { request } from './http.ts';

/** As `muster image add`: after a failure at most this much is sent again. */
const PIECE = 32 * 1024 * 1024;

/** Called with the octets that are done; `what` says what is being done with them. */
export type Progress = (what: 'read' | 'sent', octets: number) => void;

/**
 * Reads a file to its end and returns its SHA-256, hexadecimal. A browser itself hashes only what
 * is whole in memory (`crypto.subtle.digest`).
 */
export async function hashOf(file: Blob, progress: Progress): Promise<string> {
  const hash = sha2.create();
  const reader = file.stream().getReader();
  for (let octets = 0; ; ) {
    const { value, done } = await reader.read();
    if (done) return bytesToHex(hash.digest());
    hash.update(value);
    octets += value.length;
    progress('read', octets);
  }
}

/**
 * Sends a file; what the boot host has of it already is not sent again.
 *
 * @throws {Problem} E_ASSET_HASH when the file changed meanwhile, and as `request`
 */
export async function upload(file: Blob, sha256: string, progress: Progress): Promise<void> {
  const path = `/v1/assets/${sha256}`;
  type State = { readonly complete: boolean; readonly received: number };
  let state = (await (await request('GET', path)).json()) as State;
  while (!state.complete) {
    const from = state.received < file.size ? state.received : 0;
    const end = Math.min(from + PIECE, file.size);
    const headers = {
      'content-type': 'application/octet-stream',
      ...(file.size > 0 && { 'content-range': `bytes ${from}-${end - 1}/${file.size}` }),
    };
    progress('sent', from);
    const piece = { headers, blob: file.slice(from, end) };
    state = (await (await request('PUT', path, piece)).json()) as State;
  }
  progress('sent', file.size);
}
