/**
 * Fetches what is outside of the rack: images, artifacts, add-ons. Only these requests go through
 * the proxy that the environment names; the API and the machines are reached directly.
 */
import http from 'node:http';
import { MusterError } from '../base/errors.ts';
import { isDirect } from './no-proxy.ts';

/** The variables that curl and others read; the lower-case names win, as in Node. */
const PROXIES = { 'http:': ['http_proxy', 'HTTP_PROXY'], 'https:': ['https_proxy', 'HTTPS_PROXY'] } as const;
const NAMES = [...Object.values(PROXIES).flat(), 'no_proxy', 'NO_PROXY'];

/**
 * Like `fetch`, through the proxy of HTTPS_PROXY or HTTP_PROXY unless NO_PROXY lists the host.
 *
 * @throws {MusterError} E_USAGE when the variable is not the URL of a proxy
 */
export function fetchOutside(url: string | URL, init?: RequestInit): Promise<Response> {
  if (proxyOf(url) === undefined) return fetch(url, init);
  const variables = Object.fromEntries(NAMES.map((name) => [name, process.env[name]]));
  const list = process.env.no_proxy || process.env.NO_PROXY || '';
  const target = new URL(url);
  // Node knows no networks and no subdomains of a name, but each host by itself.
  if (isDirect(list, target)) variables.no_proxy = `${list},${target.hostname}`;
  // fetch reads the setting when it is called, and keeps it over redirects.
  const restore = http.setGlobalProxyFromEnv(variables);
  try {
    return fetch(url, init);
  } finally {
    restore();
  }
}

/** The proxy for a URL, without credentials; undefined without one, and for what is no URL. */
function proxyOf(url: string | URL): string | undefined {
  const protocol = URL.canParse(url) ? new URL(url).protocol : '';
  for (const name of PROXIES[protocol as keyof typeof PROXIES] ?? []) {
    const value = process.env[name];
    if (value === undefined || value === '') continue;
    if (/^https?:\/\//.test(value) && URL.canParse(value)) return new URL(value).origin;
    throw new MusterError(
      'E_USAGE',
      `${name} is not the URL of a proxy; write it like "http://proxy.example:3128", with http:// or https://`,
    );
  }
  return undefined;
}

/** Ends a message about a request: whether a proxy was asked. */
export function byProxy(url: string): string {
  const proxy = proxyOf(url);
  return proxy === undefined ? '' : ` (through the proxy ${proxy}, unless NO_PROXY lists the host)`;
}
