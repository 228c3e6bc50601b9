import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type Access,
  checkJoins,
  decideAccess,
  EVERYTHING,
  type Grant,
  type Principal,
  ROLES,
  type Role,
} from '../../../src/api/access.ts';
import { ROUTES } from '../../../src/api/operations.ts';

const as = (...grants: Grant[]): Principal => ({ name: 'ada', by: 'token', grants });
const placeOf = (machine: string): string | undefined => (machine === 'b1' ? 'blue' : undefined);
const route = (access: Access, path: string) => ({ access, path });
const does = (access: Access, path: string, params: Record<string, string>, who?: Principal) =>
  decideAccess(route(access, path), params, who, placeOf).do;

describe('a request', () => {
  it('without a log-in is answered only by routes that are open to everybody', () => {
    expect(does('open', '/healthz', {})).toBe('answer');
    expect(does('view', '/v1/status', {})).toBe('authenticate');
  });

  it('is answered when the role allows it, and names the roles that do when it does not', () => {
    expect(does('view', '/v1/status', {}, as({ role: 'viewer' }))).toBe('answer');
    expect(decideAccess(route('operate', '/v1/reload'), {}, as({ role: 'viewer' }), placeOf)).toEqual({
      do: 'refuse',
      text: 'this needs the role operator or admin for the whole site',
    });
  });

  it('for the security log needs the role of an auditor, who may do nothing else', () => {
    expect(does('audit', '/v1/audit', {}, as({ role: 'admin' }))).toBe('refuse');
    expect(does('audit', '/v1/audit', {}, as({ role: 'auditor' }))).toBe('answer');
    expect(does('view', '/v1/status', {}, as({ role: 'auditor' }))).toBe('refuse');
  });

  it("about something of one's own is answered for everybody who is logged in, also with a role for one cluster", () => {
    expect(does('own', '/v1/passkeys', {})).toBe('authenticate');
    for (const role of Object.keys(ROLES) as Role[])
      expect(does('own', '/v1/passkeys', {}, as({ role, clusters: ['blue'] }))).toBe('answer');
  });

  it('by a role for one cluster brings no machine into another', () => {
    const blue = as({ role: 'operator', clusters: ['blue'] });
    expect(() => checkJoins(blue, 'green')).toThrow('may not do that');
    expect(() => checkJoins(as({ role: 'viewer' }), 'blue')).toThrow('may not do that');
    checkJoins(blue, 'blue');
    checkJoins(as({ role: 'operator' }), 'green');
  });

  it('by a role for certain clusters reaches these clusters and their machines only', () => {
    const blue = as({ role: 'operator', clusters: ['blue'] });
    const add = '/v1/clusters/:name/add-node';
    expect(does('operate', add, { name: 'blue' }, blue)).toBe('answer');
    expect(does('operate', add, { name: 'green' }, blue)).toBe('refuse');
    const change = '/v1/clusters/:name/change';
    expect(does('view', change, { name: 'blue.agents' }, blue)).toBe('answer');
    expect(does('view', change, { name: 'green.agents' }, blue)).toBe('refuse');
    expect(does('operate', '/v1/machines/:name/accept', { name: 'b1' }, blue)).toBe('answer');
    expect(does('operate', '/v1/machines/:name/accept', { name: 'g1' }, blue)).toBe('refuse');
    expect(does('view', '/v1/:kind', { kind: 'clusters' }, blue)).toBe('refuse');
  });
});

it('no grant allows more than the sum of its roles, and the socket allows every route', () => {
  const grant = fc.record({ role: fc.constantFrom(...(Object.keys(ROLES) as Role[])) });
  fc.assert(
    fc.property(fc.array(grant), fc.constantFrom(...ROUTES), (grants, row) => {
      const allowed = grants.some(({ role }) =>
        (ROLES[role].allows as readonly Access[]).includes(row.access),
      );
      const open = row.access === 'open';
      expect(decideAccess(row, {}, as(...grants), placeOf).do === 'answer').toBe(allowed || open);
    }),
  );
  for (const row of ROUTES) expect(decideAccess(row, {}, as(...EVERYTHING), placeOf).do).toBe('answer');
});

it('every route that changes something needs more than the role of a viewer', () => {
  const open = ROUTES.filter(({ method, access }) => method !== 'GET' && access === 'view');
  expect(open).toEqual([]);
});
