/**
 * The table of routes of the operators' API. The first route that matches answers, so paths with a
 * parameter come after literal paths that would also match.
 *
 * @example
 * type Leases = Answer<'GET /v1/leases'>; // { kind: 'LeaseList', items: … }
 */
import type { z } from 'zod';
import { ACCOUNTS } from './accounts.ts';
import { CHANGES } from './changes.ts';
import { CLUSTERS } from './clusters.ts';
import type { RouteContract } from './contract.ts';
import { DOCUMENTS, DOCUMENTS_BY_KIND } from './documents.ts';
import { EVENTS } from './events.ts';
import { ARTIFACTS, ASSETS } from './files.ts';
import { INVENTORY } from './inventory.ts';
import { LOG_IN } from './log-in.ts';
import { MACHINES } from './machines.ts';
import { PASSKEYS } from './passkeys.ts';
import { PENDING } from './pending.ts';
import { PKI, SECRETS } from './pki.ts';
import { HEALTH, SERVER } from './server.ts';
import { TIMELINE } from './timeline.ts';

export const CONTRACTS = {
  ...ASSETS,
  ...ARTIFACTS,
  ...ACCOUNTS,
  ...LOG_IN,
  ...PASSKEYS,
  ...SERVER,
  ...PENDING,
  ...EVENTS,
  ...MACHINES,
  ...TIMELINE,
  ...INVENTORY,
  ...DOCUMENTS,
  ...SECRETS,
  ...PKI,
  ...CHANGES,
  ...CLUSTERS,
  ...DOCUMENTS_BY_KIND,
  ...HEALTH,
} as const;

type Table = typeof CONTRACTS;
export type Operation = keyof Table;

/** A value that becomes JSON: nothing of it is changed, and undefined fields are left out. */
type Frozen<T> = T extends object ? { readonly [K in keyof T]: Frozen<T[K]> } : T;
/** A value as it comes out of JSON, which has no undefined. */
type Parsed<T> = T extends object ? { readonly [K in keyof T]: Parsed<Exclude<T[K], undefined>> } : T;

type In<O extends Operation, K extends keyof RouteContract> = Table[O] extends Record<K, infer S> ? S : never;

/** The JSON that an operation answers with; a text where it answers with something else. */
export type Answer<O extends Operation> =
  In<O, 'answer'> extends z.ZodType ? Parsed<z.output<In<O, 'answer'>>> : string;
/** The JSON that an operation takes. */
export type Body<O extends Operation> =
  In<O, 'body'> extends z.ZodType ? Frozen<z.input<In<O, 'body'>>> : never;
/** The parameters of its query. */
export type Query<O extends Operation> =
  In<O, 'query'> extends z.ZodType ? Frozen<z.input<In<O, 'query'>>> : never;

type Names<Path extends string> = Path extends `${infer Segment}/${infer Rest}`
  ? Names<Segment> | Names<Rest>
  : Path extends `:${infer Name}`
    ? Name
    : never;
/** The parameters of its path. */
export type Params<O extends Operation> = { readonly [K in Names<O>]: string };

export const contractOf = (operation: Operation): RouteContract => CONTRACTS[operation];
