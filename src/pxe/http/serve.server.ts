/** One function per route: answers from the boot service or the assets. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../../base/clock.ts';
import { MusterError } from '../../base/errors.ts';
import type { HttpLimits } from '../../base/limits.server.ts';
import type { Metrics } from '../../base/metrics.ts';
import type { EventSink } from '../../events/event.ts';
import { MAX_INVENTORY_OCTETS } from '../../machines/inventory.ts';
import { MAX_TEST_OCTETS } from '../../machines/life/burn-in.ts';
import { MAX_WIPE_OCTETS } from '../../machines/life/wipe.ts';
import type { OpenedAssets } from '../assets/assets.ts';
import type { BootService, ConfigFile, WipeOrderAnswer, WipeReportAnswer } from '../boot.ts';
import type { ServedNetwork } from '../network.ts';
import { grubRefusedScript, LOADED_BY_GRUB, REFUSED_BY_GRUB } from '../script/grub.ts';
import { entryScript, startScript } from '../script/script.ts';
import { type Answer, script, TEXT, textAnswer, wait } from './answer.ts';
import { askedBy, reportIn } from './asked.ts';
import { type CachedFiles, type FileReply, send, sendFile } from './reply.server.ts';
import { fields, type Target } from './target.ts';

/** What the routes need. */
export interface ServeDeps {
  readonly boot: Pick<
    BootService,
    | 'script'
    | 'config'
    | 'inline'
    | 'report'
    | 'console'
    | 'needs'
    | 'waits'
    | 'inventory'
    | 'wipeOrder'
    | 'wipeReport'
    | 'testOrder'
    | 'testReport'
    | 'rescue'
    | 'install'
    | 'installList'
    | 'installExtent'
  >;
  readonly assets: OpenedAssets;
  /** The machine that has an address, for events about files. */
  readonly subjectOf: (
    address: string,
  ) => { readonly subject: string; readonly session?: string } | undefined;
  readonly events: EventSink;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly cached?: CachedFiles | undefined;
}

/** {@link ServeDeps}, with what is known about the connection. */
export interface ServeContext extends ServeDeps {
  /** The client's address. */
  readonly peer: string;
  readonly network: ServedNetwork | undefined;
  /** The URL under which this client reaches us, without a slash at its end. */
  readonly baseUrl: string;
  readonly limits: HttpLimits;
}

type Routed = Extract<Target, { kind: 'route' }>;

/** The form of a session's id and name. Only the boot service knows whether it exists. */
const SESSION = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * A report that is too large is read and dropped up to this many times the limit, so that its
 * client sees the answer instead of a reset. Beyond that it gets the answer at once.
 */
const DRAIN = 16;

/** Answers a request whose method fits its route. Resolves to the status that was sent. */
export async function serve(
  target: Routed,
  request: IncomingMessage,
  response: ServerResponse,
  context: ServeContext,
): Promise<number> {
  const { params } = target;
  const session = params.session ?? params.boot;
  if (session !== undefined && !SESSION.test(session))
    return send(response, textAnswer(404, 'E_NOT_FOUND: this is not the id of a boot session.'));
  switch (target.route) {
    case 'entry':
      return send(response, script(entryScript(context)));
    case 'start':
      return send(response, script(startScript({ baseUrl: context.baseUrl, boot: params.boot! })));
    case 'script':
    case 'anyScript':
    case 'grubScript':
      // HEAD gives no boot: a boot is counted, and some may be given once only.
      if (request.method === 'HEAD') return head(response);
      return send(response, await bootScript(target, context));
    case 'grubRefused':
      if (request.method === 'HEAD') return head(response);
      return send(response, await refusedByGrub(params, context));
    case 'userData':
      return send(response, await config('user-data', params.session!, request, context));
    case 'metaData':
      return send(response, await config('meta-data', params.session!, request, context));
    case 'vendorData':
      return send(response, await config('vendor-data', params.session!, request, context));
    case 'networkConfig':
      return send(response, await config('network-config', params.session!, request, context));
    case 'ignition':
      return send(response, await config('ignition', params.session!, request, context));
    case 'report':
    case 'reportFrom':
      return send(response, await report(params, request, response, context));
    case 'console':
      return send(response, await consoleLines(params.session!, request, response, context));
    case 'waits':
      return send(response, waits(params.session!, context));
    case 'install':
      return send(response, await install(params.session!, request, response, context));
    case 'installList':
      return send(response, await installed(context.boot.installList(params.session!, context)));
    case 'installExtent':
      return send(
        response,
        await installed(context.boot.installExtent(params.session!, Number(params.at), context)),
      );
    case 'inventory':
      return send(response, await inventory(params.session!, request, response, context));
    case 'wipeOrder':
      return send(response, orderText(await context.boot.wipeOrder(params.session!, context.peer)));
    case 'wipeReport':
      return send(
        response,
        await workReport(request, response, MAX_WIPE_OCTETS, (text) =>
          context.boot.wipeReport(params.session!, text, context.peer),
        ),
      );
    case 'testOrder':
      return send(response, orderText(await context.boot.testOrder(params.session!, context.peer)));
    case 'testReport':
      return send(
        response,
        await workReport(request, response, MAX_TEST_OCTETS, (text) =>
          context.boot.testReport(params.session!, text, context.peer),
        ),
      );
    case 'rescue':
      return send(response, await rescue(params.session!, request, response, context));
    case 'asset':
      return asset(params.sha256!, request, response, context);
    case 'loader':
      return loader(params.name!, request, response, context);
  }
}

