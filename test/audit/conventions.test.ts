/** The conventions of the code that a machine can check. */
import { expect, test } from 'vitest';
import { VERSION } from '../../src/base/version.ts';
import { NEED_ARTIFACTS } from '../artifacts.ts';
import { LONG, QUICK_SCENARIOS, TORTURE, TORTURE_SCENARIOS } from '../stages.ts';
import { read, sources, trackedFiles, withoutComments } from './tree.ts';

const EDGE = /\.(server|socket|files)\.ts$/;

/** Lines of non-comment code in src that `pattern` finds, as `file:line: text`. */
function findings(pattern: RegExp, files = sources('src')): string[] {
  return files.flatMap((file) =>
    withoutComments(read(file))
      .split('\n')
      .flatMap((line, n) => (pattern.test(line) ? [`${file}:${n + 1}: ${line.trim()}`] : [])),
  );
}

test('only the clock and edge files read the time or set timers', () => {
  const pure = sources('src').filter(
    (file) => !/^src\/(page\/)?base\/clock\.ts$/.test(file) && !EDGE.test(file),
  );
  expect(
    findings(
      /\bDate\.now\(|\bnew Date\(\)|\bperformance\.now\(|\b(setTimeout|setInterval|setImmediate)\(/,
      pure,
    ),
  ).toEqual([]);
});

/** Optional members of types of dependencies, and where the server really lacks them. */
const LACKING: Readonly<Record<string, string>> = {
  'src/agent/serve/agents.ts AgentsDeps.made': 'tests of agents read tickets by it',
  'src/api/accounts/accounts.ts AccountsDeps.provider': 'without an identity provider',
  'src/api/accounts/provider.socket.ts ProviderDeps.authority': 'a provider whose CA the system trusts',
  'src/api/accounts/provider.socket.ts ProviderDeps.secret': 'a public client has none',
  'src/api/api.server.ts ServerDeps.actions': 'the listener of metrics changes nothing',
  'src/api/api.server.ts ServerDeps.systemCalls': 'a Node.js without FFI',
  'src/api/operations/boot-host.ts Deps.page': 'without a listener for browsers',
  'src/api/operations/log-in.ts Deps.page': 'without a listener for browsers',
  'src/api/operations/operators.ts Deps.page': 'without a listener for browsers',
  'src/api/operations/passkeys.ts Deps.page': 'without a listener for browsers',
  'src/api/operations/pending.ts Deps.pending': 'orders need no second person',
  'src/api/pending.ts SecondDeps.pending': 'orders need no second person',
  'src/pki/pki.ts PkiDeps.lifetimes': 'tests end CAs early',
  'src/pki/server-certificate.ts ServerCertificateDeps.listener': 'the listener of agents',
  'src/pki/server-certificate.ts ServerCertificateDeps.names': 'agents know addresses only',
  'src/pxe/http/serve.server.ts ServeDeps.cached': 'a Node.js without FFI',
};

test('dependencies are optional only where the server really lacks them', () => {
  const found = sources('src').flatMap((file) =>
    [...read(file).matchAll(/^(?:export )?(?:interface|type) (\w*Deps)\b[^;{]*\{[\s\S]*?^\}/gm)].flatMap(
      ([body, name]) =>
        [...body.matchAll(/^ {2}(?:readonly )?(\w+)\?[:(]/gm)].map(
          ([, member]) => `${file} ${name}.${member}`,
        ),
    ),
  );
  expect(found.toSorted()).toEqual(Object.keys(LACKING).toSorted());
});

test('there are no default exports', () => {
  expect(findings(/^\s*export\s+default\b|\bas default\b/)).toEqual([]);
});

test('no file has a TODO or FIXME', () => {
  const files = trackedFiles().filter(
    (file) => /\.(ts|sh|pl)$/.test(file) && !file.startsWith('test/audit/'),
  );
  const marks = new RegExp(
    `\\b(${['TO', 'FIX', 'X'].map((a, n) => a + ['DO', 'ME', 'XX'][n]).join('|')})\\b`,
  );
  const found = files.flatMap((file) =>
    read(file)
      .split('\n')
      .flatMap((line, n) => (marks.test(line) ? [`${file}:${n + 1}: ${line.trim()}`] : [])),
  );
  expect(found).toEqual([]);
});

test('no test is skipped, focused or empty', () => {
  const files = sources('test').filter(
    (file) => file.endsWith('.test.ts') && !file.startsWith('test/audit/'),
  );
  expect(findings(/\b(it|test|describe)\.(only|skip|todo|fails)\b/, files)).toEqual([]);
});

test('only tests that need artifacts that CI cannot have are skipped by a condition, and they are in the one list', () => {
  const files = [...sources('test'), ...sources('torture')].filter(
    (file) => file.endsWith('.test.ts') && !file.startsWith('test/audit/'),
  );
  const skipping = files.filter((file) => /\.(skipIf|runIf)\b|\bskip\(/.test(withoutComments(read(file))));
  expect(skipping).toEqual(Object.keys(NEED_ARTIFACTS));
});

test('within a file every test has a different title', () => {
  const wrong = sources('test')
    .filter((file) => file.endsWith('.test.ts'))
    .flatMap((file) => {
      const names = [...read(file).matchAll(/^\s*(?:it|test)\(\s*(['"`])(.*?)\1,/gm)].map(
        (found) => found[2]!,
      );
      const twice = names.filter((name, n) => names.indexOf(name) !== n && !name.includes('${'));
      return twice.map((name) => `${file}: ${name}`);
    });
  expect(wrong).toEqual([]);
});

test('the version in the code is that of package.json', () => {
  expect(JSON.parse(read('package.json')).version).toBe(VERSION);
});

test('every source file says in its first lines what it contains', () => {
  expect(sources('src').filter((file) => !/^(#!.*\n)?\/\*\*/.test(read(file)))).toEqual([]);
});

test('the files and scenarios that run only in some stages exist, and are listed once', () => {
  const files = [...Object.values(LONG).flatMap((part) => Object.keys(part)), ...Object.keys(TORTURE)];
  const scenarios = [QUICK_SCENARIOS, TORTURE_SCENARIOS].flatMap((list) => Object.keys(list));
  const listed = [
    ...files.map((name) => `test/peers/${name}.test.ts`),
    ...scenarios.map((name) => `lab/${name}.yaml`),
  ];
  expect(listed.filter((file, n) => !trackedFiles().includes(file) || listed.indexOf(file) !== n)).toEqual(
    [],
  );
});
