/** OpenAPI 3.1 of the operators' API, made from the table of routes. Pure. */
import { z } from 'zod';
import { isRaw, problem, rehearsal } from './contract/contract.ts';
import type { Route } from './handler.ts';

type Row = Omit<Route<never>, 'handler'>;
type Json = Readonly<Record<string, unknown>>;

const PROBLEM = 'application/problem+json';

/**
 * The name of an operation for generated clients: `GET /v1/clusters/:name/backups` becomes
 * `getClustersByNameBackups`.
 */
function operationId({ method, path }: Pick<Row, 'method' | 'path'>): string {
  const words = path
    .replace(/^\/v1/, '')
    .split(/[/.-]/)
    .filter((word) => word !== '')
    .map((word) => (word.startsWith(':') ? `By${capital(word.slice(1))}` : capital(word)));
  return method.toLowerCase() + (words.join('') || 'Index');
}

const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);

/** Answers may get more fields in later versions, so a client must not refuse those. */
const open = ({ jsonSchema }: { readonly jsonSchema: { additionalProperties?: unknown } }): void => {
  if (jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties;
};

/** Makes JSON Schemas; those with an id are kept once, below `components`. */
class Schemas {
  readonly kept: Record<string, Json> = {};

  taken(schema: z.ZodType): Json {
    return this.#keep(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }));
  }

  answered(schema: z.ZodType): Json {
    return this.#keep(z.toJSONSchema(schema, { io: 'output', unrepresentable: 'any', override: open }));
  }

  #keep({ $schema: _, $defs = {}, ...own }: Json): Json {
    for (const [name, one] of Object.entries($defs as Json)) this.kept[name] = moved(one) as Json;
    return moved(own) as Json;
  }
}

/** References to `$defs` become references to the components of the description. */
function moved(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(moved);
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(value).map(([name, inner]) =>
    name === '$ref' && typeof inner === 'string'
      ? [name, inner.replace('#/$defs/', '#/components/schemas/')]
      : [name, moved(inner)],
  );
  return Object.fromEntries(fields);
}

/**
 * Describes all routes, as pieces of JSON: one route takes some milliseconds, and the process
 * answers machines with the same thread.
 */
export function* openApiText(table: readonly Row[], version: string): Generator<string> {
  const schemas = new Schemas();
  const failed = { description: 'A problem.', content: { [PROBLEM]: { schema: schemas.answered(problem) } } };
  const { components, ...head } = frameOf(version);
  yield `${JSON.stringify(head).slice(0, -1)},"paths":{`;
  const paths = Map.groupBy(table, ({ path }) => path.replace(/:(\w+)/g, '{$1}'));
  let between = '';
  for (const [path, rows] of paths) {
    yield `${between}${JSON.stringify(path)}:{`;
    between = '},';
    for (const [n, row] of rows.entries()) {
      const operation = JSON.stringify(operationOf(row, schemas, failed));
      yield `${n === 0 ? '' : ','}"${row.method.toLowerCase()}":${operation}`;
    }
  }
  const kept = Object.fromEntries(Object.entries(schemas.kept).sort(([a], [b]) => (a < b ? -1 : 1)));
  yield `}},"components":${JSON.stringify({ schemas: kept, ...components })}}\n`;
}

/** The same as a value. */
export const openApiOf = (table: readonly Row[], version: string): Json =>
  JSON.parse([...openApiText(table, version)].join(''));

const frameOf = (version: string) => ({
  openapi: '3.1.0',
  info: {
    title: 'Muster',
    version,
    description: "The operators' API. Errors are problem details (RFC 9457) with codes of docs/errors.md.",
  },
  security: [{ bearer: [] }, { session: [] }],
  components: {
    securitySchemes: {
      session: { type: 'apiKey', in: 'cookie', name: '__Host-muster' },
      bearer: { type: 'http', scheme: 'bearer' },
    },
  },
});

function operationOf(row: Row, schemas: Schemas, failed: Json): Json {
  const body = bodyOf(row, schemas);
  return {
    operationId: operationId(row),
    summary: row.summary,
    'x-muster-access': row.access,
    ...(row.access === 'open' && { security: [] }),
    parameters: [...pathParameters(row), ...queryParameters(row, schemas), ...headerParameters(row)],
    ...(body && { requestBody: body }),
    responses: {
      ...Object.fromEntries((row.statuses ?? [200]).map((status) => [status, answerOf(row, schemas)])),
      ...(row.rehearsed && { 200: rehearsedOf(row, schemas) }),
      default: failed,
    },
  };
}

const pathParameters = ({ path }: Row): readonly Json[] =>
  [...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));

const queryParameters = ({ query }: Row, schemas: Schemas): readonly Json[] =>
  Object.entries(query?.shape ?? {}).map(([name, shape]) => {
    const { description, ...schema } = schemas.taken(shape as z.ZodType);
    const required = !(shape as z.ZodType).safeParse(undefined).success;
    return { name, in: 'query', required, ...(description !== undefined && { description }), schema };
  });

const headerParameters = ({ conditional, streams, method }: Row): readonly Json[] => [
  ...(conditional && method !== 'GET'
    ? [
        header('If-Match', 'Refuses with 412 unless the document has this ETag.'),
        header('If-None-Match', '`*`: refuses with 412 when the document exists.'),
      ]
    : []),
  ...(streams ? [header('Last-Event-ID', 'Continues a stream after this event.')] : []),
];

const header = (name: string, description: string): Json => ({
  name,
  in: 'header',
  description,
  schema: { type: 'string' },
});

const octets = (description: string): Json => ({ schema: { type: 'string', description } });

function bodyOf({ body, rawBody }: Row, schemas: Schemas): Json | undefined {
  if (body === undefined && rawBody === undefined) return undefined;
  return {
    required: body === undefined || !body.safeParse({}).success,
    content: {
      ...(body && { 'application/json': { schema: schemas.taken(body) } }),
      ...(rawBody && { [rawBody.raw]: octets(rawBody.about) }),
    },
  };
}

/** Status 200 of a route that is rehearsed: its answer, or with `dryRun` what it would do. */
function rehearsedOf(row: Row, schemas: Schemas): Json {
  const { content, ...answer } = (row.statuses ?? [200]).includes(200)
    ? (answerOf(row, schemas) as { content: Readonly<Record<string, { schema: Json }>> })
    : { description: row.summary, content: {} as Readonly<Record<string, { schema: Json }>> };
  const { 'application/json': usual, ...others } = content;
  const dry = schemas.answered(rehearsal);
  const schema = usual === undefined ? dry : { anyOf: [usual.schema, dry] };
  return { ...answer, content: { 'application/json': { schema }, ...others } };
}

function answerOf({ answer, summary, streams, conditional }: Row, schemas: Schemas): Json {
  return {
    description: summary,
    ...(conditional && {
      headers: { ETag: { description: 'Changes with the document.', schema: { type: 'string' } } },
    }),
    content: {
      ...(isRaw(answer)
        ? { [answer.raw]: octets(answer.about) }
        : { 'application/json': { schema: schemas.answered(answer) } }),
      ...(streams && { 'text/event-stream': octets('Server-sent events; `id` is the sequence number.') }),
    },
  };
}
