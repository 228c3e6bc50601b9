/** `muster image` against the real asset store and the real API. */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startApi } from '../../../src/api/api.server.ts';
import { openArtifactBook } from '../../../src/artifacts/book.ts';
import { silentLog } from '../../../src/base/log.ts';
import { type Assets, openAssets } from '../../../src/pxe/assets/assets.files.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import { openWorld, type World } from '../api/world.ts';
import { run } from './run.ts';

const octets = Buffer.from('a kernel');
const sha256 = createHash('sha256').update(octets).digest('hex');
const unused = 'c'.repeat(64);
const IMAGE = `apiVersion: muster/v1
kind: Image
metadata: {name: small}
spec: {os: debian, arch: x86_64, kernel: {sha256: ${sha256}}, configFormat: none}
`;

let world: World;
let assets: Assets;
let api: Awaited<ReturnType<typeof startApi>>;
let socket: string;
beforeEach(async () => {
  world = await openWorld(IMAGE);
  const directory = path.join(world.directory, 'assets');
  assets = await openAssets({ directory, loaderDirectories: [], log: silentLog });
  socket = path.join(world.directory, 'images.sock');
  api = await startApi({
    listen: { socket },
    deps: { ...world.deps, assets, artifacts: await openArtifactBook(openMemoryStore()) },
  });
});
afterEach(async () => {
  await api.close();
  await world.close();
});
const muster = async (...args: string[]) => {
  const ran = await run(args, { socket });
  expect(ran.err).toBe('');
  return ran;
};
const upload = () =>
  assets.receive({
    sha256,
    offset: 0,
    body: (async function* () {
      yield octets;
    })(),
  });

describe('muster image', () => {
  it('says that a file is missing which somebody took away, in ls and in verify', async () => {
    await upload();
    expect((await muster('image', 'ls')).out).toContain(' complete');
    expect(await muster('image', 'verify')).toMatchObject({ code: 0 });
    fs.rmSync(assets.find(sha256)!.path);
    expect((await muster('image', 'ls')).out).toContain('incomplete');
    const { code, out } = await muster('image', 'verify');
    expect([code, out]).toEqual([1, `image/small kernel ${sha256.slice(0, 12)} missing; add it again\n`]);
    await upload();
    expect(await muster('image', 'verify')).toMatchObject({ code: 0 });
  });

  it('says that the disk of an image is missing, which boots nothing without it', async () => {
    await upload();
    const lost = { disk: { sha256: 'd'.repeat(64) }, pieces: { sha256: 'e'.repeat(64) } };
    const metadata = { name: 'whole' };
    const spec = { os: 'debian', arch: 'x86_64', kernel: { sha256 }, configFormat: 'cloud-init', ...lost };
    const file = path.join(world.directory, 'whole.json');
    fs.writeFileSync(file, JSON.stringify({ apiVersion: 'muster/v1', kind: 'Image', metadata, spec }));
    await muster('apply', '-f', file);
    expect(JSON.parse((await muster('image', 'ls', '-o', 'json')).out)).toMatchObject([
      { name: 'small', state: 'complete' },
      { name: 'whole', state: 'incomplete', missing: ['disk', 'pieces'] },
    ]);
    const { code, out } = await muster('image', 'verify');
    expect([code, out.split('\n').filter((line) => line.includes('missing'))]).toEqual([
      1,
      [
        'image/whole disk dddddddddddd missing; add it again',
        'image/whole pieces eeeeeeeeeeee missing; add it again',
      ],
    ]);
  });

  it('says that a file has changed, once, and then that it is missing', async () => {
    await upload();
    fs.writeFileSync(assets.find(sha256)!.path, 'rotten');
    expect(await muster('image', 'verify')).toMatchObject({
      code: 1,
      out: expect.stringContaining('changed'),
    });
    expect(await muster('image', 'verify')).toMatchObject({
      code: 1,
      out: expect.stringContaining('missing'),
    });
  });

  it('lists an incomplete upload as unused and removes it, but not one that is still running', async () => {
    await assets.receive({
      sha256: unused,
      offset: 0,
      total: 5000,
      body: (async function* () {
        yield Buffer.alloc(2000);
      })(),
    });
    const gate = Promise.withResolvers<void>();
    const running = assets.receive({
      sha256,
      offset: 0,
      body: (async function* () {
        yield octets.subarray(0, 1);
        await gate.promise;
        yield octets.subarray(1);
      })(),
    });
    await expect.poll(async () => (await assets.partials()).filter(({ active }) => active).length).toBe(1);
    const listed = (await muster('image', 'ls', '--unused')).out;
    expect(listed).toContain(`${unused}  2.0 KiB  incomplete upload\n`);
    expect(listed).toMatch(new RegExp(`^${sha256}  .*  being uploaded$`, 'm'));
    expect((await muster('image', 'rm', '--unused')).out).toBe(
      `upload/${unused.slice(0, 12)} deleted (2.0 KiB, incomplete)\n`,
    );
    gate.resolve();
    expect(await running).toMatchObject({ complete: true });
    expect(await run(['image', 'ls', '--unused'], { socket })).toMatchObject({
      out: '',
      err: 'no unused files\n',
    });
  });
});
