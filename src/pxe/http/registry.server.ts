/**
 * Serves container images from the asset store, on any HTTP or HTTPS server of Node. What a request
 * means is decided in `src/artifacts/registry.ts`.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ArtifactBook } from '../../artifacts/book.ts';
import { answerRegistry, type RegistryAnswer } from '../../artifacts/registry.ts';
import type { Metrics } from '../../base/metrics.ts';
import type { OpenedAssets } from '../assets/assets.ts';
import type { Answer } from './answer.ts';
import { send, sendFile } from './reply.server.ts';

interface RegistryDeps {
  readonly book: Pick<ArtifactBook, 'repository'>;
  readonly assets: Pick<OpenedAssets, 'find' | 'lost'>;
  readonly metrics: Metrics;
}

/**
 * Answers a request for an image. Resolves to the status that was sent, or to undefined when the
 * path is not a registry's (`/v2/…`) and nothing was sent. Never rejects.
 */
export async function serveRegistry(
  request: IncomingMessage,
  response: ServerResponse,
  { book, assets, metrics }: RegistryDeps,
): Promise<number | undefined> {
  const url = request.url ?? '/';
  const mark = url.indexOf('?');
  const answer = answerRegistry(
    {
      method: request.method ?? 'GET',
      path: mark < 0 ? url : url.slice(0, mark),
      query: new URLSearchParams(mark < 0 ? '' : url.slice(mark + 1)),
    },
    book,
  );
  if (answer === undefined) return undefined;
  if (answer.kind === 'text') return send(response, textOf(answer));
  const { sha256, contentType, headers, absent } = answer;
  const found = assets.find(sha256);
  if (found === undefined) return send(response, textOf(absent));
  const gone = (): Answer => {
    assets.lost(sha256, found);
    return textOf(absent);
  };
  const etag = `"sha256:${sha256}"`;
  const { status, octets } = await sendFile(request, response, {
    file: found,
    contentType,
    etag,
    headers,
    gone,
  });
  metrics.add('muster_http_sent_bytes_total', {}, octets);
  return status;
}

const textOf = ({
  status,
  contentType,
  body,
  headers,
}: Extract<RegistryAnswer, { kind: 'text' }>): Answer => ({
  status,
  contentType,
  body,
  headers,
});
