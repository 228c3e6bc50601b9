/** Which machines count as running. */
import { expect, it } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { duration, type Millis } from '../../../src/base/duration.ts';
import { ALIVE_WITHIN, createHeartbeats } from '../../../src/machines/heartbeats.ts';

const setup = () => {
  const clock = new ManualClock();
  const heartbeats = createHeartbeats({ clock });
  const of = (bootId: string) => ({ bootId, address: '10.77.0.11' });
  return { clock, heartbeats, of };
};

it('a machine that polled counts as running for a while, and the remaining time is known', () => {
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

it('a machine that announced its shutdown is not running until it polls again', () => {
  const { heartbeats, of } = setup();
  heartbeats.beat('cp1', of('a'));
  expect(heartbeats.leave('cp1', of('a'))).toBe(true);
  expect(heartbeats.alive('cp1')).toBeUndefined();
  expect(heartbeats.last('cp1')).toMatchObject({ bootId: 'a', left: true });
  // Only its agent was stopped, or the shutdown was cancelled.
  expect(heartbeats.beat('cp1', of('a'))).toBe('same');
  expect(heartbeats.alive('cp1')?.bootId).toBe('a');
  expect(heartbeats.leave('cp1', of('a'))).toBe(true);
  expect(heartbeats.beat('cp1', of('b'))).toBe('rebooted');
  expect(heartbeats.alive('cp1')?.bootId).toBe('b');
});

it('a shutdown message of an earlier boot does not end the boot that is running', () => {
  const { heartbeats, of } = setup();
  heartbeats.beat('cp1', of('a'));
  heartbeats.beat('cp1', of('b'));
  expect(heartbeats.leave('cp1', of('a'))).toBe(false);
  expect(heartbeats.alive('cp1')?.bootId).toBe('b');
});

it('a shutdown message is accepted for a machine that is assumed to be running', () => {
  const { heartbeats, of } = setup();
  heartbeats.suppose(['cp1']);
  expect(heartbeats.leave('cp1', of('a'))).toBe(true);
  expect(heartbeats.alive('cp1')).toBeUndefined();
  heartbeats.suppose(['cp1']);
  expect(heartbeats.alive('cp1')).toBeUndefined();
});

it('a BMC that says off counts for 90 seconds, and never against an agent that is heard', () => {
  const clock = new ManualClock();
  const heartbeats = createHeartbeats({ clock });
  heartbeats.beat('cp1', { bootId: 'a', address: '10.77.0.11' });
  heartbeats.power('cp1', 'unasked');
  expect(heartbeats.heard('cp1')).not.toHaveProperty('off');
  clock.advance(duration('41s'));
  expect(heartbeats.heard('cp1')).toMatchObject({ is: 'silent', off: 'unasked' });
  heartbeats.power('cp1', 'ordered');
  clock.advance(duration('90s'));
  expect(heartbeats.heard('cp1')).toMatchObject({ is: 'silent', off: 'ordered' });
  clock.advance(duration('1s'));
  expect(heartbeats.heard('cp1')).not.toHaveProperty('off');
  heartbeats.power('cp1', 'unasked');
  heartbeats.power('cp1', 'on');
  expect(heartbeats.heard('cp1')).not.toHaveProperty('off');
});
