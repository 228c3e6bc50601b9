/** Generates docs/reference/api.md from the table of routes. */
import { isRaw } from '../src/api/contract/contract.ts';
import { openApiOf } from '../src/api/openapi.ts';
import { ROUTES } from '../src/api/operations.ts';
import { code, generatedFrom, table } from './markdown.ts';

interface Shape {
  readonly $ref?: string;
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Shape[];
  readonly oneOf?: readonly Shape[];
  readonly items?: Shape;
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Shape | boolean;
  readonly description?: string;
}
interface Operation {
  readonly operationId: string;
  readonly parameters: readonly {
    readonly name: string;
    readonly in: string;
    readonly required?: boolean;
    readonly description?: string;
    readonly schema: Shape;
  }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Shape }>> };
  readonly responses: Readonly<
    Record<string, { readonly content: Readonly<Record<string, { readonly schema: Shape }>> }>
  >;
}
interface Description {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Shape>> };
}

/** Deeper fields are left to the description itself. */
const DEPTH = 3;

/** A shape in the notation of TypeScript. */
function notation(shape: Shape, depth = DEPTH): string {
  if (shape.$ref !== undefined) return shape.$ref.split('/').at(-1)!;
  if (shape.const !== undefined) return JSON.stringify(shape.const);
  if (shape.enum) return shape.enum.map((one) => JSON.stringify(one)).join(' | ');
  const choices = shape.anyOf ?? shape.oneOf;
  if (choices) return choices.map((one) => notation(one, depth)).join(' | ');
  if (shape.type === 'array') return `[${notation(shape.items ?? {}, depth)}]`;
  if (shape.type === 'integer') return 'number';
  if (shape.type !== 'object') return shape.type ?? 'any';
  const fields = Object.entries(shape.properties ?? {});
  if (fields.length > 0 && depth > 0) {
    const mark = (name: string) => (shape.required?.includes(name) ? '' : '?');
    return `{ ${fields.map(([name, one]) => `${name}${mark(name)}: ${notation(one, depth - 1)}`).join(', ')} }`;
  }
  if (typeof shape.additionalProperties === 'object')
    return `{ [name]: ${notation(shape.additionalProperties, depth)} }`;
  return '{ … }';
}

const named = (operation: Operation, where: string): readonly (readonly string[])[] =>
  operation.parameters
    .filter((one) => one.in === where)
    .map((one) => [
      code(one.name),
      code(notation(one.schema)),
      `${one.description ?? ''}${one.required && where === 'query' ? ' Required.' : ''}`,
    ]);

function section(row: (typeof ROUTES)[number], operation: Operation): string {
  const { answer, statuses = [200] } = row;
  const query = [...named(operation, 'query'), ...named(operation, 'header')];
  const bodies = Object.entries(operation.requestBody?.content ?? {}).map(([type, { schema }]) =>
    type === 'application/json' ? code(notation(schema)) : `${type}: ${schema.description ?? ''}`,
  );
  const json = operation.responses[String(statuses[0])]?.content['application/json'];
  const answered = isRaw(answer) ? `${answer.raw}: ${answer.about}` : code(notation(json?.schema ?? {}));
  return (
    `\n### ${row.method} ${row.path}\n\n${row.summary}\n\n` +
    `Needs ${code(row.access)}. Operation ${code(operation.operationId)}.\n\n` +
    (query.length === 0 ? '' : `${table(['query or header', 'type', 'meaning'], query)}\n`) +
    (bodies.length === 0 ? '' : `Body: ${bodies.join(', or ')}\n\n`) +
    `Answer${statuses.length === 1 && statuses[0] === 200 ? '' : ` (${statuses.join(', ')})`}: ${answered}\n`
  );
}

export function apiPage(): string {
  const { paths, components } = openApiOf(ROUTES, '') as unknown as Description;
  const sections = ROUTES.map((row) => {
    const path = row.path.replace(/:(\w+)/g, '{$1}');
    return section(row, paths[path]![row.method.toLowerCase()]!);
  });
  const shapes = Object.entries(components.schemas).map(
    ([name, shape]) =>
      `\n### ${name}\n\n${shape.description === undefined ? '' : `${shape.description}\n\n`}${code(notation(shape))}\n`,
  );
  return `${generatedFrom('the files src/api/operations/*.ts')}# The operators' API\n\n${RULES}\n\n## Routes\n${sections.join('')}\n## Shapes\n${shapes.join('')}`;
}

const RULES = [
  '`GET /openapi.json` describes all of this as OpenAPI 3.1, for generated clients.',
  'A parameter that a route does not have is refused, so a misspelt `dryRun` changes nothing.',
  'Errors are problem details (RFC 9457): [Problem](#problem) with a code of [errors](../errors.md).',
  'Later versions may add fields to answers; clients ignore those that they do not know.',
  'Who may use which route: [ports](../ports.md#routes-for-operators).',
].join('\n\n');
