/** Secrets that are planted where somebody may have written one are in no message. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { withoutSecrets } from '../../../src/base/without-secrets.ts';
import { checkAll } from '../../../src/cluster/resolve/check-documents.ts';
import type { CandidateSet } from '../../../src/resources/candidate.ts';
import { KIND_NAMES } from '../../../src/resources/catalog-view.ts';
import { checkDocuments } from '../../../src/resources/check.ts';
import { parseDocuments } from '../../../src/resources/document.ts';

const MARK = 'hunter2';
/** What people paste where another value belongs. */
const PASTED = [
  `https://ada:${MARK}@x.example/p`,
  `https://${MARK}@x.example/p`,
  `ada:${MARK}@x.example:5000`,
  `https://x.example/p?token=${MARK}`,
  `token=${MARK}`,
  `Bearer ${MARK}`,
];

const cluster = (kubernetes: object, spec: object = {}) => ({
  kind: 'Cluster',
  spec: {
    kubernetes: { version: '1.36.3', endpoint: '10.0.0.9', controlPlanes: ['a'], ...kubernetes },
    ...spec,
  },
});
const flag = (program: string, name: string) => (value: string) =>
  cluster({ overrides: { flags: { [program]: { [name]: value } } } });
const kubelet = (name: string) => (value: unknown) =>
  cluster({ overrides: { kubelet: { config: { [name]: value } } } });

/** Places by name, each of which makes a document with a value there. */
const PLACES: Readonly<Record<string, (value: string) => object>> = {
  endpoint: (endpoint) => cluster({ endpoint }),
  proxy: (http) => cluster({ proxy: { http, https: http, noProxy: [http] } }),
  registry: (registry) => cluster({ registries: [{ registry }] }),
  mirror: (url) => cluster({ registries: [{ registry: 'x.example', mirrors: [{ url }, url] }] }),
  login: (text) =>
    cluster({ registries: [{ registry: 'x.example', login: { username: text, password: text } }] }),
  image: (pause) => cluster({ overrides: { images: { pause } } }),
  'virtual address': (text) => cluster({ virtualAddress: { addresses: [text], interface: 'eth0' } }),
  'time server': (text) => cluster({ timeServers: [text] }),
  issuer: (url) =>
    cluster({ apiServer: { authentication: { jwt: [{ issuer: { url, audiences: [url] } }] } } }),
  webhooks: (server) =>
    cluster({
      apiServer: {
        auditWebhook: {
          clusters: [{ name: 'c', cluster: { server, 'proxy-url': server } }],
          users: [{ name: 'u', user: { token: server } }],
          contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
          'current-context': 'x',
        },
      },
    }),
  tracing: (endpoint) => kubelet('tracing')({ endpoint }),
  'static pods': (value) => kubelet('staticPodURL')(value),
  'a header': (value) => kubelet('staticPodURLHeader')({ Authorization: [value] }),
  'a file': (content) => cluster({}, { config: { files: [{ path: '/a', content, mode: content }] } }),
  'cloud-init': (text) =>
    cluster({}, { config: { extra: { cloudInit: { password: [text], chpasswd: text } } } }),
  'kernel arguments': (text) => cluster({}, { kernelArgs: [text] }),
  'a Webhook': (url) => ({ kind: 'Webhook', spec: { url, events: [url], secret: url } }),
  'DHCP option': (value) => ({
    kind: 'Network',
    spec: { subnet: value, dhcp: { mode: 'proxy', options: [{ option: value, value }] } },
  }),
  ...Object.fromEntries(
    [
      ['kube-apiserver', 'audit-webhook-config-file'],
      ['kube-apiserver', 'token-auth-file'],
      ['kube-apiserver', 'tls-cipher-suites'],
      ['kube-apiserver', 'oidc-required-claim'],
      ['kube-apiserver', 'event-ttl'],
      ['kube-apiserver', 'feature-gates'],
      ['kube-controller-manager', 'cloud-config'],
      ['etcd', 'cors'],
      ['etcd', 'auth-token'],
      ['etcd', 'discovery-proxy'],
      ['kubelet', 'node-labels'],
      ['kubelet', 'register-with-taints'],
    ].map(([program, name]) => [`${program} ${name}`, flag(program!, name!)]),
  ),
};

/** Everything that is told about one document. */
function told(document: object): string {
  const text = JSON.stringify({ apiVersion: 'muster/v1', metadata: { name: 'c' }, ...document });
  const { documents, remnants, faults } = parseDocuments(text, 'a.yaml');
  const set = Object.fromEntries(KIND_NAMES.map((kind) => [kind, new Map()])) as unknown as CandidateSet;
  for (const one of [...documents, ...remnants])
    (set[one.document.kind] as Map<string, unknown>).set('c', one);
  return [...faults, ...[...checkDocuments(set), ...checkAll(set, undefined)].map(({ fault }) => fault)]
    .map(({ message }) => message)
    .join('\n');
}

test.each(Object.entries(PLACES))('a secret at %s is in no message', (_, make) => {
  for (const value of PASTED) expect(told(make(value))).not.toContain(MARK);
});

test.each([
  ['kube-apiserver', 'token-auth-file'],
  ['etcd', 'auth-token'],
])('the value of %s %s is in no message', (program, name) => {
  const message = told(flag(program, name)(MARK));
  expect(message).toContain('"…"');
  expect(message).not.toContain(MARK);
});

test('messages without a secret stay as they are', () => {
  for (const text of [
    'there is no Profile "k8z"; did you mean "k8s"?',
    'write it like "registry.k8s.io/etcd:3.6.8-0"',
    '"registry.example:5000/a/b:1.2@sha256:abc" has no tag',
    'address 10.0.0.1 is also claimed by Machine/a (/etc/muster/a.yaml:3)',
    'write {valueFrom: {secret: NAME, key: KEY}} here',
    'expected URLs like "https://10.77.0.9:2379", with a port; is token-auth-file meant?',
    'ada@x.example is not a user name: 10:30 is',
  ])
    expect(withoutSecrets(text)).toBe(text);
});

test('no login of an address gets through', () => {
  const word = fc.stringMatching(/^[A-Za-z0-9._~!$%^*-]{1,12}$/);
  fc.assert(
    fc.property(
      word,
      word,
      fc.constantFrom('https://', 'http://', 'socks5://', ''),
      (user, secret, scheme) => {
        const text = withoutSecrets(`"${scheme}${user}:<${secret}>@x.example" is wrong`);
        expect(text).not.toContain(`<${secret}>`);
      },
    ),
  );
});
