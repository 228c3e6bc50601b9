/** No message repeats a value where somebody may have written a secret. */
import { expect, test } from 'vitest';
import { parseDocuments } from '../../../src/resources/document.ts';

const messages = (spec: string, kind = 'Cluster'): readonly string[] =>
  parseDocuments(
    `apiVersion: muster/v1\nkind: ${kind}\nmetadata: {name: x}\nspec: ${spec}\n`,
    'a.yaml',
  ).faults.map(({ path, message }) => `${path}: ${message}`);

const registry = (login: string): string =>
  `{kubernetes: {version: "1.36", endpoint: a.example, controlPlanes: [a], registries: [{registry: x.example, login: ${login}}]}}`;

test.each([
  ['a password of a registry', registry('{username: a, password: hunter2}'), 'Cluster'],
  ['a login of a registry', registry('hunter2'), 'Cluster'],
  ['a password that is a number', registry('{username: a, password: 7070707}'), 'Cluster'],
  ['an unknown key below a login', registry('{username: a, token: hunter2}'), 'Cluster'],
  [
    'the secret of a webhook',
    '{url: "https://x.example/", events: [boot.ready], secret: hunter2}',
    'Webhook',
  ],
  [
    'a login in the URL of a webhook',
    '{url: "https://a:hunter2@x.example/", events: [boot.ready], secret: 7070707}',
    'Webhook',
  ],
  ['a hash of a password', '{boot: hold, config: {users: [{name: a, passwordHash: hunter2}]}}', 'Profile'],
])('%s is in no message', (_, spec, kind) => {
  const told = messages(spec, kind);
  expect(told.length).toBeGreaterThan(0);
  expect(told.join()).not.toMatch(/hunter2|7070707/);
});

test('a password in a document is answered with what to write instead', () => {
  expect(messages(registry('{username: a, password: hunter2}'))[0]).toMatch(
    /password: a secret is not written .*muster secret put NAME KEY.*\{valueFrom: \{secret: NAME, key: KEY\}\}/,
  );
});

test('a wrong key in a reference to a Secret is answered with the right ones', () => {
  const told = messages(registry('{username: a, password: {valueFrom: {secretName: x, key: y}}}'));
  expect(told.join()).toMatch(/valueFrom\.secret: is missing: text/);
  expect(told.join()).toMatch(/unknown key "secretName"; (did you mean "secret"|known here: secret, key)/);
});