/** The answer to HEAD of a script: without a length, because no script was made. */
function head(response: ServerResponse): number {
  response.writeHead(200, ['content-type', TEXT]);
  response.end();
  return 200;
}

async function bootScript(target: Routed, context: ServeContext): Promise<Answer> {
  const asked = askedBy(target.query);
  const { peer, baseUrl, network } = context;
  const { boot } = target.params;
  if (boot === undefined && asked.bootMac === undefined && asked.identity.uuid === undefined)
    return textAnswer(
      400,
      'E_USAGE: the machine does not say who it is: the query needs mac or uuid. Start from /boot.ipxe.',
    );
  const loader = target.route === 'grubScript' ? { loader: 'grub' as const } : {};
  const answer = await context.boot.script({ boot, ...asked, ...loader, peer, baseUrl, network });
  return script(answer.script);
}

/** Takes the word of a GRUB that it could not load a file. GRUB can only ask for files. */
async function refusedByGrub(
  { session, what }: Readonly<Record<string, string>>,
  { boot, peer }: ServeContext,
): Promise<Answer> {
  const file = LOADED_BY_GRUB.find((one) => one === what);
  if (file === undefined) return textAnswer(404, 'E_NOT_FOUND: GRUB loads a kernel and an initrd.');
  await boot.report(session!, { step: 'failed', detail: `${REFUSED_BY_GRUB} ${file}` }, peer);
  return script(grubRefusedScript(file));
}

async function config(
  file: ConfigFile,
  session: string,
  { method }: IncomingMessage,
  context: ServeContext,
): Promise<Answer> {
  const answer =
    (method === 'GET' ? await context.boot.inline(session, file, context) : undefined) ??
    context.boot.config(session, file, context);
  if (answer.ok) return { status: 200, contentType: answer.contentType, body: answer.body };
  return answer.status === 'wait' ? wait(answer.why) : textAnswer(404, `E_NOT_FOUND: ${answer.why}`);
}

async function report(
  { session, disk }: Readonly<Record<string, string>>,
  request: IncomingMessage,
  response: ServerResponse,
  context: ServeContext,
): Promise<Answer> {
  const body = await readBody(request, context.limits.bodyBytes);
  if (body === undefined)
    return tooLarge(response, 'a report', context.limits.bodyBytes, "; send the log's tail");
  const given = reportIn(body);
  if (typeof given === 'string') return textAnswer(400, `E_USAGE: ${given}.`);
  const answer = await context.boot.report(
    session!,
    { ...given, ...(disk !== undefined && { disk }) },
    context.peer,
  );
  // A status below 500 tells the machine not to repeat the report.
  return answer.believed
    ? textAnswer(200, 'recorded')
    : textAnswer(409, `recorded, not believed: ${answer.why}`);
}

