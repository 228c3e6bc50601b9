/**
 * A client of three API servers, as a controller in the cluster is one: 50 requests a second with a
 * service-account token, each at the next server that is ready, and once more at another one when
 * it fails. It looks every second which servers are ready, like haproxy on every machine
 * (src/cluster/plan/balancer.ts). It takes a new token and the published CA every few seconds, and
 * watches what it writes.
 */
import https from 'node:https';
import { setTimeout as later } from 'node:timers/promises';
import { fieldsOf, textOf } from '../../../src/base/foreign-json.ts';

/** The pause between two requests. */
const EVERY_MS = 20;
const RENEW_EVERY_MS = 5000;
const CHECK_EVERY_MS = 1000;
const NAMESPACE = '/api/v1/namespaces/default';
const COUNTER = `${NAMESPACE}/configmaps/counter`;

interface Wanted {
  readonly method: string;
  readonly path: string;
  readonly body?: object;
  readonly type?: string;
  /** Whether the answer is right; by default every answer with status 200 or 201 is. */
  readonly right?: (body: unknown) => boolean;
}

export class ApiClient {
  readonly #servers: readonly string[];
  readonly #ready: Set<string>;
  readonly #stopping = new AbortController();
  readonly #running: Promise<unknown>[] = [];
  #writing: Promise<void> | undefined;
  #ending = false;
  #agent = new https.Agent({ keepAlive: true });
  #token: string;
  #ca: string;
  requests = 0;
  /** How often requests failed at one server, and not at the next, by their error. */
  readonly retried = new Map<string, number>();
  /** Requests that failed twice, with both errors. */
  readonly failedTwice: string[] = [];
  /** Numbers that were written, and those that the watches saw. */
  readonly written = new Set<string>();
  readonly seen: readonly Set<string>[];
  /** How often each watch had to begin again from a list. */
  lists = 0;

  constructor(servers: readonly string[], token: string, ca: string) {
    this.#servers = servers;
    this.#ready = new Set(servers);
    this.#token = token;
    this.#ca = ca;
    this.seen = servers.map(() => new Set<string>());
  }

  start(): void {
    this.#running.push(...this.#servers.map((server) => this.#check(server)));
    this.#writing = this.#work();
    this.#running.push(this.#renew(), ...this.#servers.map((_, n) => this.#watch(n)));
  }

