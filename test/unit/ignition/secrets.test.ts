/**
 * References to Secrets in configurations: no first configuration has the values or their places.
 */
import { expect, test } from 'vitest';
import { checkAll } from '../../../src/cluster/resolve/check-documents.ts';
import { fromSecrets } from '../../../src/ignition/secrets.ts';
import type { Candidate, CandidateSet } from '../../../src/resources/candidate.ts';
import { parseDocuments } from '../../../src/resources/document.ts';
import type { Kind } from '../../../src/resources/kinds.ts';
import { plainSecretIn } from '../../../src/resources/plain-secrets.ts';
import { DEBIAN_12, DEBIAN_13, FEDORA, FLATCAR, rendered, renderOne } from './kit.ts';

/** Apart, so that no line of this file looks like a key. */
const BEGIN = '-----BEGIN';
const TOKEN = { valueFrom: { secret: 'app', key: 'token' } };
const CONFIG = {
  users: [{ name: 'ops', passwordHash: { valueFrom: { secret: 'admin', key: 'hash' } } }],
  files: [
    { path: '/etc/first', content: 'one' },
    { path: '/etc/${machine.name}/token', mode: '0600', content: TOKEN },
    { path: '/etc/last', content: 'two' },
  ],
};

test.for([
  ['cloud-init 22.4', DEBIAN_12],
  ['cloud-init 25.1', DEBIAN_13],
  ['Flatcar', FLATCAR],
  ['Fedora CoreOS', FEDORA],
] as const)(
  '%s gets the other files and a locked user; the agent gets the rest, with templates filled in',
  ([, image]) => {
    const { files, merged, kernelArguments } = rendered(CONFIG, image);
    const served = JSON.stringify([files, kernelArguments]);
    for (const name of ['admin', 'valueFrom', '/token']) expect(served).not.toContain(name);
    expect(served).toContain('/etc/first');
    expect(served).toContain('/etc/last');
    if (image.configFormat === 'cloud-init') expect(files['user-data']).toContain('lock_passwd: true');
    else expect(files.ignition).not.toContain('passwordHash');
    expect(fromSecrets(merged)).toEqual({
      users: [{ name: 'ops', from: { secret: 'admin', key: 'hash' } }],
      files: [
        {
          path: '/etc/node-1/token',
          mode: '0600',
          owner: undefined,
          group: undefined,
          from: TOKEN.valueFrom,
        },
      ],
    });
  },
);

test.for([
  ['cloudInit', 'write_files: [{path: /a, content: {valueFrom: {secret: app, key: token}}}]'],
  [
    'ignition',
    '{"storage": {"files": [{"path": "/a", "contents": {"valueFrom": {"secret": "app", "key": "token"}}}]}}',
  ],
] as const)('a reference inside extra.%s is refused, because nobody would fill it in', ([kind, text]) => {
  const result = renderOne({ extra: { [kind]: text } }, kind === 'ignition' ? FLATCAR : DEBIAN_13);
  expect(result).toMatchObject({
    ok: false,
    faults: expect.arrayContaining([
      expect.objectContaining({ message: expect.stringContaining('a Secret cannot be used here') }),
    ]),
  });
});

test('a file of a Secret whose path no plan can say is refused', () => {
  const result = renderOne({ files: [{ path: '/etc/a b', content: TOKEN }] });
  expect(result).toMatchObject({ ok: false });
});

const DOCUMENTS = (machine: string, image = 'configFormat: cloud-init') => `
apiVersion: muster/v1
kind: Image
metadata: {name: small}
spec: {os: debian, arch: x86_64, kernel: {sha256: ${'a'.repeat(64)}}, ${image}}
---
apiVersion: muster/v1
kind: Profile
metadata: {name: app}
spec: {image: small, config: {files: [{path: /etc/token, content: {valueFrom: {secret: app, key: token}}}]}}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: m1}
spec: {macs: ["52:54:00:aa:00:01"], profile: app${machine}}
`;

