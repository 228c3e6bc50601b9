/** Entry of a thread that runs transfers; `runner.socket.ts` starts it and sends it messages. */
import { parentPort, workerData } from 'node:worker_threads';
import { systemClock } from '../../base/clock.ts';
import { OpenFiles } from './blocks.files.ts';
import { threadOpener } from './native-sockets.socket.ts';
import type { FromThread, ThreadData, ToThread } from './runner.socket.ts';
import { nodeOpener } from './sockets.socket.ts';
import { Transfer, type TransferEnd } from './transfer.socket.ts';

const port = parentPort;
if (port === null) throw new Error('thread.socket.ts is the entry of a thread');

const files = new OpenFiles();
const transfers = new Map<number, Transfer>();
const { waits } = workerData as ThreadData;
const sockets = waits ? threadOpener(waits) : nodeOpener;

port.on('message', (message: ToThread) => {
  const { id } = message;
  switch (message.do) {
    case 'start': {
      const onEnd = (end: TransferEnd) => {
        transfers.delete(id);
        port.postMessage({ id, end } satisfies FromThread);
      };
      const onConfirmed = () => port.postMessage({ id, confirmed: true } satisfies FromThread);
      const transfer = new Transfer({
        ...message.job,
        files,
        sockets,
        clock: systemClock,
        onConfirmed,
        onEnd,
      });
      transfers.set(id, transfer);
      transfer.start();
      break;
    }
    case 'again': {
      const restart = !(transfers.get(id)?.again() ?? false);
      port.postMessage({ id, restart } satisfies FromThread);
      break;
    }
    case 'supersede':
      transfers.get(id)?.supersede();
      break;
    case 'displace':
      transfers.get(id)?.displace();
      break;
    case 'shutDown':
      transfers.get(id)?.shutDown();
      break;
  }
});
