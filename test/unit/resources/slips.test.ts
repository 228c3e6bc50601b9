/** What people write by mistake where a document belongs: each fault says what to write instead. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseDocuments } from '../../../src/resources/document.ts';
import { slipIn } from '../../../src/resources/slips.ts';

const faults = (text: string): readonly string[] =>
  parseDocuments(text, 'a.yaml').faults.map(({ message, at }) => `${at?.line}:${at?.column} ${message}`);
const profile = (rest: string) => `apiVersion: muster/v1\nkind: Profile\n${rest}`;

describe('a slip is named at its place', () => {
  test.each([
    [
      profile('metadata: {name: {{ .Values.n }}}\nspec: {boot: hold}\n'),
      /^3:18 the template "{{ \.Values\.n }}" was left unfilled/,
    ],
    [profile('metadata: {name: "{{ .Values.n }}"}\nspec: {boot: hold}\n'), /^3:18 the template/],
    [profile('{% if x %}\nmetadata: {name: a}\n{% endif %}\n'), /^3:1 the template "{% if x %}"/],
    [`# {{ in a comment }}\n${profile('metadata: {name: {{ a }}}\n')}`, /^4:18 the template "{{ a }}"/],
    [profile('metadata: {name: <name>}\nspec: {boot: hold}\n'), /^3:18 "<name>" is a placeholder/],
    [profile('metadata: {name: $NODE}\nspec: {boot: hold}\n'), /^3:18 "\$NODE" is a variable of a shell/],
    [profile('metadata: {name: a}\nspec:\n  <<: {boot: hold}\n'), /^5:3 YAML 1\.2 has no merge keys/],
    [profile('metadata: {name: a, labels: {<<: {a: b}}}\nspec: {boot: hold}\n'), /no merge keys/],
    ['<<<<<<< HEAD\napiVersion: muster/v1\n=======\n', /^1:1 a conflict of a merge/],
    [profile('metadata:\n\tname: a\n'), /^4:1 tabs indent this line/],
    ['variant: fcos\nversion: 1.5.0\n', /^1:1 this is Butane; .*extra\.ignition/],
    ['{"ignition": {"version": "3.3.0"}}', /this is Ignition/],
    ['#cloud-config\nusers: []\n', /this is cloud-config; .*extra\.cloudInit/],
    ['network: {version: 2}\n', /config\.network/],
    ['apiVersion: v1\nkind: ConfigMap\n', /kubectl or as an add-on/],
    ['apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n', /write a Cluster/],
    [
      profile('metadata: {name: a}\nspec:\n  \u00a0boot: hold\n'),
      /it has the character U\+00A0, no blank, although it looks like one/,
    ],
    [profile('metadata: {name: a}\nspec: {“boot”: hold}\n'), /U\+201C, a typographic quote/],
    [
      profile('metadata: {name: a}\nspec: image:debian\n'),
      /found the string image:debian; write a blank after/,
    ],
    [
      'apiVersion: muster/v1\nkind: Network\nmetadata: {name: a}\nspec: {subnet: 10.0.0.0/24, dhcp: {mode: "off"}, mtu: "9000"}\n',
      /found the string 9000; write it without quotes/,
    ],
    ['apiVersion: muster/v2\nkind: Machine\n', /this version reads "muster\/v1"/],
  ])('%s', (text, message) => {
    expect(faults(text)[0]).toMatch(message);
  });
});

const endpoint = (value: string) =>
  faults(
    `apiVersion: muster/v1\nkind: Cluster\nmetadata: {name: a, labels: {owner: TBD}}\nspec:\n  kubernetes: {version: "1.36", controlPlanes: [a], endpoint: '${value}'}\n`,
  );

test.each([
  ['{{ api }}', /^5:\d+ the template "{{ api }}" was left unfilled; fill it in/],
  ['api-{% x %}.lab', /the template/],
  ['<%= api %>', /the template "<%= api %>"/],
  ['api.@@DOMAIN@@', /the template "@@DOMAIN@@"/],
  ['<your endpoint>', /is a placeholder; write the value itself/],
  ['__API__', /is a placeholder/],
  ['%API%', /is a placeholder/],
  ['$API', /is a variable of a shell/],
  ['CHANGEME.lab', /"CHANGEME\.lab" is a placeholder/],
  ['api.replace-me:6443', /is a placeholder/],
  ['TBD', /is a placeholder/],
  ['https://your-domain.com', /is a placeholder/],
  ['xxx.xxx.xxx.xxx', /is a placeholder/],
  ['x.x.x.x:6443', /is a placeholder/],
])(
  'a value %s that somebody forgot to fill in is refused, although the field takes any text',
  (value, message) => {
    expect(endpoint(value)).toEqual([expect.stringMatching(message)]);
  },
);

test.each([
  ...['api.lab.example', 'todo.lab.example', 'x1.your-server.de', 'fixme-not.example', '10.0.0.1:6443'],
  ...['changement.example', 'xxl.example'],
])('a name %s that may be real is left alone', (value) => expect(endpoint(value)).toEqual([]));

test('words that somebody fills in later are left alone in free texts, names and labels', () => {
  const text = profile(
    'metadata: {name: changeme, labels: {owner: TBD}}\nspec: {boot: hold, config: {variables: {a: CHANGEME}, files: [{path: /a, content: "TBD <%= x %> @@A@@"}]}}\n',
  );
  expect(faults(text)).toEqual([]);
});

test('braces in a text that works are left alone', () => {
  const text = profile(
    'metadata: {name: a}\nspec: {boot: hold, config: {files: [{path: /a, content: "{{ x }}"}]}}\n',
  );
  expect(faults(text)).toEqual([]);
});

test('any text is searched without an error, and the place is in it', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom('{', '}', '%', '<', '=', '>', '\n', 'a', '#', ' ') }),
      (text) => {
        const slip = slipIn(text);
        expect(slip === undefined || slip.offset < text.length).toBe(true);
      },
    ),
  );
});
