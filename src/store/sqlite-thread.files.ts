/**
 * The store's thread: executes groups of commits and answers when they are durable. sqlite.files.ts
 * starts it.
 */
import { isMainThread, parentPort, workerData } from 'node:worker_threads';
import { messageOf } from '../base/error-text.ts';
import { MusterError } from '../base/errors.ts';
import { openDatabase } from './sqlite-open.files.ts';
import { SqliteRecords } from './sqlite-records.files.ts';
import type { ReadReply, ReadRequest, StoreThreadData, ThreadReply, ThreadRequest } from './wire.ts';

/** Serves requests until one has `close`. */
function serve(data: StoreThreadData, reply: (message: ThreadReply) => void): void {
  let records: SqliteRecords;
  try {
    const db = openDatabase(data.path);
    if (data.maxPages !== undefined) db.exec(`PRAGMA max_page_count = ${data.maxPages}`);
    records = new SqliteRecords(db, data.keptRevisions);
    reply({ ready: { revision: records.revision } });
  } catch (error) {
    reply({ failed: threadError(error) });
    parentPort!.close();
    return;
  }
  parentPort!.on('message', (request: ThreadRequest) => {
    const outcomes = records.commit(request.commits);
    const reads = request.reads.map((read) => answer(records, read));
    if (request.close) records.close();
    reply({ outcomes, reads });
    if (request.close) parentPort!.close();
    else records.maintain();
  });
}

function answer(records: SqliteRecords, request: ReadRequest): ReadReply {
  try {
    switch (request.read) {
      case 'get':
        return records.get(request.key);
      case 'list':
        return records.list(request.prefix);
      case 'history':
        return records.history(request.prefix, request.after, request.upto);
      case 'compact':
        records.compact(request.revision);
        return { done: true };
      case 'copy':
        records.copyTo(request.path);
        return { done: true };
    }
  } catch (error) {
    return { error: threadError(error) };
  }
}

function threadError(error: unknown) {
  return error instanceof MusterError
    ? { code: error.code, message: error.message }
    : { code: 'E_INTERNAL' as const, message: messageOf(error) };
}

if (!isMainThread) serve(workerData as StoreThreadData, (message) => parentPort!.postMessage(message));
