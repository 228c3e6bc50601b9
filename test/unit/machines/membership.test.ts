/** Which cluster a machine belongs to, while documents change. */
import { expect, test } from 'vitest';
import { followMemberships } from '../../../src/machines/membership.ts';
import { document, machine, world } from '../pxe/boot/world.ts';

const MAC = '52:54:00:aa:00:01';
const cluster = (...controlPlanes: string[]) =>
  document('Cluster', 'blue', { kubernetes: { version: '1.36.2', endpoint: '10.77.0.11', controlPlanes } });

test('a role is given by the Cluster that names the machine, whether or not the machine is known', async () => {
  const { catalog, apply } = await world([cluster('cp1')]);
  const memberships = followMemberships(catalog);
  const changes: number[] = [];
  memberships.subscribe(() => changes.push(memberships.size));
  expect([memberships.roleGiver('cp1'), memberships.clusterOf('cp1')]).toEqual(['blue', 'blue']);
  await apply(cluster('cp1', 'cp2', 'cp3'));
  expect(memberships.roleGiver('cp3')).toBe('blue');
  expect(changes).toEqual([3]);
  await catalog.delete('Cluster', 'blue');
  expect(memberships.roleGiver('cp1')).toBeUndefined();
  memberships.close();
  await apply(cluster('cp1'));
  expect(changes).toEqual([3, 0]);
});

test('a machine that names a Cluster itself takes its configuration, and no role', async () => {
  const { catalog, apply } = await world([document('Cluster', 'plain', { config: {} })]);
  const memberships = followMemberships(catalog);
  await apply(machine('n1', [MAC], { cluster: 'plain' }));
  expect(memberships.clusterOf('n1')).toBe('plain');
  expect(memberships.roleGiver('n1')).toBeUndefined();
  expect(memberships.size).toBe(0);
});
