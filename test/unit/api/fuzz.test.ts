/**
 * Operators are not hostile, but their scripts may send anything: every request gets an answer or a
 * problem that blames the request.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ApiRequest } from '../../../src/api/handler.ts';
import { ROUTES } from '../../../src/api/operations.ts';
import { ERRORS, MusterError } from '../../../src/base/errors.ts';
import { INPUTS } from '../fuzzing.ts';
import { withoutTraces } from '../traces.ts';
import { openWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world.close());

const SEED = 0x61706921;
let state = SEED;
function random(below: number): number {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return (state >>> 0) % below;
}
const pick = <T>(choices: readonly T[]): T => choices[random(choices.length)]!;

const WORDS = [
  ...[
    'node-1',
    'worker',
    'machines',
    'networks',
    'leases',
    '52:54:00:aa:00:01',
    'm-525400aa0001',
    'lan',
    'true',
    '',
  ],
  ...[
    '-1',
    '1e99',
    '999999999999999999999',
    '../..',
    '%00',
    'constructor',
    '__proto__',
    'toString',
    'x'.repeat(300),
  ],
];
const BODIES = [
  '{"mac": "52:54:00:aa:00:01", "profile": "worker"}',
  '{"sources": [{"file": "a", "text": "kind: Profile"}]}',
  '{"apiVersion": "muster/v1", "kind": "Profile", "metadata": {"name": "p"}, "spec": {}}',
  'apiVersion: muster/v1\nkind: Machine\nmetadata: {name: x}\nspec: {macs: ["52:54:00:aa:00:0f"]}\n---\n',
  '{"profile": null, "name": ["x"]}',
  '{"__proto__": {"mac": "x"}}',
];

function mutated(text: string): string {
  const bytes = Buffer.from(text);
  for (let n = random(4); n > 0 && bytes.length > 0; n--) bytes[random(bytes.length)] = random(256);
  return bytes.subarray(0, random(5) === 0 ? random(bytes.length + 1) : bytes.length).toString('latin1');
}

/** The signal of a client that has disconnected; without it a stream of events would never end. */
const GONE = AbortSignal.abort();

async function* bodyOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text, 'latin1');
}

function request(path: string, method: string): ApiRequest {
  const names = [...path.matchAll(/:(\w+)/g)].map((found) => found[1]!);
  const keys = [
    'machine',
    'mac',
    'network',
    'arch',
    'firmware',
    'subject',
    'after',
    'limit',
    'follow',
    'dryRun',
  ];
  const query = Array.from({ length: random(3) }, (): [string, string] => [pick(keys), pick(WORDS)]);
  // Nothing may change here: the same world serves all requests.
  const dry: [string, string][] = method === 'GET' ? [] : [['dryRun', 'true']];
  return {
    method,
    params: Object.fromEntries(
      names.map((name) => [name, random(4) === 0 ? mutated(pick(WORDS)) : pick(WORDS)]),
    ),
    query: new URLSearchParams([...dry, ...query]),
    headers: {
      'content-type': pick(['application/json', 'application/yaml', undefined]),
      'if-match': pick([undefined, undefined, '*', '"r1"', ',,,']),
      'last-event-id': pick([undefined, '5', 'x', '99999999999999999']),
    },
    body: bodyOf(mutated(pick(BODIES))),
    signal: GONE,
  };
}

it('answers random requests, each with an answer or a problem', () =>
  withoutTraces(async () => {
    console.log(`api fuzz seed ${SEED}`);
    // These two change something with every query.
    const routes = ROUTES.filter(({ path }) => !/\/(add|accept|reload)$/.test(path) && path !== '/metrics');
    // Routes that read documents or render cost a hundred times the others; their decoders have
    // fuzz tests of their own.
    const costly = (path: string): boolean => /apply|explain|render|:name$/.test(path);
    const cheap = routes.filter(({ path }) => !costly(path));
    const seen = new Map<string, number>();
    for (let n = 0; n < INPUTS; n++) {
      const route = pick(n % 8 === 0 ? routes : cheap);
      const asked = request(route.path, route.method);
      let outcome: string;
      try {
        const { status } = await route.handler(asked, world.deps);
        outcome = String(status);
      } catch (error) {
        // No listener for agents is up here, so approvals have to wait.
        const expected =
          error instanceof MusterError && (ERRORS[error.code].http < 500 || error.code === 'E_AGENT_WAIT');
        if (!expected)
          throw new Error(`${route.method} ${route.path} ${JSON.stringify(asked.params)} ?${asked.query}`, {
            cause: error,
          });
        outcome = (error as MusterError).code;
      }
      seen.set(outcome, (seen.get(outcome) ?? 0) + 1);
    }
    expect([...seen.keys()]).toEqual(
      expect.arrayContaining(['200', 'E_NOT_FOUND', 'E_USAGE', 'E_YAML', 'E_SCHEMA']),
    );
    expect(world.deps.catalog.list('Machine')).toHaveLength(1);
  }));
