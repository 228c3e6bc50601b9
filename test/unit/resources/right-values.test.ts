/** Values of documents that are right elsewhere, and were refused here. */
import { describe, expect, test } from 'vitest';
import { dhcpOptions } from '../../../src/resources/dhcp-options.ts';
import { webhookKubeconfig } from '../../../src/resources/kubeconfig-spec.ts';
import { nodeConfig } from '../../../src/resources/nodeconfig.ts';
import { proxySpec } from '../../../src/resources/proxy-spec.ts';

const takes = (schema: { safeParse(value: unknown): { success: boolean } }, value: unknown): boolean =>
  schema.safeParse(value).success;

test.each([
  ['jane.doe', true],
  ['JSmith', true],
  ['backup$', true],
  ['_apt', true],
  ['1st', false],
  ['-x', false],
  ['a b', false],
  ['a$b', false],
  ['root:x', false],
  ['..', false],
  ['a'.repeat(33), false],
])('the user name %j: %s', (name, right) => {
  expect(takes(nodeConfig, { users: [{ name }] })).toBe(right);
});

describe('the kubeconfig of a webhook', () => {
  const written = {
    apiVersion: 'v1',
    kind: 'Config',
    preferences: {},
    clusters: [{ name: 'falco', cluster: { server: 'http://falco.example:8765/k8s-audit' } }],
    contexts: [{ name: 'default', context: { cluster: 'falco', user: '', namespace: 'default' } }],
    'current-context': 'default',
    users: [],
  };

  test('is taken as kubectl writes it', () => {
    expect(webhookKubeconfig.safeParse(written)).toMatchObject({ success: true });
  });

  test.each([
    ['server', { clusters: [{ name: 'falco', cluster: { server: 'ftp://falco.example' } }] }],
    ['user', { contexts: [{ name: 'default', context: { cluster: 'falco', user: 'nobody' } }] }],
    ['preferences', { preferences: { colors: true } }],
  ])('with a wrong %s is refused', (_, change) => {
    expect(takes(webhookKubeconfig, { ...written, ...change })).toBe(false);
  });
});

test.each([
  ['socks5://proxy.example:1080', true],
  ['socks5h://proxy.example:1080', true],
  ['http://proxy.example:3128', true],
  ['socks4://proxy.example', false],
  ['socks5://jane:secret@proxy.example', false],
])('the proxy %s: %s', (http, right) => {
  expect(takes(proxySpec, { http })).toBe(right);
});

test('phones and switches can be given their server and file, and clients that boot cannot', () => {
  const options = (vendorClass?: string) => [
    { option: 66, value: 'tftp.phones.example', ...(vendorClass && { vendorClass }) },
    { option: 'bootfile-name', value: 'https://ztp.example/boot', ...(vendorClass && { vendorClass }) },
  ];
  expect(takes(dhcpOptions, options())).toBe(true);
  expect(takes(dhcpOptions, options('Arista'))).toBe(true);
  const refused = dhcpOptions.safeParse(options('PXEClient:Arch:00007'));
  expect(refused.error?.issues.map(({ message }) => message)).toEqual([
    'Muster sets option 66 for clients that boot: Muster names itself; pxe.loader selects the file',
    'Muster sets option 67 for clients that boot: write pxe.loader',
  ]);
});
