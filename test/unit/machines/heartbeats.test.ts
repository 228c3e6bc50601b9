/** Which machines are taken for running. */
import { expect, it } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import type { Millis } from '../../../src/base/duration.ts';
import { ALIVE_WITHIN, createHeartbeats } from '../../../src/machines/heartbeats.ts';

const setup = () => {
  const clock = new ManualClock();
  const heartbeats = createHeartbeats({ clock });
  const of = (bootId: string) => ({ bootId, address: '10.77.0.11' });
  return { clock, heartbeats, of };
};

it('a machine that was heard runs for a while, and it is known how long still', () => {
  const { clock, heartbeats, of } = setup();
  expect(heartbeats.remaining('cp1')).toBe(0);
  heartbeats.beat('cp1', of('a'));
  clock.advance((ALIVE_WITHIN - 1000) as Millis);
  expect(heartbeats.alive('cp1')?.bootId).toBe('a');
  expect(heartbeats.remaining('cp1')).toBe(1000);
  clock.advance(1000 as Millis);
  expect(heartbeats.alive('cp1')).toBeUndefined();
  expect(heartbeats.remaining('cp1')).toBe(0);
});

it('a machine that says goodbye does not run, until it is heard again', () => {
  const { heartbeats, of } = setup();
  heartbeats.beat('cp1', of('a'));
  expect(heartbeats.leave('cp1', of('a'))).toBe(true);
  expect(heartbeats.alive('cp1')).toBeUndefined();
  expect(heartbeats.last('cp1')).toMatchObject({ bootId: 'a', left: true });
  // Only its agent was stopped, or the shutdown was called off.
  expect(heartbeats.beat('cp1', of('a'))).toBe('same');
  expect(heartbeats.alive('cp1')?.bootId).toBe('a');
  expect(heartbeats.leave('cp1', of('a'))).toBe(true);
  expect(heartbeats.beat('cp1', of('b'))).toBe('rebooted');
  expect(heartbeats.alive('cp1')?.bootId).toBe('b');
});

it('a goodbye of an earlier boot says nothing of the one that runs', () => {
  const { heartbeats, of } = setup();
  heartbeats.beat('cp1', of('a'));
  heartbeats.beat('cp1', of('b'));
  expect(heartbeats.leave('cp1', of('a'))).toBe(false);
  expect(heartbeats.alive('cp1')?.bootId).toBe('b');
});

it('a goodbye counts for a machine that is only supposed to run', () => {
  const { heartbeats, of } = setup();
  heartbeats.suppose(['cp1']);
  expect(heartbeats.leave('cp1', of('a'))).toBe(true);
  expect(heartbeats.alive('cp1')).toBeUndefined();
  heartbeats.suppose(['cp1']);
  expect(heartbeats.alive('cp1')).toBeUndefined();
});