async function consoleLines(
  session: string,
  request: IncomingMessage,
  response: ServerResponse,
  context: ServeContext,
): Promise<Answer> {
  const body = await readBody(request, context.limits.bodyBytes);
  if (body === undefined) return tooLarge(response, 'a form', context.limits.bodyBytes);
  const kept = await context.boot.console(session, fields(body, { form: true }), context.peer);
  if (kept === 'refused') return textAnswer(409, 'not kept: the boot session or the address is another one');
  return kept === 'later' ? textAnswer(429, 'not kept: too many lines at once') : textAnswer(200, 'kept');
}

function waits(session: string, { boot }: ServeContext): Answer {
  const answer = boot.waits(session);
  return answer.do === 'gone'
    ? textAnswer(404, 'E_NOT_FOUND: no machine waits in this boot session.')
    : textAnswer(200, `${answer.do} ${answer.name}`);
}

async function inventory(
  session: string,
  request: IncomingMessage,
  response: ServerResponse,
  context: ServeContext,
): Promise<Answer> {
  const body = await readBody(request, MAX_INVENTORY_OCTETS);
  if (body === undefined) return tooLarge(response, 'an inventory', MAX_INVENTORY_OCTETS);
  switch (await context.boot.inventory(session, body, context.peer)) {
    case 'kept':
      return textAnswer(200, 'kept');
    case 'later':
      return textAnswer(429, 'not kept: too many reports at once');
    case 'unreadable':
      return textAnswer(400, 'E_USAGE: no line of an inventory.');
    default:
      return textAnswer(409, 'not kept: the boot session or the address is another one');
  }
}

/** What a machine does that was ordered to work in the discovery system. */
const orderText = (answer: WipeOrderAnswer): Answer =>
  answer === 'refused'
    ? textAnswer(404, 'E_NOT_FOUND: nothing is ordered in this boot session.')
    : textAnswer(200, answer.text);

/** Takes the report of such work. */
async function workReport(
  request: IncomingMessage,
  response: ServerResponse,
  limit: number,
  take: (text: string) => Promise<WipeReportAnswer>,
): Promise<Answer> {
  const body = await readBody(request, limit);
  if (body === undefined) return tooLarge(response, 'a report', limit);
  const kept = await take(body);
  if (kept === 'kept') return textAnswer(200, 'kept');
  return kept === 'unreadable'
    ? textAnswer(400, 'E_USAGE: no report that is whole.')
    : textAnswer(409, 'not kept: the boot session or the address is another one');
}

/** Octets of a line with the public key of an SSH server. */
const MAX_KEY_OCTETS = 1024;

async function rescue(
  session: string,
  request: IncomingMessage,
  response: ServerResponse,
  context: ServeContext,
): Promise<Answer> {
  const body = await readBody(request, MAX_KEY_OCTETS);
  if (body === undefined) return tooLarge(response, 'a public key', MAX_KEY_OCTETS);
  const answer = await context.boot.rescue(session, body, context.peer);
  if (answer === 'unreadable') return textAnswer(400, 'E_USAGE: no key of an SSH server.');
  return answer === 'refused'
    ? textAnswer(404, 'E_NOT_FOUND: nobody is let in by this boot session.')
    : textAnswer(200, answer.text);
}

async function install(
  session: string,
  request: IncomingMessage,
  response: ServerResponse,
  context: ServeContext,
): Promise<Answer> {
  const text = await readBody(request, MAX_INVENTORY_OCTETS);
  if (text === undefined) return tooLarge(response, 'a step of an installation', MAX_INVENTORY_OCTETS);
  const { peer, baseUrl } = context;
  const answer = await context.boot.install(session, { text, peer, baseUrl });
  switch (answer.do) {
    case 'disk':
      return textAnswer(200, `disk ${answer.name} ${answer.serial} ${answer.mode} ${answer.sha256}`);
    case 'wait':
      return textAnswer(200, `wait ${answer.code} ${answer.text}`);
    case 'gone':
      return textAnswer(404, 'E_NOT_FOUND: no machine installs in this boot session.');
    case 'unknown':
      return textAnswer(400, 'E_USAGE: no step of an installation.');
    default:
      return textAnswer(200, answer.do);
  }
}

