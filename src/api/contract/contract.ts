/**
 * What a route takes and answers, as data: the server checks queries and bodies by it, and OpenAPI,
 * the client and the reference pages are made from it. Pure; imports nothing of the server.
 */
import { z } from 'zod';
import { fault, type Parsed, reason, spot, texts, time } from '../../base/body.ts';
import type { Access, Takes } from '../access.ts';

export type Method = 'GET' | 'PUT' | 'POST' | 'DELETE';
/** `METHOD /path`; `:name` in the path is a parameter: one segment. */
export type RouteKey = `${Method} /${string}`;

/** A body or an answer that is not JSON. */
export interface Raw {
  readonly raw: string;
  readonly about: string;
}

/** What one route takes and answers. */
export interface RouteContract {
  /** What a client must be allowed to do. */
  readonly access: Access;
  /** One sentence, for the index of the API and the docs. */
  readonly summary: string;
  /** The handler records what happened; the request itself is not recorded as an action. */
  readonly unrecorded?: true;
  /** The parameters of the query: texts, whole numbers, switches or one of several words. */
  readonly query?: z.ZodObject;
  /** The JSON of the body. */
  readonly body?: z.ZodType;
  /** A body that is not JSON; with `body` as well, the client chooses by its content type. */
  readonly rawBody?: Raw;
  /** The JSON of the answer, or what it is instead. */
  readonly answer: z.ZodType | Raw;
  /** The answer is a stream of events when the client asks for one. */
  readonly streams?: true;
  /** The statuses of answers that are no problem. Default: 200. */
  readonly statuses?: readonly number[];
  /** What it takes besides the role; of every operation that changes something. */
  readonly takes?: Takes;
  /**
   * Operators with a role for certain clusters may use it as well. Its handler answers with what
   * belongs to these clusters only (`within` of the request).
   */
  readonly within?: true;
  /**
   * The server works long for it, so that one operator may ask for it a limited number of times.
   * `preview`: for its `dryRun`.
   */
  readonly costly?: true | 'preview';
  /** It reads If-Match and If-None-Match, and its answers have an ETag. */
  readonly conditional?: true;
}

export type Contracts = Readonly<Record<RouteKey, RouteContract>>;

type Names<Path extends string> = Path extends `${infer Segment}/${infer Rest}`
  ? Names<Segment> | Names<Rest>
  : Path extends `:${infer Name}`
    ? Name
    : never;
/** The parameters of the path of an operation. */
export type Params<O extends RouteKey> = { readonly [K in Names<O>]: string };

/**
 * A value that an operation may answer with: nothing of it is changed, and where a schema takes
 * more fields, they are not told apart.
 */
export type Answerable<T> = T extends readonly (infer U)[]
  ? readonly Answerable<U>[]
  : T extends object
    ? {
        readonly [K in keyof T as string extends K ? (unknown extends T[K] ? never : K) : K]: Answerable<
          T[K]
        >;
      }
    : T;
/** A value that becomes JSON: nothing of it is changed, and undefined fields are left out. */
export type Frozen<T> = T extends object ? { readonly [K in keyof T]: Frozen<T[K]> } : T;

export const raw = (type: string, about: string): Raw => ({ raw: type, about });
export const isRaw = (shape: z.ZodType | Raw): shape is Raw => 'raw' in shape;

/** A switch of a query: on with no value, `true` or `1`. */
export const on = (about: string) => z.boolean().optional().meta({ description: about });
/** A whole number of a query. */
export const count = (about: string, max: number) =>
  z.int().min(0).max(max).optional().meta({ description: about });
/** A text of a query. */
export const word = (about: string) => z.string().optional().meta({ description: about });

/** The most items that one request may ask for. */
export const MAX_LIMIT = 100_000;

/** The query of every list: which items, how many, and after which one. */
export const part = {
  fields: word('Only with these values of fields: `status.phase=ready,spec.profile!=worker`.'),
  limit: count('At most so many items.', MAX_LIMIT),
  continue: word('Only items after this one: what an answer with a limit had as `continue`.'),
};
export type Part = Partial<Readonly<Record<'fields' | 'continue' | 'labels', string | undefined>>> & {
  readonly limit?: number | undefined;
};
/** The query of lists whose items have labels, or are about machines, which have them. */
export const labelledPart = { labels: word('Only with these labels: `rack=a,role!=db`.'), ...part };

/** What the answer of every list has. */
export const itemsOf = <T extends z.ZodType>(item: T) => ({
  items: z.array(item),
  continue: z.string().optional().meta({ description: 'There are more items after this one.' }),
});
/** The answer of a list. */
export const listOf = <K extends string, T extends z.ZodType>(kind: K, item: T) =>
  z.strictObject({ kind: z.literal(kind), ...itemsOf(item) });

export const dryRun = on('Checks everything, answers what would happen, and changes nothing.');

/** What the server answers to `dryRun` where a route has no preview of its own. */
export const rehearsal = z
  .strictObject({
    dryRun: z.literal(true),
    would: z.string().meta({ description: 'What the route does.' }),
    changes: z
      .array(z.string())
      .meta({ description: 'The first changes, such as `put operator/ada`; none: nothing would change.' }),
  })
  .meta({ id: 'Rehearsal', description: 'A request passed all checks before its first change.' });

/**
 * Whether the server rehearses a route when it is asked for `dryRun`: all that change something,
 * except those with a preview of their own, log-ins, and a person's own passkeys.
 */
export const isRehearsed = (method: Method, { access, query }: RouteContract): boolean =>
  method !== 'GET' && access !== 'open' && access !== 'own' && query?.shape.dryRun === undefined;

/** The query of a route that the server rehearses. */
export const rehearsed = ({ query }: RouteContract) => (query ?? z.strictObject({})).extend({ dryRun });

export { fault, type Parsed, reason, texts, time };
/** What repeats a name, for an order that may lose data. */
export const confirm = z.string().optional().meta({ description: 'The cluster’s name, repeated.' });

/** Where a document is kept. */
export const origin = z.discriminatedUnion('from', [
  z.strictObject({ from: z.literal('file'), at: spot }),
  z.strictObject({ from: z.literal('api'), revision: z.int() }),
]);

/** RFC 9457, with `code`, `fix`, `errors` and `reason` of Muster. */
export const problem = z
  .strictObject({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.string().meta({ description: 'A code of docs/errors.md.' }),
    fix: z.string().meta({ description: 'What to do about it.' }),
    errors: z.array(fault).meta({ description: 'All faults.' }),
    reason: z
      .string()
      .optional()
      .meta({ description: 'Which of the causes of the code it is, such as `idle` of E_UNAUTHENTICATED.' }),
  })
  .meta({ id: 'Problem', description: 'RFC 9457, with a code of the catalogue.' });
