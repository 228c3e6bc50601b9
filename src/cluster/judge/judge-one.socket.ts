/**
 * What muster-judge@.service runs: reads one request from the socket that is its standard input
 * (unit.socket.ts), runs the program, and answers. It ends when the server is no longer there.
 */
import { Socket } from 'node:net';
import path from 'node:path';
import { type Outcome, runConfined } from './confine.files.ts';
import type { Asked } from './unit.socket.ts';

/** A request has some twenty files of a few KiB each. */
const MOST_CHARACTERS = 16 * 1024 * 1024;

const directory = process.env.MUSTER_JUDGED ?? '/var/lib/muster/judged';
const connection = new Socket({ fd: 0 });
const gone = new AbortController();
let text = '';
connection.setEncoding('utf8').on('data', (more: string) => {
  text += more;
  if (text.length > MOST_CHARACTERS) connection.destroy();
  if (!more.includes('\n')) return;
  connection.removeAllListeners('data').resume();
  void run(text).then((outcome) => connection.end(`${JSON.stringify(outcome)}\n`));
});
connection.on('error', () => {});
connection.on('close', () => gone.abort());
connection.on('end', () => gone.abort());

function run(request: string): Promise<Outcome> {
  const { program, flags, files } = JSON.parse(request) as Asked;
  return runConfined(
    path.join(directory, path.basename(program)),
    flags,
    new Map(files.map(([file, content]) => [file, content ?? undefined])),
    gone.signal,
  );
}