/** The answer with octets of an installation. They hold the configuration of the machine. */
async function installed(given: Promise<string | Buffer | undefined>): Promise<Answer> {
  const body = await given;
  if (body === undefined) return textAnswer(404, 'E_NOT_FOUND: no machine installs this in this session.');
  return { status: 200, contentType: 'application/octet-stream', body };
}

/** The answer to a body that was not read to its end; the connection is of no use after it. */
function tooLarge(response: ServerResponse, what: string, limit: number, fix = ''): Answer {
  response.shouldKeepAlive = false;
  return textAnswer(413, `E_TOO_LARGE: ${what} has at most ${limit} octets${fix}.`);
}

/** The body as text, or undefined when it is larger than `limit`. */
function readBody(request: IncomingMessage, limit: number): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    // A client that waits for "100 Continue" has not sent its body, and will not send it.
    if (request.headers.expect !== undefined && Number(request.headers['content-length'] ?? 0) > limit) {
      resolve(undefined);
      return;
    }
    const parts: Buffer[] = [];
    let octets = 0;
    request.on('data', (part: Buffer) => {
      octets += part.length;
      if (octets <= limit) parts.push(part);
      else parts.length = 0;
      if (octets > limit * DRAIN) resolve(undefined);
    });
    request.on('end', () => resolve(octets > limit ? undefined : Buffer.concat(parts).toString('utf8')));
    request.on('error', reject);
    request.on('close', () => reject(new MusterError('E_USAGE', 'the report ended early')));
  });
}

async function asset(
  sha256: string,
  request: IncomingMessage,
  response: ServerResponse,
  context: ServeContext,
): Promise<number> {
  const hash = sha256.toLowerCase();
  const file = context.assets.find(hash);
  if (!file) return send(response, absent(hash, context));
  const gone = () => {
    context.assets.lost(hash, file);
    return absent(hash, context);
  };
  const contentType = 'application/octet-stream';
  return sent({ file, contentType, etag: `"${hash}"`, gone }, hash, request, response, context);
}

/**
 * A missing file that an Image names is not ready (503); one that no Image names does not exist
 * (404).
 */
function absent(hash: string, { boot }: ServeContext): Answer {
  const what = `no verified file with SHA-256 ${hash.slice(0, 64)} is here`;
  return boot.needs(hash)
    ? wait(
        `${what}, but an Image names it. Add it with \`muster image add\`; the machine then continues by itself.`,
      )
    : textAnswer(404, `E_NOT_FOUND: ${what}. Add it with \`muster image add\`.`);
}

async function loader(
  name: string,
  request: IncomingMessage,
  response: ServerResponse,
  context: ServeContext,
): Promise<number> {
  const file = context.assets.loader(name) ?? context.assets.loader(name.toLowerCase());
  const gone = () =>
    textAnswer(
      404,
      `E_NOT_FOUND: there is no boot loader "${name.slice(0, 100)}" on this boot host. Install Debian's package ipxe, or name its directory with --loaders; muster reload reads the directories again.`,
    );
  if (!file) return send(response, gone());
  // EDK2 (HttpBootCheckImageType) goes by the content type, else by the extension.
  const contentType = /\.efi$/i.test(name) ? 'application/efi' : 'application/octet-stream';
  return sent({ file, contentType, gone }, name, request, response, context);
}

async function sent(
  reply: FileReply,
  name: string,
  request: IncomingMessage,
  response: ServerResponse,
  context: ServeContext,
): Promise<number> {
  const startedAt = context.clock.monotonic();
  const { status, octets, whole, cut = false } = await sendFile(request, response, reply, context.cached);
  context.metrics.add('muster_http_sent_bytes_total', {}, octets);
  if (whole || cut) {
    const who = context.subjectOf(context.peer);
    context.events.record({
      kind: whole ? 'asset.served' : 'asset.cut',
      subject: who?.subject ?? context.peer,
      ...(who?.session ? { session: who.session } : {}),
      ...(context.network ? { network: context.network.name } : {}),
      fields: {
        file: name,
        address: context.peer,
        octets,
        milliseconds: Math.round(context.clock.monotonic() - startedAt),
      },
    });
  }
  return status;
}
