/**
 * A client in another language: Debian's OpenAPI::Client makes it in Perl from the document that a
 * running server serves, and checks each answer against that document.
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { OPERATIONS } from '../../src/api/operations.ts';
import { type BootHost, openBootHost } from '../../src/lab/simulated/boot-host.files.ts';
import { unpacked } from './unpacked.ts';

const PACKAGE = unpacked('libopenapi-client-perl', 'usr/share/perl5/OpenAPI/Client.pm').command;
let host: BootHost;

beforeAll(async () => {
  host = await openBootHost(1);
});
afterAll(() => host?.close());

/** Where the package and what it needs keep their modules; the versions of Perl differ. */
function modules(): string {
  const usr = PACKAGE.slice(0, PACKAGE.indexOf('/share/'));
  const kept = ['share/perl', 'lib/x86_64-linux-gnu/perl5', 'lib/x86_64-linux-gnu/perl'].flatMap((at) =>
    fs.existsSync(`${usr}/${at}`) ? fs.readdirSync(`${usr}/${at}`).map((one) => `${usr}/${at}/${one}`) : [],
  );
  return [`${usr}/share/perl5`, ...kept].join(':');
}

type Call = readonly [operation: string, parameters: object, content?: object];
interface Answers {
  readonly operations: readonly string[];
  readonly answers: readonly { status: number | string; etag?: string; body: unknown; faults: string[] }[];
}

const ask = (...calls: readonly Call[]): Answers =>
  JSON.parse(
    execFileSync('perl', [path.join(import.meta.dirname, 'openapi-client.pl'), host.socket], {
      input: JSON.stringify(
        calls.map(([operation, parameters, content]) => [operation, parameters, content ?? {}]),
      ),
      env: { ...process.env, PERL5LIB: modules() },
      encoding: 'utf8',
    }),
  );

const profile = (boot: string) =>
  `apiVersion: muster/v1\nkind: Profile\nmetadata: {name: worker}\nspec: {boot: ${boot}}\n`;
const worker = { kind: 'profiles', name: 'worker' };

test('a client that Perl makes from /openapi.json has every operation, and each answer has the form that is described', () => {
  const { operations, answers } = ask(
    ['getVersion', {}],
    ['getStatus', {}],
    ['getInventory', {}],
    ['putByKindByName', { ...worker, 'If-None-Match': '*' }, { body: profile('hold') }],
    ['putByKindByName', { ...worker, 'If-None-Match': '*' }, { body: profile('hold') }],
    ['putByKindByName', { ...worker, dryRun: true }, { body: profile('nothing') }],
    ['getByKindByName', worker],
    ['getByKind', { kind: 'profiles', fields: 'metadata.name=worker', limit: 10 }],
    ['deleteByKindByName', worker],
    ['getByKindByName', worker],
    ['getEvents', {}],
  );
  expect(operations).toHaveLength(OPERATIONS.length);
  expect(answers.map(({ faults }) => faults)).toEqual(answers.map(() => []));
  expect(answers.map(({ status }) => Number(status))).toEqual([
    200, 200, 200, 201, 412, 422, 200, 200, 200, 404, 200,
  ]);
  expect(answers[6]!.etag).toBe(answers[3]!.etag);
  expect(answers[7]!.body).toMatchObject({
    items: [{ metadata: { name: 'worker' }, spec: { boot: 'hold' } }],
  });
  expect(answers[9]!.body).toMatchObject({ code: 'E_NOT_FOUND', fix: expect.any(String) });
});

test('that client refuses what the document forbids before it sends it', () => {
  const [answer] = ask(['getByKind', { kind: 'profiles', limit: -1 }]).answers;
  expect(answer).toMatchObject({
    status: 400,
    body: { errors: [{ path: '/limit', message: expect.stringContaining('minimum') }] },
  });
});
