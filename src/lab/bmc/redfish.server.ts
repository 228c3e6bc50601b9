/** A simulated BMC's Redfish over HTTPS. */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Controller } from './controller.ts';
import { RedfishService } from './redfish.ts';

/** In PEM. */
export interface Certificate {
  readonly certificate: string;
  readonly key: string;
}

const MAX_BODY = 64 * 1024;

/** Listens at an address. `port` 0 takes any. */
export async function listenRedfish(
  { address, port }: { readonly address: string; readonly port: number },
  controller: Controller,
  { certificate, key }: Certificate,
): Promise<{
  readonly port: number;
  /** Shows another certificate from now on. */
  certificate(other: Certificate): void;
  close(): Promise<void>;
}> {
  const service = new RedfishService(controller);
  const server: Server = createServer({ cert: certificate, key }, (request, response) => {
    void answer(service, request, response);
  });
  await new Promise<void>((done, fail) => {
    server.once('error', fail);
    server.listen(port, address, done);
  });
  return {
    port: (server.address() as AddressInfo).port,
    certificate: (other) => {
      server.setSecureContext({ cert: other.certificate, key: other.key });
      // As a BMC whose web server starts anew with its other certificate.
      server.closeAllConnections();
    },
    async close() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}

async function answer(
  service: RedfishService,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const parts: Buffer[] = [];
  let octets = 0;
  for await (const part of request) {
    octets += (part as Buffer).length;
    if (octets > MAX_BODY) return void request.destroy();
    parts.push(part as Buffer);
  }
  const { method = 'GET', url = '/', headers } = request;
  const body = Buffer.concat(parts).toString('utf8');
  const found = service.answer({ method, path: url, headers, body });
  const { rule } = found;
  if (rule?.delayMs !== undefined) await new Promise((done) => setTimeout(done, rule.delayMs));
  if (rule?.lost) return void response.destroy();
  const text = found.body === undefined ? '' : JSON.stringify(found.body);
  response.writeHead(found.status, {
    'odata-version': '4.0',
    'cache-control': 'no-cache',
    ...(found.body !== undefined && {
      'content-type': 'application/json;charset=utf-8',
      'content-length': Buffer.byteLength(text),
    }),
    ...found.headers,
  });
  if (rule?.half) {
    response.write(text.slice(0, text.length / 2));
    setTimeout(() => response.destroy(), 10);
  } else response.end(rule?.garbled ? text.replaceAll(':', ';') : text);
}
