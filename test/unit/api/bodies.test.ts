/** Every body and query is read by its schema alone. */
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { OPERATIONS } from '../../../src/api/operations.ts';
import type { MusterError } from '../../../src/base/errors.ts';
import { openWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await openWorld('');
});
afterAll(() => world.close());

/** A value that a schema does not take. */
const wrongFor = (schema: z.ZodType): unknown =>
  [5, 'text', true, [{}], { wrong: 1 }].find((value) => !schema.safeParse(value).success);

/** The objects that a schema takes: one, or one for each value that tells them apart. */
const formsOf = (schema: unknown): readonly z.ZodObject[] =>
  schema instanceof z.ZodObject
    ? [schema]
    : schema instanceof z.ZodDiscriminatedUnion
      ? (schema.options as z.ZodObject[])
      : [];

/** The fields of a form that tell it apart. */
const literalsOf = ({ shape }: z.ZodObject): object =>
  Object.fromEntries(
    Object.entries(shape).flatMap(([field, one]) =>
      one instanceof z.ZodLiteral ? [[field, one.value] as const] : [],
    ),
  );

/** An operation, a field of its body or query, and what tells the form with this field apart. */
const fieldsOf = (what: 'body' | 'query') =>
  OPERATIONS.flatMap(({ key, contract }) =>
    formsOf(what in contract ? (contract as Record<string, unknown>)[what] : undefined).flatMap((form) =>
      Object.entries(form.shape).map(
        ([field, shape]) => [key, field, shape as z.ZodType, literalsOf(form)] as const,
      ),
    ),
  );

const refusal = (key: string, given: object): Promise<MusterError> => {
  const [method = '', pattern = ''] = key.split(' ');
  return world.client.call(method, pattern.replace(/:\w+/g, 'x'), given).then(
    () => expect.fail(`${key} took it`),
    (error) => error as MusterError,
  );
};

it('a field of a wrong type in a body is refused with its path', async () => {
  const fields = fieldsOf('body').map(
    ([key, field, shape, form]) => [key, field, wrongFor(shape), form] as const,
  );
  expect(fields.length).toBeGreaterThan(50);
  for (const [key, field, wrong, form] of fields) {
    if (wrong === undefined) continue;
    const { code, faults } = await refusal(key, { body: { json: { ...form, [field]: wrong } } });
    const paths = faults.map((one) => one.path?.split(/[.[]/)[0]);
    expect([key, code, paths]).toEqual([key, 'E_USAGE', expect.arrayContaining([field])]);
  }
});

it('an unknown field of a body or query is refused with its name', async () => {
  for (const { key, contract } of OPERATIONS) {
    if ('body' in contract && contract.body instanceof z.ZodObject && !('rawBody' in contract)) {
      const { code, message } = await refusal(key, { body: { json: { dryRunn: true } } });
      expect([key, code, message]).toEqual([key, 'E_USAGE', expect.stringMatching(/dryRunn|is missing/)]);
    }
    if ('query' in contract && contract.query.def.catchall?._zod.def.type === 'unknown') continue;
    const { code, message } = await refusal(key, { query: { dryRunn: '1' } });
    expect([key, code, message]).toEqual([key, 'E_USAGE', expect.stringContaining('dryRunn')]);
  }
});

it('a number or switch of a query that is none is refused with its name', async () => {
  for (const [key, field, shape] of fieldsOf('query')) {
    if (shape.safeParse('nonsense').success) continue;
    const { code, message } = await refusal(key, { query: { [field]: 'nonsense' } });
    expect([key, code, message]).toEqual([key, 'E_USAGE', expect.stringContaining(field)]);
  }
});

it('no operation reads JSON by hand', () => {
  const directory = path.join(import.meta.dirname, '../../../src/api/operations');
  const hands = fs
    .readdirSync(directory)
    .filter((file) => fs.readFileSync(path.join(directory, file), 'utf8').includes('JSON.parse('));
  expect(hands).toEqual([]);
});
