import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ManualClock } from '../../../../src/base/clock.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { createMetrics } from '../../../../src/base/metrics.ts';
import { openAssets } from '../../../../src/pxe/assets/assets.files.ts';
import { readSpace, reserveOf, type Space, watchSpace } from '../../../../src/pxe/assets/space.files.ts';

const MIB = 1024 * 1024;
const octets = Buffer.alloc(3 * MIB, 'octets of an image');
const sha256 = createHash('sha256').update(octets).digest('hex');

let directory: string;
beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-space-'));
});
afterEach(() => fs.rmSync(directory, { recursive: true, force: true }));

/** A disk that loses what is written into the partial file, and `others` as well. */
function disk(size: number) {
  const state = { others: 0 };
  const space = async (): Promise<Space> => {
    const partial = path.join(directory, 'partial', sha256);
    const used = fs.existsSync(partial) ? fs.statSync(partial).size : 0;
    return { size, free: size - used - state.others };
  };
  return {
    state,
    open: () => openAssets({ directory, loaderDirectories: [], log: silentLog, space }),
  };
}

const partials = () => fs.readdirSync(path.join(directory, 'partial'));

async function* body(from = 0, to = octets.length, each: (at: number) => void = () => {}) {
  for (let at = from; at < to; at += MIB / 4) {
    each(at);
    yield octets.subarray(at, Math.min(at + MIB / 4, to));
  }
}

describe('the reserve of the state disk', () => {
  it('is a tenth of the file system, and at most 256 MiB', () => {
    expect(reserveOf({ size: 2_000_000 })).toBe(200_000);
    expect(reserveOf({ size: 100_000 * MIB })).toBe(256 * MIB);
  });

  it('refuses a file of known size that does not fit above it, before any octet is written', async () => {
    // 3 MiB fit on the disk, but not above its reserve of 0.32 MiB.
    const assets = await disk(3.2 * MIB).open();
    const untouched = async function* () {
      yield octets;
      throw new Error('the body was read');
    };
    for (const size of [{ total: octets.length }, { length: octets.length }])
      await expect(assets.receive({ sha256, offset: 0, ...size, body: untouched() })).rejects.toMatchObject({
        code: 'E_ASSET_SPACE',
        message: `${directory}: 3.0 MiB are needed, 3.2 MiB are free, and 0.3 MiB of these are reserved for the store`,
      });
    expect(partials()).toEqual([]);
  });

  it('accepts a file that fits above it', async () => {
    const assets = await disk(4 * MIB).open();
    expect(await assets.receive({ sha256, offset: 0, total: octets.length, body: body() })).toMatchObject({
      complete: true,
    });
  });

  it('ends an upload of unknown size where the reserve begins, and deletes what came of it', async () => {
    const assets = await disk(3.2 * MIB).open();
    let sent = 0;
    const upload = assets.receive({ sha256, offset: 0, body: body(0, octets.length, (at) => (sent = at)) });
    await expect(upload).rejects.toMatchObject({ code: 'E_ASSET_SPACE' });
    expect(sent).toBeGreaterThan(2 * MIB);
    expect(partials()).toEqual([]);
    expect(await assets.partials()).toEqual([]);
  });

  it('is kept when the disk fills up between two pieces: the rest is refused and the part deleted', async () => {
    const { state, open } = disk(8 * MIB);
    const assets = await open();
    const total = octets.length;
    await assets.receive({ sha256, offset: 0, total, body: body(0, MIB) });
    expect(await assets.partials()).toMatchObject([{ sha256, received: MIB, active: false }]);
    state.others = 6 * MIB;
    await expect(assets.receive({ sha256, offset: MIB, total, body: body(MIB) })).rejects.toMatchObject({
      code: 'E_ASSET_SPACE',
    });
    expect(await assets.partials()).toEqual([]);
  });

  it('counts the octets that a new start of an upload gives back', async () => {
    const { open } = disk(4 * MIB);
    const assets = await open();
    const total = octets.length;
    await assets.receive({ sha256, offset: 0, total, body: body(0, 2 * MIB) });
    expect(await assets.receive({ sha256, offset: 0, total, body: body() })).toMatchObject({
      complete: true,
    });
  });

  it('does not help against a disk that refuses to write: that upload is deleted as well', async () => {
    const assets = await disk(8 * MIB).open();
    const failing = async function* () {
      yield octets.subarray(0, MIB);
      throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
    };
    await expect(assets.receive({ sha256, offset: 0, body: failing() })).rejects.toMatchObject({
      code: 'E_ASSET_SPACE',
    });
    expect(partials()).toEqual([]);
  });
});

describe('incomplete uploads', () => {
  it('are listed with what came and whether they run, and can be removed even when they are empty', async () => {
    const assets = await disk(8 * MIB).open();
    const gate = Promise.withResolvers<void>();
    const waiting = async function* () {
      await gate.promise;
      yield octets;
    };
    const running = assets.receive({ sha256, offset: 0, body: waiting() });
    await expect.poll(() => assets.partials()).toMatchObject([{ sha256, received: 0, active: true }]);
    gate.resolve();
    await running;
    expect(await assets.partials()).toEqual([]);
    const empty = 'a'.repeat(64);
    fs.writeFileSync(path.join(directory, 'partial', empty), '');
    await assets.remove(empty);
    expect(partials()).toEqual([]);
  });
});

describe('the free space of the state directory', () => {
  it('is what the system says', async () => {
    const { size, free } = await readSpace(directory);
    expect(free).toBeGreaterThan(0);
    expect(size).toBeGreaterThanOrEqual(free);
  });

  it('is a metric that follows the disk, and is logged once when it falls below the reserve', async () => {
    const clock = new ManualClock();
    const metrics = createMetrics();
    const warned: string[] = [];
    const log = { ...silentLog, warn: (_: object, text: string) => warned.push(text), debug: () => {} };
    let free = 5 * MIB;
    const stop = watchSpace({
      directory,
      metrics,
      clock,
      log: log as never,
      read: async () => ({ size: 10 * MIB, free }),
    });
    const shown = async () => /^muster_state_free_bytes (.*)$/m.exec(await metrics.text())?.[1];
    await expect.poll(shown).toBe(String(5 * MIB));
    for (let n = 0; n < 3; n++) {
      free = MIB / 2 - n;
      clock.advance(15_000 as never);
      await expect.poll(shown).toBe(String(free));
    }
    expect(warned).toHaveLength(1);
    stop();
  });
});
