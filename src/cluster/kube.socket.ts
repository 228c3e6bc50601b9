/**
 * Sends requests to a cluster's API servers, each at its own address, with an admin certificate
 * that is used for an hour.
 */
import { fieldsOf, parsed, textOf } from '../base/foreign-json.ts';
import { urlHost } from '../base/ip.ts';
import { type BootHostDeps, bootHostCredentials } from './boot-host.ts';
import { type Answer, ask } from './https.socket.ts';
import { type Kube, type KubeAnswer, KubeRefusal } from './kube.ts';
import { API_PORT } from './model/ports.ts';

const PATIENCE_MS = 5000;
/** A Node with its list of images has about 20 KiB. */
const ANSWER_LIMIT = 64 * 1024 * 1024;

interface KubeDeps extends BootHostDeps {
  /** Aborts when the daemon stops. */
  readonly signal: AbortSignal;
}

/**
 * Returns a function that makes the client of one API server, from its cluster and its control
 * plane's address.
 */
export function createKubes({ signal, ...deps }: KubeDeps): (cluster: string, address: string) => Kube {
  const credentials = bootHostCredentials(deps, 'muster-admin', 'ca');
  return (cluster, address) =>
    async (path, { method = 'GET', body, contentType } = {}) => {
      const answer = await ask(`https://${urlHost(address)}:${API_PORT}${path}`, await credentials(cluster), {
        method,
        body,
        contentType,
        patience: PATIENCE_MS,
        limit: ANSWER_LIMIT,
        signal,
      });
      return accepted(answer, deps.clock.now());
    };
}

/** Returns the answer, or throws KubeRefusal when the status is not a success. */
function accepted({ status, text, date }: Answer, now: number): KubeAnswer {
  const body = parsed(text);
  if (status >= 200 && status < 300) return { body, text, date: date ?? now };
  throw new KubeRefusal(status, textOf(fieldsOf(body).message) || text.trim() || `status ${status}`);
}