  /** Writes no more, waits until the watches have seen every write, and ends. */
  async stop(): Promise<void> {
    this.#ending = true;
    await this.#writing;
    const isSeen = () => this.seen.every((seen) => [...this.written].every((n) => seen.has(n)));
    for (let n = 0; n < 300 && !isSeen(); n++) await later(100);
    this.#stopping.abort();
    await Promise.all(this.#running);
    this.#agent.destroy();
  }

  async #work(): Promise<void> {
    // A watch sees only what is written after its list.
    while (this.lists < this.#servers.length && !this.#ending) await later(EVERY_MS);
    const open = new Set<Promise<void>>();
    for (let n = 0; !this.#ending; n++) {
      const one = this.#do(n, this.#wanted(n)).finally(() => open.delete(one));
      open.add(one);
      await later(EVERY_MS);
    }
    await Promise.all(open);
  }

  /** Reads, writes, Secrets of all keys, and whether a server believes this client's token. */
  #wanted(n: number): Wanted {
    const data = { n: String(n) };
    switch (n % 5) {
      case 0:
        return { method: 'GET', path: COUNTER };
      case 1:
        return { method: 'PATCH', path: COUNTER, body: { data }, type: 'application/merge-patch+json' };
      case 2:
        return { method: 'GET', path: `${NAMESPACE}/secrets` };
      case 3:
        return {
          ...{ method: 'PATCH', path: `${NAMESPACE}/secrets/word`, body: { stringData: data } },
          type: 'application/merge-patch+json',
        };
      default:
        return {
          ...{ method: 'POST', path: '/apis/authentication.k8s.io/v1/tokenreviews' },
          body: { ...review, spec: { token: this.#token } },
          right: (body) => fieldsOf(fieldsOf(body).status).authenticated === true,
        };
    }
  }

  async #do(n: number, wanted: Wanted): Promise<void> {
    this.requests++;
    const errors: string[] = [];
    for (const offset of [0, 1]) {
      const ready = this.#servers.filter((server) => this.#ready.has(server));
      const of = ready.length > 0 ? ready : this.#servers;
      const server = of[(n + offset) % of.length]!;
      try {
        await this.#ask(server, wanted);
        if (n % 5 === 1) this.written.add(String(n));
        for (const error of errors) this.retried.set(error, (this.retried.get(error) ?? 0) + 1);
        return;
      } catch (error) {
        errors.push(`${wanted.method} ${wanted.path} at ${server}: ${(error as Error).message.trim()}`);
      }
    }
    this.failedTwice.push(`${new Date().toISOString()} ${errors.join(', and ')}`);
  }

  /** Looks whether a server is ready; it is not when it says so or does not answer within 2 s. */
  async #check(server: string): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const is = await this.#isReady(server);
      if (is) this.#ready.add(server);
      else this.#ready.delete(server);
      await later(CHECK_EVERY_MS);
    }
  }

  #isReady(server: string): Promise<boolean> {
    return new Promise((done) => {
      const options = { agent: false, ca: this.#ca, signal: AbortSignal.timeout(2000) };
      https
        .get(`https://${server}:6443/readyz`, options, (answer) => {
          answer.resume();
          done(answer.statusCode === 200);
        })
        .on('error', () => done(false));
    });
  }

  async #renew(): Promise<void> {
    for (let n = 0; !this.#stopping.signal.aborted; n++) {
      const server = this.#servers[n % this.#servers.length]!;
      await this.#takeCredentials(server).catch(() => undefined);
      await later(RENEW_EVERY_MS, undefined, { signal: this.#stopping.signal }).catch(() => undefined);
    }
  }

  async #takeCredentials(server: string): Promise<void> {
    const published = await this.#ask(server, {
      method: 'GET',
      path: `${NAMESPACE}/configmaps/kube-root-ca.crt`,
    });
    this.#ca = textOf(fieldsOf(fieldsOf(published).data)['ca.crt']);
    const made = await this.#ask(server, {
      ...{ method: 'POST', path: `${NAMESPACE}/serviceaccounts/load/token` },
      body: { ...request, spec: { expirationSeconds: 3600 } },
    });
    this.#token = textOf(fieldsOf(fieldsOf(made).status).token);
  }

  /** @throws when nothing answers in time, and for every other answer than the wanted one */
  #ask(server: string, { method, path, body, type = 'application/json', right }: Wanted): Promise<unknown> {
    return new Promise((done, fail) => {
      const asking = https.request(
        `https://${server}:6443${path}`,
        {
          ...{ method, agent: this.#agent, ca: this.#ca, signal: AbortSignal.timeout(10_000) },
          headers: { authorization: `Bearer ${this.#token}`, ...(body && { 'content-type': type }) },
        },
        (answer) => {
          let text = '';
          answer.setEncoding('utf8');
          answer.on('data', (part: string) => (text += part));
          answer.on('error', fail);
          answer.on('end', () => {
            const { statusCode = 0 } = answer;
            if (statusCode > 201) return fail(new Error(`${statusCode} ${text.slice(0, 300)}`));
            const read = JSON.parse(text) as unknown;
            if (right && !right(read)) return fail(new Error(`wrong: ${text.slice(0, 300)}`));
            done(read);
          });
        },
      );
      asking.on('error', fail);
      asking.end(body && JSON.stringify(body));
    });
  }

  /** Watches the counter at server `n`; continues at the next one when the watch ends. */
  async #watch(n: number): Promise<void> {
    let since = '';
    for (let turn = n; !this.#stopping.signal.aborted; turn++) {
      const server = this.#servers[turn % this.#servers.length]!;
      try {
        if (since === '') {
          const list = await this.#ask(server, { method: 'GET', path: COUNTER });
          since = textOf(fieldsOf(fieldsOf(list).metadata).resourceVersion);
          this.lists++;
        }
        const before = since;
        since = await this.#follow(server, since, this.seen[n]!);
        // A server that refuses the connection would otherwise be asked without end.
        if (since === before) await later(100);
      } catch {
        await later(100);
      }
    }
  }

  #follow(server: string, since: string, seen: Set<string>): Promise<string> {
    const query = `fieldSelector=metadata.name%3Dcounter&watch=true&resourceVersion=${since}`;
    return new Promise((done) => {
      let last = since;
      const end = (): void => done(last);
      const asking = https.request(
        `https://${server}:6443${NAMESPACE}/configmaps?${query}`,
        {
          ...{ agent: false, ca: this.#ca, signal: this.#stopping.signal },
          headers: { authorization: `Bearer ${this.#token}` },
        },
        (answer) => {
          if (answer.statusCode === 410) last = '';
          let rest = '';
          answer.setEncoding('utf8');
          answer.on('data', (part: string) => {
            const lines = (rest + part).split('\n');
            rest = lines.pop()!;
            for (const line of answer.statusCode === 200 ? lines : []) {
              const { type, object } = fieldsOf(JSON.parse(line));
              const { metadata, data } = fieldsOf(object);
              if (type === 'ERROR') last = '';
              else last = textOf(fieldsOf(metadata).resourceVersion);
              seen.add(textOf(fieldsOf(data).n));
            }
          });
          answer.on('error', end);
          answer.on('close', end);
        },
      );
      asking.on('error', end);
      asking.end();
    });
  }
}

const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview' };
const request = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest' };
