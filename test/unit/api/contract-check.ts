/**
 * Compares what routes take and answer in tests with their contracts: every answer must fit its
 * schema, without a field that the schema does not have, and so must every body that was accepted.
 */
import { isRaw } from '../../../src/api/contract/contract.ts';
import type { ApiRequest, ApiResponse, Route } from '../../../src/api/handler.ts';

interface Checked<D> {
  readonly routes: readonly Route<D>[];
  /** Throws what did not fit. */
  complain(): void;
}

/** The same routes, which note what does not fit. */
export function checkedRoutes<D>(routes: readonly Route<D>[]): Checked<D> {
  const wrong: string[] = [];
  const note = (route: Route<D>, text: string) => wrong.push(`${route.method} ${route.path}: ${text}`);
  return {
    routes: routes.map((route) => ({
      ...route,
      handler: async (request, deps) => {
        const read: Uint8Array[] = [];
        const response = await route.handler({ ...request, body: copied(request.body, read) }, deps);
        if (response.status >= 400) return response;
        checkTaken(route, request, Buffer.concat(read).toString(), (text) => note(route, text));
        return answered(route, response, (text) => note(route, text));
      },
    })),
    complain() {
      if (wrong.length > 0) throw new Error(wrong.join('\n'));
    },
  };
}

async function* copied(from: AsyncIterable<Uint8Array>, into: Uint8Array[]) {
  for await (const piece of from) {
    into.push(piece);
    yield piece;
  }
}

function checkTaken(
  { body, rawBody }: Route<never>,
  { headers }: ApiRequest,
  text: string,
  note: (text: string) => void,
): void {
  if (text === '') return;
  const json = headers['content-type']?.startsWith('application/json') ?? rawBody === undefined;
  if (body === undefined && rawBody === undefined) note('has a body that its contract does not name');
  if (body === undefined || (rawBody !== undefined && (!json || !text.includes('"sources"')))) return;
  const read = body.safeParse(JSON.parse(text));
  if (!read.success) note(`the body that it accepted does not fit: ${read.error.message}`);
}

function answered(route: Route<never>, response: ApiResponse, note: (text: string) => void): ApiResponse {
  const { answer, statuses = [200], streams } = route;
  const type = response.headers?.['content-type'] ?? '';
  if (!statuses.includes(response.status)) note(`has no status ${response.status}`);
  if (streams && type === 'text/event-stream') return response;
  if (isRaw(answer)) {
    if (!type.startsWith(answer.raw)) note(`answered with ${type} instead of ${answer.raw}`);
    return response;
  }
  const check = (text: string): void => {
    const read = answer.safeParse(JSON.parse(text));
    if (!read.success) note(`the answer does not fit: ${read.error.message} ${text.slice(0, 2000)}`);
  };
  if (typeof response.body === 'string') check(response.body);
  else if (response.body) return { ...response, body: whole(response.body, check) };
  return response;
}

async function* whole(pieces: AsyncIterable<string | Uint8Array>, check: (text: string) => void) {
  let text = '';
  for await (const piece of pieces) {
    text += piece;
    yield piece;
  }
  check(text);
}
