/**
 * A client of three API servers, as one behind a load balancer: 50 requests a second, reads and
 * writes, and one retry at the next API server.
 */
import https from 'node:https';
import { load } from 'js-yaml';
import { systemClock } from '../../../src/base/clock.ts';
import type { Machine } from '../etcd/rack.ts';
import { EVERY_KIND, type Written } from './every-kind.ts';

const EVERY_MS = 20;
/** A request without an answer after this time has failed. */
const PATIENCE_MS = 5000;
const OBJECT = '/api/v1/namespaces/default/configmaps/counted';

interface ApiGroups {
  readonly groups: readonly { readonly versions: readonly { readonly groupVersion: string }[] }[];
}

interface ApiResources {
  readonly resources: readonly { readonly name: string; readonly kind: string }[];
}

interface Kubeconfig {
  readonly clusters: readonly [{ readonly cluster: Readonly<Record<'certificate-authority-data', string>> }];
  readonly users: readonly [
    { readonly user: Readonly<Record<'client-certificate-data' | 'client-key-data', string>> },
  ];
}

export class ApiClient {
  readonly #machines: readonly Machine[];
  readonly #agents = new Map<string, https.Agent>();
  #timer: NodeJS.Timeout | undefined;
  #turn = 0;
  readonly #open = new Set<Promise<void>>();
  /** Requests that got their answer, at once or after one retry. */
  answered = 0;
  retried = 0;
  /** The longest that a request took, with its retry. */
  slowestMs = 0;
  /** Requests that failed at two API servers, with both reasons. */
  readonly failedTwice: string[] = [];
  /** Why requests were repeated: reason → how often. */
  readonly reasons = new Map<string, number>();

  constructor(machines: readonly Machine[]) {
    this.#machines = machines;
  }

  start(): void {
    this.#timer = setInterval(() => {
      const work: Promise<void> = this.#request().finally(() => this.#open.delete(work));
      this.#open.add(work);
    }, EVERY_MS);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#open);
    for (const agent of this.#agents.values()) agent.destroy();
  }

  /**
   * Takes the credentials of a kubeconfig, and creates the object that the requests read and write.
   */
  async prepare(kubeconfig: string): Promise<void> {
    const { clusters, users } = load(kubeconfig) as Kubeconfig;
    const decoded = (text: string): string => Buffer.from(text, 'base64').toString();
    const ca = decoded(clusters[0].cluster['certificate-authority-data']);
    const cert = decoded(users[0].user['client-certificate-data']);
    const key = decoded(users[0].user['client-key-data']);
    for (const { name } of this.#machines)
      this.#agents.set(name, new https.Agent({ keepAlive: true, ca, cert, key, timeout: PATIENCE_MS }));
    const body = { metadata: { name: 'counted' }, data: { count: '0' } };
    await this.#ask(this.#machines[0]!, 'POST', OBJECT.replace('/counted', ''), body);
  }

  /** What each API server says of its version. */
  versions(): Promise<readonly unknown[]> {
    return Promise.all(this.#machines.map((machine) => this.#json(machine, 'GET', '/version')));
  }

  /** Every group and version that an API server serves, with its resources. */
  async discovery(): Promise<readonly string[]> {
    const [machine] = this.#machines;
    const { groups } = await this.#json<ApiGroups>(machine!, 'GET', '/apis');
    const versions = groups.flatMap((group) => group.versions.map((one) => `/apis/${one.groupVersion}`));
    const found = await Promise.all(
      ['/api/v1', ...versions].map(async (path) => {
        const { resources } = await this.#json<ApiResources>(machine!, 'GET', path);
        return resources.map(({ name, kind }) => `${path} ${name} ${kind}`);
      }),
    );
    return found.flat().toSorted();
  }

  /** Creates an object of each kind at one API server after the other; resolves with their UIDs. */
  async writeEveryKind(): Promise<readonly string[]> {
    return this.#everyKind((machine, { collection, object }) =>
      this.#json(machine, 'POST', collection, object),
    );
  }

  /** Reads them again, at other API servers. */
  async readEveryKind(): Promise<readonly string[]> {
    return this.#everyKind((_, { collection, object }, n) =>
      this.#json(
        this.#machines[(n + 1) % this.#machines.length]!,
        'GET',
        `${collection}/${object.metadata.name}`,
      ),
    );
  }

  async #everyKind(
    ask: (machine: Machine, one: Written, n: number) => Promise<unknown>,
  ): Promise<readonly string[]> {
    const found: string[] = [];
    for (const [n, one] of EVERY_KIND.entries()) {
      const machine = this.#machines[n % this.#machines.length]!;
      const { metadata } = (await ask(machine, one, n)) as { readonly metadata: { readonly uid: string } };
      found.push(`${one.collection} ${metadata.uid}`);
    }
    return found;
  }

  async #json<T>(machine: Machine, method: string, path: string, body?: object): Promise<T> {
    return JSON.parse(await this.#ask(machine, method, path, body)) as T;
  }

  async #request(): Promise<void> {
    const turn = this.#turn++;
    const began = systemClock.monotonic();
    const reasons: string[] = [];
    for (const offset of [0, 1]) {
      const machine = this.#machines[(turn + offset) % this.#machines.length]!;
      try {
        if (turn % 5 === 0) await this.#ask(machine, 'PATCH', OBJECT, { data: { count: String(turn) } });
        else await this.#ask(machine, 'GET', turn % 5 === 1 ? '/api/v1/nodes' : OBJECT);
        this.answered++;
        if (offset > 0) this.retried++;
        this.slowestMs = Math.max(this.slowestMs, systemClock.monotonic() - began);
        return;
      } catch (error) {
        const reason = (error as Error).message.slice(0, 200);
        reasons.push(`${machine.name}: ${reason}`);
        this.reasons.set(reason, (this.reasons.get(reason) ?? 0) + 1);
      }
    }
    this.failedTwice.push(`${new Date().toISOString()} ${turn}: ${reasons.join(', ')}`);
  }

  #ask({ name, address }: Machine, method: string, path: string, body?: object): Promise<string> {
    return new Promise((done, fail) => {
      const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
      const asking = https.request(
        `https://${address}:6443${path}`,
        {
          method,
          agent: this.#agents.get(name)!,
          headers: { 'content-type': type },
          signal: AbortSignal.timeout(PATIENCE_MS),
        },
        (answer) => {
          const { statusCode = 0 } = answer;
          const parts: Buffer[] = [];
          answer.on('data', (part: Buffer) => parts.push(part));
          answer.on('error', fail);
          answer.on('end', () => {
            const text = Buffer.concat(parts).toString();
            if (statusCode < 300) done(text);
            else fail(new Error(`${method} ${path}: ${statusCode} ${text.slice(0, 300)}`));
          });
        },
      );
      asking.on('error', fail);
      asking.end(body && JSON.stringify(body));
    });
  }
}
