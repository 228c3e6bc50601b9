/** What `muster explain` says ends a hold can be run as it stands, and ends it. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Mac, parseMac } from '../../../src/base/mac.ts';
import { openWorld, type World } from '../api/world.ts';
import { run } from './run.ts';

let world: World;
beforeEach(async () => {
  world = await openWorld();
});
afterEach(() => world.close());

const muster = (...args: string[]) => run(args, { socket: world.socket });
const NEW: Mac = parseMac('52:54:00:bb:00:01')!;

/** The command that `muster explain SUBJECT` ends with, as words. */
async function advice(subject: string): Promise<readonly string[]> {
  const { out } = await muster('explain', subject, '-o', 'json');
  const words = (JSON.parse(out).remedy as string).replace('PROFILE', 'worker').split(' ');
  expect(words.shift()).toBe('muster');
  return words;
}

describe('the command that an explanation ends with', () => {
  it.each([
    ['an address that nobody ever saw', () => {}, NEW, 'add'],
    [
      'a machine that was seen',
      () => void world.roster.discover({ bootMac: NEW, macs: [NEW] }),
      NEW,
      'accept',
    ],
    [
      'a machine that was seen, by its name',
      () => void world.roster.discover({ bootMac: NEW, macs: [NEW] }),
      'm-525400bb0001',
      'accept',
    ],
  ])('works for %s', async (_, prepare, subject, verb) => {
    prepare();
    const command = await advice(subject);
    expect(command.slice(0, 2)).toEqual(['machine', verb]);
    expect(await muster(...command)).toMatchObject({
      code: 0,
      err: expect.stringMatching(/^( {2}its document has: MAC [^\n]*\n)?$/),
    });
    expect(JSON.parse((await muster('explain', NEW, '-o', 'json')).out)).toMatchObject({
      decision: { kind: 'script', profile: 'worker' },
    });
  });

  it('names no machine where a caller told no hardware address', async () => {
    const { script } = await world.boot.script({
      boot: undefined,
      bootMac: undefined,
      identity: { macs: [], uuid: '4c4c4544-0042-3510-8051-b7c04f4d3532' },
      peer: '10.77.0.1',
      baseUrl: 'http://10.77.0.1:8080',
      network: undefined,
    });
    expect(script).toContain('muster machine add MAC --profile PROFILE');
    expect(script).not.toMatch(/muster machine \w+ 10\.77/);
  });
});
