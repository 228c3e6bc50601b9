/**
 * All operations of the operators' API. The first one that matches a request answers it, so those
 * whose paths begin with a parameter come last.
 *
 * @example
 * type Leases = Answer<'GET /v1/leases'>; // { kind: 'LeaseList', items: … }
 */
import { z } from 'zod';
import type { Frozen, Params, Parsed, RouteContract, RouteKey } from './contract/contract.ts';
import type { Daemon } from './daemon.ts';
import type { Handler, Route } from './handler.ts';
import { openApiText } from './openapi.ts';
import { operation, raw } from './operation.ts';
import { ARTIFACTS } from './operations/artifacts.ts';
import { ASSETS } from './operations/assets.ts';
import { BMCS } from './operations/bmc.ts';
import { BOOT_HOST, HEALTH } from './operations/boot-host.ts';
import { CHANGES } from './operations/changes.ts';
import { CLUSTERS } from './operations/clusters.ts';
import { CREDENTIALS } from './operations/credentials.ts';
import { DOCUMENTS, DOCUMENTS_BY_KIND } from './operations/documents.ts';
import { EVENTS } from './operations/events.ts';
import { EXPLAIN } from './operations/explain.ts';
import { HOSTS } from './operations/hosts.ts';
import { INVENTORY } from './operations/inventory.ts';
import { MACHINE_LIVES } from './operations/life.ts';
import { LOG_IN } from './operations/log-in.ts';
import { MACHINES } from './operations/machines.ts';
import { MEMBERS } from './operations/members.ts';
import { NAMES } from './operations/names.ts';
import { OPERATORS } from './operations/operators.ts';
import { PASSKEYS } from './operations/passkeys.ts';
import { PENDING } from './operations/pending.ts';
import { PKI } from './operations/pki.ts';
import { POWER } from './operations/power.ts';
import { SECRETS } from './operations/secrets.ts';
import { SNAPSHOTS } from './operations/snapshots.ts';
import { TARGETS } from './operations/targets.ts';
import { TIMELINE } from './operations/timeline.ts';

/** What describes the operations themselves. */
const INDEX = [
  operation(
    'GET /v1',
    {
      access: 'view',
      summary: 'Lists the routes.',
      answer: z.strictObject({
        routes: z.array(z.strictObject({ method: z.string(), path: z.string(), summary: z.string() })),
      }),
    },
    () => ({ routes: described().map(({ method, path, summary }) => ({ method, path, summary })) }),
  ),
  operation(
    'GET /openapi.json',
    {
      access: 'open',
      summary: 'Describes all routes (OpenAPI 3.1).',
      answer: z.looseObject({ openapi: z.string() }),
    },
    (_asked, { daemon }: { readonly daemon: Pick<Daemon, 'version'> }) =>
      raw({
        status: 200,
        headers: { 'content-type': 'application/json' },
        body: memoPieces(daemon.version),
      }),
  ),
] as const;

/** The description, which takes a tenth of a second to make, and which anybody may ask for. */
const memo: string[] = [];
async function* memoPieces(version: string): AsyncGenerator<string> {
  if (memo.length > 0) return yield* memo;
  const made: string[] = [];
  for (const piece of openApiText(described(), version)) {
    made.push(piece);
    yield piece;
  }
  memo.splice(0, memo.length, ...made);
}

export const OPERATIONS = [
  ...ASSETS,
  ...ARTIFACTS,
  ...OPERATORS,
  ...LOG_IN,
  ...PASSKEYS,
  ...INDEX,
  ...BOOT_HOST,
  ...HOSTS,
  ...PENDING,
  ...EVENTS,
  ...MACHINES,
  ...MACHINE_LIVES,
  ...EXPLAIN,
  ...TIMELINE,
  ...INVENTORY,
  ...TARGETS,
  ...NAMES,
  ...POWER,
  ...BMCS,
  ...DOCUMENTS,
  ...SECRETS,
  ...PKI,
  ...CHANGES,
  ...CLUSTERS,
  ...CREDENTIALS,
  ...MEMBERS,
  ...SNAPSHOTS,
  ...DOCUMENTS_BY_KIND,
  ...HEALTH,
] as const;

type All = (typeof OPERATIONS)[number];

type Functions<H> = H extends Handler<infer Deps> ? (deps: Deps) => void : never;
/** What all operations need of other rooms. */
export type OperationDeps = Functions<All['handler']> extends (deps: infer Deps) => void ? Deps : never;

/** The same for callers that take any of them. */
export const ROUTES: readonly (Route<OperationDeps> & { readonly key: string })[] = OPERATIONS;

/** The operations without what they do. */
const described = (): readonly Omit<Route<never>, 'handler'>[] => ROUTES;

export type OperationKey = All['key'] & RouteKey;

type In<O extends OperationKey, K extends keyof RouteContract> =
  Extract<All, { readonly key: O }>['contract'] extends Readonly<Record<K, infer S>> ? S : never;

/** The JSON that an operation answers with; a text where it answers with something else. */
export type Answer<O extends OperationKey> =
  In<O, 'answer'> extends z.ZodType ? Parsed<z.output<In<O, 'answer'>>> : string;
/** The JSON that an operation takes. */
export type Body<O extends OperationKey> =
  In<O, 'body'> extends z.ZodType ? Frozen<z.input<In<O, 'body'>>> : never;
/** The parameters of its query. */
export type Query<O extends OperationKey> =
  In<O, 'query'> extends z.ZodType ? Frozen<z.input<In<O, 'query'>>> : never;
export type { Params };

const CONTRACTS: ReadonlyMap<string, RouteContract> = new Map(
  OPERATIONS.map(({ key, contract }) => [key, contract]),
);
/** What an operation takes and answers. */
export const contractOf = (key: OperationKey): RouteContract => CONTRACTS.get(key)!;
