/** A real identity provider (oidc-provider) on loopback, and a browser that logs in there. */
import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { Provider as Oidc } from 'oidc-provider';
import { vi } from 'vitest';
import { selfSigned } from './self-signed.ts';

export const CLIENT = { id: 'muster', secret: 'a-secret-of-the-test' } as const;

/** The people whom it knows, with their groups. */
const GROUPS: Readonly<Record<string, readonly string[]>> = {
  ada: ['rack-admins', 'staff'],
  bob: ['blue-team'],
  eve: ['staff'],
};

export interface IdentityProvider {
  readonly issuer: string;
  readonly authority: string;
  /** Begins to serve, for a page at this address. */
  open(page: string): void;
  /** The key with which it signs. */
  readonly key: KeyObject;
  /** It signs with a new key from now on, and does not have the old one any more. */
  rollOver(): void;
  /** Changes the next answers of the token endpoint; undefined ends that. */
  tamper: ((answer: Record<string, unknown>) => Record<string, unknown>) | undefined;
  close(): Promise<void>;
}

const newKey = (kid: string) => ({
  ...generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' }),
  kid,
  alg: 'ES256',
  use: 'sig',
});

/** Keeps the provider from printing that it is not set up for production. */
function quiet(): () => void {
  const spies = (['warn', 'info'] as const).map((name) =>
    vi.spyOn(console, name).mockImplementation(() => {}),
  );
  return () => {
    for (const spy of spies) spy.mockRestore();
  };
}

/** Listens at once, so that its address is known. */
export async function openIdentityProvider(): Promise<IdentityProvider> {
  const loud = quiet();
  const { certificate, key } = selfSigned('provider', ['IP:127.0.0.1', 'DNS:localhost']);
  let handle: ReturnType<Oidc['callback']> | undefined;
  let tamper: IdentityProvider['tamper'];
  const server = https.createServer({ cert: certificate, key }, (request, response) => {
    if (request.url === '/token' && tamper) replaceBody(response, tamper);
    void handle?.(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const issuer = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  let page = '';
  let keys = 0;
  let signs: ReturnType<typeof newKey>;
  const serve = () => {
    signs = newKey(`key-${++keys}`);
    handle = provider(issuer, page, signs).callback();
  };
  return {
    issuer,
    authority: certificate,
    open(at) {
      page = at;
      serve();
    },
    rollOver: serve,
    get key() {
      return createPrivateKey({ key: { ...signs }, format: 'jwk' });
    },
    get tamper() {
      return tamper;
    },
    set tamper(change) {
      tamper = change;
    },
    async close() {
      loud();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function provider(issuer: string, page: string, key: ReturnType<typeof newKey>): Oidc {
  const client = (id: string) => ({
    client_id: id,
    client_secret: CLIENT.secret,
    redirect_uris: [`${page}/v1/login/provider/return`],
    grant_types: ['authorization_code', 'urn:ietf:params:oauth:grant-type:device_code'],
    response_types: ['code' as const],
    id_token_signed_response_alg: 'ES256' as const,
  });
  const oidc = new Oidc(issuer, {
    clients: [client(CLIENT.id), client('other')],
    jwks: { keys: [key] },
    cookies: { keys: ['test'] },
    pkce: { required: () => true },
    features: { deviceFlow: { enabled: true } },
    claims: { profile: ['preferred_username', 'groups'] },
    findAccount: async (_context, id) => ({
      accountId: id,
      claims: async () => ({ sub: id, preferred_username: id, groups: [...(GROUPS[id] ?? [])] }),
    }),
  });
  return oidc;
}

function replaceBody(
  response: import('node:http').ServerResponse,
  change: NonNullable<IdentityProvider['tamper']>,
) {
  const end = response.end.bind(response) as (body?: unknown) => typeof response;
  response.end = ((body?: unknown) => {
    const answer = JSON.parse(String(body)) as Record<string, unknown>;
    const text = JSON.stringify(answer.id_token === undefined ? answer : change(answer));
    response.setHeader('content-length', Buffer.byteLength(text));
    return end(text);
  }) as typeof response.end;
}

/** Follows links and forms as a browser does, with cookies for each host. */
export class TestBrowser {
  readonly #ca: readonly string[];
  readonly #cookies = new Map<string, Map<string, string>>();
  /** Where it is. */
  url = '';
  /** It does not open addresses that begin so. */
  stopAt: string | undefined;

  constructor(...ca: readonly string[]) {
    this.#ca = ca;
  }

  /** The value of a cookie; undefined when the host set none. */
  cookie(url: string, name: string): string | undefined {
    return this.#cookies.get(new URL(url).host)?.get(name);
  }

  /** Logs in as `login` at all forms that come, until there is none. */
  async visit(url: string, login: string): Promise<string> {
    let text = await this.open(url);
    for (let n = 0; n < 10; n++) {
      const form = /<form[^>]*action="([^"]+)"[^>]*>([\s\S]*?)<\/form>/.exec(text);
      if (form === null) return text;
      const fields = [...form[2]!.matchAll(/<input[^>]*>/g)].flatMap(([input]) => {
        const name = /name="([^"]+)"/.exec(input)?.[1];
        return name === undefined ? [] : [[name, /value="([^"]*)"/.exec(input)?.[1] ?? login]];
      });
      const action = new URL(form[1]!.replaceAll('&amp;', '&'), this.url).href;
      text = await this.open(action, new URLSearchParams(fields as [string, string][]));
    }
    throw new Error(`it never ends:\n${text}`);
  }

  /** Opens an address and follows redirects. */
  async open(url: string, form?: URLSearchParams): Promise<string> {
    this.url = url;
    for (let n = 0; n < 10; n++) {
      const { status, location, text } = await this.#request(this.url, n === 0 ? form : undefined);
      if (location === undefined) {
        if (status >= 400) throw new Error(`${this.url} answers with ${status}: ${text}`);
        return text;
      }
      this.url = new URL(location, this.url).href;
      if (this.stopAt !== undefined && this.url.startsWith(this.stopAt)) return '';
    }
    throw new Error(`${this.url} redirects without end`);
  }

  #request(url: string, form: URLSearchParams | undefined) {
    const host = new URL(url).host;
    const jar = this.#cookies.get(host) ?? new Map<string, string>();
    this.#cookies.set(host, jar);
    const headers = {
      cookie: [...jar].map((pair) => pair.join('=')).join('; '),
      'sec-fetch-site': 'cross-site',
      'sec-fetch-mode': 'navigate',
      ...(form && { 'content-type': 'application/x-www-form-urlencoded', origin: new URL(url).origin }),
    };
    const options = { method: form ? 'POST' : 'GET', headers, ca: [...this.#ca], agent: false };
    return new Promise<{ status: number; location: string | undefined; text: string }>((resolve, reject) => {
      const request = https.request(url.split('#')[0]!, options, (response) => {
        for (const set of response.headers['set-cookie'] ?? []) {
          const [name, value = ''] = set.split(';')[0]!.split('=');
          if (value === '') jar.delete(name!);
          else jar.set(name!, value);
        }
        let text = '';
        response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
        response.on('end', () =>
          resolve({ status: response.statusCode!, location: response.headers.location, text }),
        );
      });
      request.once('error', reject);
      request.end(form?.toString());
    });
  }
}
