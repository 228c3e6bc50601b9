/** Reads texts that the command line names: files, directories of YAML, `-` for standard input. */
import fs from 'node:fs';
import net from 'node:net';
import type { Readable } from 'node:stream';
import tty from 'node:tty';
import type { DocumentSource } from '../../api/operations/documents.ts';
import { type Fault, MusterError } from '../../base/errors.ts';
import { readText, scan } from '../../resources/directory.files.ts';
import { decodeText, YAML_LIMITS } from '../../resources/yaml.ts';

/** A file: its text, or the fault for which the server would refuse it. */
export type Source = DocumentSource | { readonly file: string; readonly fault: Fault };

/**
 * The most octets that are read. A capture of a boot takes some seconds, and 256 MiB hold hours.
 */
const MAX_OCTETS = 256 * 1024 * 1024;

/**
 * Reads the texts of `paths`, each with the name that faults show. In a directory it reads the
 * files that `muster serve --config` would read there, with the same function. A text that is not
 * UTF-8 or too long is a fault; an endless text is read only up to the limit.
 *
 * @throws {MusterError} E_FILE_READ when a file cannot be read; the reason of `signal` when that
 *   aborts.
 */
export async function readSources(paths: readonly string[], signal: AbortSignal): Promise<Source[]> {
  const sources: Source[] = [];
  for (const name of paths) {
    if (name !== '-' && stat(name).isDirectory()) sources.push(...directorySources(name));
    else sources.push(await fileSource(name, signal));
  }
  return sources;
}

/**
 * Like {@link readSources}, but throws the faults.
 *
 * @throws {MusterError} E_YAML with every fault, and what `readSources` throws.
 */
export async function readTexts(paths: readonly string[], signal: AbortSignal): Promise<DocumentSource[]> {
  const sources = await readSources(paths, signal);
  const faults = sources.flatMap((source) => ('fault' in source ? [source.fault] : []));
  if (faults.length > 0) throw new MusterError(faults[0]!.code, faults[0]!.message, { faults });
  return sources as DocumentSource[];
}

/**
 * Reads the octets of a file.
 *
 * @throws {MusterError} E_FILE_READ when the file cannot be read or has more than 256 MiB; the
 *   reason of `signal` when that aborts.
 */
export async function readOctets(name: string, signal: AbortSignal): Promise<Uint8Array> {
  const octets = await readBounded(name, MAX_OCTETS, signal);
  if (octets.length > MAX_OCTETS)
    throw new MusterError('E_FILE_READ', `${name} is longer than ${MAX_OCTETS} octets; cut it`);
  return octets;
}

function directorySources(directory: string): Source[] {
  const files = [...scan(directory).files.keys()];
  if (files.length === 0) throw new MusterError('E_FILE_READ', `${directory} holds no .yaml or .yml file`);
  return files.map((file) => ({ file, ...readText(file) }));
}

async function fileSource(name: string, signal: AbortSignal): Promise<Source> {
  const file = name === '-' ? 'stdin' : name;
  const decoded = decodeText(await readBounded(name, YAML_LIMITS.bytes, signal), file);
  return decoded.ok ? { file, text: decoded.text } : { file, fault: decoded.fault };
}

/** Reads all octets of a file; of a file longer than `limit`, slightly more than `limit` octets. */
async function readBounded(name: string, limit: number, signal: AbortSignal): Promise<Buffer> {
  signal.throwIfAborted();
  const parts: Buffer[] = [];
  let octets = 0;
  let stream: Readable | undefined;
  const abort = (): void => void stream?.destroy(signal.reason as Error);
  signal.addEventListener('abort', abort, { once: true });
  try {
    stream = name === '-' ? process.stdin : open(name);
    for await (const part of stream as AsyncIterable<Buffer>) {
      parts.push(part);
      octets += part.length;
      if (octets > limit) break;
    }
  } catch (cause) {
    signal.throwIfAborted();
    throw fileError(name === '-' ? 'standard input' : name, cause);
  } finally {
    signal.removeEventListener('abort', abort);
  }
  // A stream that is destroyed may also end without an error.
  signal.throwIfAborted();
  return Buffer.concat(parts);
}

/**
 * Opens a file as a stream that can be abandoned. The event loop waits for pipes and terminals: a
 * thread blocked in open(2) or read(2) would keep the process from ending.
 */
function open(name: string): Readable {
  const fd = fs.openSync(name, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  if (fs.fstatSync(fd).isFIFO()) return new net.Socket({ fd, readable: true, writable: false });
  if (tty.isatty(fd)) return new tty.ReadStream(fd);
  return fs.createReadStream(name, { fd });
}

function stat(name: string): fs.Stats {
  try {
    return fs.statSync(name);
  } catch (cause) {
    throw fileError(name, cause);
  }
}

function fileError(name: string, cause: unknown): MusterError {
  const { code, message } = cause as NodeJS.ErrnoException;
  const missing = /^https?:/i.test(name)
    ? 'files come from this host; fetch it first, and read it'
    : 'there is no such file or directory';
  const why = code === 'ENOENT' ? missing : code === 'EACCES' ? 'permission denied' : message;
  return new MusterError('E_FILE_READ', `${name}: ${why}`, { cause });
}
