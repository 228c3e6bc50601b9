/**
 * Damaged requests: the decision throws no exception, and approves only if nothing relevant was
 * damaged.
 */
import { expect, test } from 'vitest';
import { parsed } from '../../../../src/base/foreign-json.ts';
import { decideRequest, SERVING } from '../../../../src/cluster/joining/decide.ts';
import { readSigningRequest } from '../../../../src/cluster/joining/request.ts';
import { damagedRecords, INPUTS } from '../../fuzzing.ts';
import { requestOf } from '../../pki/asking.ts';
import { resolved } from '../kit.ts';

test('damaged requests of an API are decided, and those that are approved are whole', async () => {
  const pem = requestOf({
    commonName: 'system:node:w1',
    organizations: ['system:nodes'],
    sans: ['DNS:w1', 'IP:10.0.0.21'],
  });
  const item = {
    metadata: { name: 'csr-1', uid: 'u', creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: {
      ...{
        signerName: SERVING,
        username: 'system:node:w1',
        groups: ['system:nodes', 'system:authenticated'],
      },
      ...{ usages: ['digital signature', 'server auth'], request: Buffer.from(pem).toString('base64') },
    },
    status: {},
  };
  const inventory = resolved();
  let approved = 0;
  let denied = 0;
  await damagedRecords('requests of an API', [item], (text) => {
    const request = readSigningRequest(parsed(text));
    const verdict = decideRequest(inventory, request, () => undefined);
    if (verdict.do === 'deny') denied++;
    if (verdict.do !== 'approve') return;
    approved++;
    const { signer, username, groups, usages, state } = request;
    const whole =
      signer === SERVING &&
      username === 'system:node:w1' &&
      groups.includes('system:nodes') &&
      ['digital signature', 'server auth'].every((one) => usages.includes(one)) &&
      request.request === pem &&
      state === 'pending';
    if (!whole) throw new Error('approved');
  });
  expect(approved).toBeGreaterThan(INPUTS / 200);
  expect(denied).toBeGreaterThan(INPUTS / 200);
});
