/** Registries of a Cluster: what could have no effect on a machine is refused. */
import { describe, expect, test } from 'vitest';
import { registries } from '../../../src/resources/registry-spec.ts';
import { selfSigned } from '../../self-signed.ts';

const { certificate: CA, key: KEY } = selfSigned('registry.example');
const LOGIN = { username: 'robot$rack', password: { valueFrom: { secret: 'registry', key: 'password' } } };

/** The faults as `path: message`. */
const faultsOf = (...list: readonly object[]): string[] =>
  (registries.safeParse(list).error?.issues ?? []).map(
    ({ path, message }) => `${path.join('.')}: ${message}`,
  );

const mirrored = (mirror: object, more: object = {}) => ({
  registry: 'docker.io',
  mirrors: [mirror],
  ...more,
});

test('mirrors with path, login and CA are taken, also those of several registries', () => {
  expect(
    faultsOf(
      mirrored({ url: 'https://harbor.example/v2/dockerhub/', ca: `\n${CA}${CA}`, login: LOGIN }),
      { registry: 'registry.example:5000', login: LOGIN, ca: CA },
      { registry: 'quay.io', upstream: false },
      { registry: 'localhost', mirrors: [{ url: 'http://10.0.0.5:5000' }] },
      { registry: '10.0.0.5:5000', mirrors: [{ url: 'https://a.example/api/docker/v2' }] },
    ),
  ).toEqual([]);
});

describe('the registry', () => {
  test.each([
    ['*', /belong into `mirrors`/],
    ['_default', /belong into `mirrors`/],
    ['https://docker.io/', /without a scheme: "docker\.io"/],
    ['docker.io/library', /without a path: "docker\.io"/],
    ['registry-1.docker.io', /"docker\.io"; write that/],
    ['index.docker.io', /"docker\.io"; write that/],
    ['Registry.Example', /lower case/],
    ['registry', /has a dot or a port/],
    ['registry.example:70000', /the port 70000 is not between 1 and 65535/],
    ['[fd00::1]:5000', /DNS name/],
    ['', /not the registry/],
  ])('cannot be "%s"', (registry, message) => {
    expect(faultsOf({ registry, login: LOGIN })).toEqual([expect.stringMatching(message)]);
  });

  test('is listed once and says something', () => {
    expect(faultsOf({ registry: 'quay.io' })).toEqual([expect.stringContaining('says nothing')]);
    expect(faultsOf({ registry: 'quay.io', login: LOGIN }, { registry: 'quay.io', ca: CA })).toEqual([
      expect.stringContaining('listed twice'),
    ]);
  });

  test('that is never asked itself has no login and no CA', () => {
    const own = { upstream: false, login: LOGIN, ca: CA };
    expect(faultsOf(mirrored({ url: 'https://m.example' }, own)).map((text) => text.slice(0, 8))).toEqual([
      '0.ca: wi',
      '0.login:',
    ]);
  });
});

describe('a mirror', () => {
  test.each([
    ['https://user:pass@harbor.example', /write it as `login`/],
    ['https://user@harbor.example', /write it as `login`/],
    ['harbor.example', /http:\/\/ or https:\/\//],
    ['ftp://harbor.example', /http:\/\/ or https:\/\//],
    ['https://harbor.example/dockerhub', /"https:\/\/harbor\.example\/v2\/dockerhub"/],
    ['https://harbor.example/dockerhub/', /"https:\/\/harbor\.example\/v2\/dockerhub"/],
    ['https://harbor.example/v2x', /\/v2/],
    ['https://harbor.example/v2/a?ns=docker.io', /no "\?"/],
    ['https://[fd00::1]:5000', /DNS name/],
    ['https://m.example/v2/x\n  evil: true', /only letters/],
    ['https://m.example/v2/x"; id; "', /only letters/],
    ['https://m.example/v2/${HOME}', /only letters/],
    ['https://m.example/v2/../../etc', /a part "\."/],
    ['https://m.example/v2/a%2fb', /only letters/],
  ])('cannot be %s', (url, message) => {
    expect(faultsOf(mirrored({ url }))).toEqual([expect.stringMatching(message)]);
  });

  test('is listed once, however it is spelt', () => {
    const mirrors = ['https://m.example:443/', 'https://m.example'].map((url) => ({ url }));
    expect(faultsOf({ registry: 'docker.io', mirrors })).toEqual([expect.stringContaining('listed twice')]);
  });

  test('without TLS has no CA and gets no password', () => {
    const faults = faultsOf(mirrored({ url: 'http://m.example:5000', ca: CA, login: LOGIN }));
    expect(faults).toEqual([
      expect.stringContaining('shows no certificate'),
      expect.stringContaining('could read the password'),
    ]);
  });

  test('has a password in a Secret, and a user without a colon', () => {
    const url = 'https://m.example';
    expect(faultsOf(mirrored({ url, login: { ...LOGIN, password: 'pass' } }))).not.toEqual([]);
    expect(faultsOf(mirrored({ url, login: { username: 'u' } }))).not.toEqual([]);
    expect(faultsOf(mirrored({ url, login: { ...LOGIN, username: 'a:b' } }))).toEqual([
      expect.stringContaining('without ":"'),
    ]);
  });

  test.each([
    ['a key', () => KEY, /private key/],
    ['a path', () => '/etc/ssl/ca.crt', /write PEM/],
    ['a certificate that is cut off', () => CA.replace(/-----END[\s\S]*/, ''), /PEM|cut off/],
    ['a changed certificate', () => CA.replace(/\n[A-Za-z0-9+/]{10}/, '\n'), /cannot be read/],
    ['a certificate and half of another', () => CA + CA.slice(0, 200), /cut off/],
  ])('cannot have %s as its CA', (_, ca, message) => {
    expect(faultsOf(mirrored({ url: 'https://m.example', ca: ca() }))).toEqual([
      expect.stringMatching(message),
    ]);
  });
});
