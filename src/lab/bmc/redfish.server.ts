/** A simulated BMC's Redfish over HTTPS, and its serial console by a websocket. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { bounded } from '../../base/bounded.ts';
import type { Controller, Driven } from './controller.ts';
import { RedfishService } from './redfish.ts';
import { type Certificate, WebCertificate } from './web-certificate.ts';

const MAX_BODY = 64 * 1024;
/** As OpenBMC keeps a connection of who is logged in (bmcweb: http_connection.hpp). */
const KEPT_MS = 60_000;

/** Listens at an address. `port` 0 takes any. */
export async function listenRedfish(
  { address, port }: { readonly address: string; readonly port: number },
  controller: Controller,
  shown: Certificate,
  driven: Pick<Driven, 'listen' | 'type'>,
): Promise<{ readonly port: number; readonly certificate: WebCertificate; close(): Promise<void> }> {
  const show = ({ certificate: cert, key }: Certificate): void => {
    server.setSecureContext({ cert, key });
    // As a BMC whose web server starts anew with its other certificate.
    server.closeIdleConnections();
  };
  const certificate = new WebCertificate(shown, show, controller.traits.certificate === 'after-restart');
  const service = new RedfishService(controller, certificate);
  const server: Server = createServer({ cert: shown.certificate, key: shown.key }, (request, response) => {
    void answer(service, request, response);
  });
  server.keepAliveTimeout = KEPT_MS;
  const sockets = new WebSocketServer({ noServer: true });
  server.on('upgrade', (request, socket, head) => {
    const { method = 'GET', url: path = '/', headers } = request;
    const rule = controller.faults.of('console', `GET ${path}`);
    const isShut = !service.opensConsole({ method, path, headers, body: '' });
    if (rule?.answer !== undefined || isShut) return refuse(socket, rule?.answer ?? 401);
    sockets.handleUpgrade(request, socket, head, (client) => share(client, driven));
  });
  await new Promise<void>((done, fail) => {
    server.once('error', fail);
    server.listen(port, address, done);
  });
  return {
    port: (server.address() as AddressInfo).port,
    certificate,
    async close() {
      for (const client of sockets.clients) client.terminate();
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}

const refuse = (socket: Duplex, status: number): void =>
  void socket.end(`HTTP/1.1 ${status} No\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);

/** Everybody who is connected sees the serial port, as of OpenBMC. */
function share(client: WebSocket, driven: Pick<Driven, 'listen' | 'type'>): void {
  const unlisten = driven.listen((octets) => client.send(octets));
  client.on('message', (data) => driven.type(data as Buffer));
  client.on('close', unlisten);
}

async function answer(
  service: RedfishService,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const octets = await bounded(request, MAX_BODY);
  if (octets === undefined) return void request.destroy();
  const { method = 'GET', url = '/', headers } = request;
  const body = octets.toString('utf8');
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