function checked(text: string): string[] {
  const { documents, faults } = parseDocuments(text, 'all.yaml');
  expect(faults).toEqual([]);
  const set = Object.fromEntries(
    (['Network', 'Image', 'Cluster', 'Profile', 'Machine', 'Webhook'] satisfies Kind[]).map((kind) => [
      kind,
      new Map(
        documents
          .filter((one) => one.document.kind === kind)
          .map((one): [string, Candidate] => [one.document.metadata.name, one]),
      ),
    ]),
  ) as unknown as CandidateSet;
  return checkAll(set, undefined).map(({ severity, fault }) => `${severity} ${fault.message}`);
}

test('a machine that could not get its Secrets is refused when its documents are applied', () => {
  expect(checked(DOCUMENTS(''))).toEqual([]);
  expect(checked(DOCUMENTS(', delivery: inline'))).toEqual([
    expect.stringMatching(/^error .*takes values from Secrets, and `delivery: inline` would put them/),
  ]);
  expect(checked(DOCUMENTS('', 'configFormat: none'))).toEqual([
    expect.stringMatching(/^error .*Image "small" takes no configuration, so no agent gets there/),
  ]);
});

test.for([
  [`${BEGIN} RSA PRIVATE KEY-----\nMIIE`, 'a private key'],
  [`${BEGIN} OPENSSH PRIVATE KEY-----\nb3Bl`, 'a private key'],
  ['user=app\npassword=hunter2\n', 'the value of "password"'],
  ['export GITHUB_TOKEN="ghp_abcdef"', 'the value of "GITHUB_TOKEN"'],
  ['[Service]\nEnvironment="API_KEY=abcdef12"', 'the value of "API_KEY"'],
  ['{"auth": {"token": "abcdef12"}}', 'the value of "token"'],
  ['chpasswd:\n  users:\n  - {name: a, password: hunter2}', 'the value of "password"'],
  ['aws_secret_access_key: abcdef12', 'the value of "aws_secret_access_key"'],
] as const)('%j holds %s in the clear', ([text, what]) => {
  expect(plainSecretIn(text)).toBe(what);
});

test.for([
  'PasswordAuthentication no\nPermitEmptyPasswords=no',
  'password: ${PASSWORD}',
  'token_file: /etc/token\ntoken=/etc/token',
  'TOKEN=$(cat /etc/token)',
  'passwd: "$6$salt$wZU8LXJfJJqoagopbB7RuK6JEotEMZ0CQDy0phpPAuLMYQFcmf6L6BdAbs/Q7w7o1qsZ9pFqFVY4yuUSWgaYt1"',
  'the password is in the safe',
  'hide_secret: true',
  '-----BEGIN CERTIFICATE-----\nMIIE',
  'token: <token>',
  'max_token = 512',
])('%j holds nothing in the clear', (text) => {
  expect(plainSecretIn(text)).toBeUndefined();
});

test('a document with a password in the clear gets a warning with the command, and without the password', () => {
  const text = `
apiVersion: muster/v1
kind: Profile
metadata: {name: app}
spec:
  kernelArguments: [quiet, 'rd.token=abcdef12']
  config:
    files:
      - {path: /etc/app.env, content: "DB_PASSWORD=hunter2\\n"}
      - {path: /etc/key, contentBase64: ${Buffer.from(`${BEGIN} PRIVATE KEY-----\nMIIE`).toString('base64')}}
    variables: {adminPassword: hunter2}
`;
  const warnings = checked(text);
  expect(warnings).toEqual([
    expect.stringMatching(/^warning Profile\/app: this holds the value of "rd.token" in the clear/),
    expect.stringMatching(
      /the value of "DB_PASSWORD".*`muster secret put app KEY --from-file FILE`.*valueFrom/,
    ),
    expect.stringMatching(/a private key/),
    expect.stringMatching(/the value of "adminPassword"/),
  ]);
  expect(warnings.join()).not.toMatch(/hunter2|abcdef12/);
});

test('a comment that explains a setting holds no secret, and one with a value does', () => {
  expect(plainSecretIn('#cloud-config\n# lock_passwd: Defaults to true\n')).toBeUndefined();
  expect(plainSecretIn('# password: hunter2\n')).toBe('the value of "password"');
  expect(plainSecretIn('password: hunter2 # Defaults to true\n')).toBe('the value of "password"');
});
