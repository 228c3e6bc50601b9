import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { silentLog } from '../../../../src/base/log.ts';
import { type Assets, openAssets } from '../../../../src/pxe/assets/assets.files.ts';

const hashOf = (octets: Buffer | string) => createHash('sha256').update(octets).digest('hex');

async function* parts(octets: Buffer, size = 1000) {
  for (let at = 0; at < octets.length; at += size) yield octets.subarray(at, at + size);
}

async function* breakingOff(octets: Buffer) {
  yield octets;
  throw new Error('the client went away');
}

let directory: string;
let loaders: string;
const open = () => openAssets({ directory, loaderDirectories: [loaders], log: silentLog });

beforeEach(() => {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-assets-'));
  directory = path.join(root, 'assets');
  loaders = path.join(root, 'loaders');
  fs.mkdirSync(loaders);
});
afterEach(() => fs.rmSync(path.dirname(directory), { recursive: true, force: true }));

const octets = Buffer.from(Array.from({ length: 10_000 }, (_, n) => (n * 7) & 255));
const sha256 = hashOf(octets);

describe('the asset store', () => {
  it('serves a file once all of it is there and its hash is right, and after a restart', async () => {
    const assets = await open();
    expect(assets.find(sha256)).toBeUndefined();
    expect(await assets.receive({ sha256, offset: 0, body: parts(octets) })).toEqual({
      sha256,
      complete: true,
      received: 10_000,
    });
    for (const store of [assets, await open()]) {
      const found = store.find(sha256);
      expect(found?.size).toBe(10_000);
      expect(fs.readFileSync(found!.path).equals(octets)).toBe(true);
      expect((await store.list()).map((one) => one.sha256)).toEqual([sha256]);
    }
  });

  it('deletes a file whose hash is wrong, and serves nothing of it', async () => {
    const assets = await open();
    const wrong = hashOf('something else');
    await expect(assets.receive({ sha256: wrong, offset: 0, body: parts(octets) })).rejects.toMatchObject({
      code: 'E_ASSET_HASH',
      message: expect.stringContaining(sha256),
    });
    expect(assets.find(wrong)).toBeUndefined();
    expect(await assets.progress(wrong)).toEqual({ sha256: wrong, complete: false, received: 0 });
    expect(fs.readdirSync(path.join(directory, 'sha256'))).toEqual([]);
  });

  it('keeps the octets of an upload that broke off and resumes from there, after a restart too', async () => {
    const first = octets.subarray(0, 4000);
    let assets = await open();
    await expect(assets.receive({ sha256, offset: 0, body: breakingOff(first) })).rejects.toThrow(
      'went away',
    );
    assets = await open();
    expect(await assets.progress(sha256)).toEqual({ sha256, complete: false, received: 4000 });
    await expect(assets.receive({ sha256, offset: 100, body: parts(octets) })).rejects.toMatchObject({
      code: 'E_ASSET_OFFSET',
      message: expect.stringContaining('4000'),
    });
    await assets.receive({ sha256, offset: 4000, body: parts(octets.subarray(4000)) });
    expect(assets.find(sha256)?.size).toBe(10_000);
  });

  it('accepts a file in pieces, and starts over at offset 0', async () => {
    const assets = await open();
    const piece = (from: number, to: number) =>
      assets.receive({ sha256, offset: from, total: 10_000, body: parts(octets.subarray(from, to)) });
    expect(await piece(0, 3000)).toMatchObject({ complete: false, received: 3000 });
    expect(await piece(0, 2000)).toMatchObject({ complete: false, received: 2000 });
    expect(await piece(2000, 9999)).toMatchObject({ complete: false, received: 9999 });
    expect(await piece(9999, 10_000)).toMatchObject({ complete: true, received: 10_000 });
  });

  it('refuses more octets than were announced', async () => {
    const assets = await open();
    await expect(assets.receive({ sha256, offset: 0, total: 50, body: parts(octets) })).rejects.toMatchObject(
      {
        code: 'E_ASSET_OFFSET',
      },
    );
    expect((await assets.progress(sha256)).received).toBe(0);
  });

  it('accepts one upload of a file at a time', async () => {
    const assets = await open();
    const gate = Promise.withResolvers<void>();
    const slow = (async function* () {
      yield octets;
      await gate.promise;
    })();
    const running = assets.receive({ sha256, offset: 0, body: slow });
    await expect(assets.receive({ sha256, offset: 0, body: parts(octets) })).rejects.toMatchObject({
      code: 'E_ASSET_BUSY',
    });
    await expect(assets.remove(sha256)).rejects.toMatchObject({ code: 'E_ASSET_BUSY' });
    gate.resolve();
    expect((await running).complete).toBe(true);
  });

  it('notices a file that has changed on disk and takes it out of service', async () => {
    const assets = await open();
    await assets.receive({ sha256, offset: 0, body: parts(octets) });
    expect(await assets.verify(sha256)).toBe('ok');
    fs.writeFileSync(path.join(directory, 'sha256', sha256), 'rotten');
    expect(await assets.verify(sha256)).toBe('changed');
    expect(assets.find(sha256)).toBeUndefined();
    expect((await open()).find(sha256)).toBeUndefined();
    await expect(assets.verify(sha256)).rejects.toMatchObject({ code: 'E_NOT_FOUND' });
  });

  it.each([
    ['listed', async (assets: Assets) => expect(await assets.list()).toEqual([])],
    ['verified', async (assets: Assets) => expect(await assets.verify(sha256)).toBe('missing')],
    ['asked for', async (assets: Assets) => expect((await assets.progress(sha256)).complete).toBe(false)],
    ['added again', async () => {}],
  ])('notices a file that was deleted from outside when it is %s, and accepts it again', async (_, look) => {
    const assets = await open();
    await assets.receive({ sha256, offset: 0, body: parts(octets) });
    const file = path.join(directory, 'sha256', sha256);
    fs.rmSync(file);
    await look(assets);
    expect(await assets.receive({ sha256, offset: 0, body: parts(octets) })).toMatchObject({
      complete: true,
    });
    expect(fs.readFileSync(file).equals(octets)).toBe(true);
    expect(await assets.verify(sha256)).toBe('ok');
  });

  it('does not lose a file that was added again while the old one was found missing', async () => {
    const assets = await open();
    await assets.receive({ sha256, offset: 0, body: parts(octets) });
    const old = assets.find(sha256)!;
    assets.lost(sha256, old);
    expect(assets.find(sha256)).toBeUndefined();
    await assets.receive({ sha256, offset: 0, body: parts(octets) });
    assets.lost(sha256, old);
    expect(assets.find(sha256)).toBeDefined();
  });

  it('removes files, whole or in part', async () => {
    const assets = await open();
    await assets.receive({ sha256, offset: 0, body: parts(octets) });
    await assets.remove(sha256);
    expect((await open()).find(sha256)).toBeUndefined();
    await expect(assets.remove(sha256)).rejects.toMatchObject({ code: 'E_NOT_FOUND' });
    await assets.receive({ sha256, offset: 0, total: 10_000, body: parts(octets.subarray(0, 10)) });
    await assets.remove(sha256);
    expect((await assets.progress(sha256)).received).toBe(0);
  });

  it.each([
    '',
    '../../etc/passwd',
    'A'.repeat(64),
    'g'.repeat(64),
    `${'a'.repeat(64)}/`,
    `${'a'.repeat(63)}`,
  ])('refuses %j as a hash', async (text) => {
    const assets = await open();
    expect(assets.find(text)).toBeUndefined();
    await expect(assets.receive({ sha256: text, offset: 0, body: parts(octets) })).rejects.toMatchObject({
      code: 'E_USAGE',
    });
    await expect(assets.remove(text)).rejects.toMatchObject({ code: 'E_USAGE' });
  });

  it('serves no links and no other files in its directory', async () => {
    await open();
    fs.symlinkSync('/etc/hostname', path.join(directory, 'sha256', hashOf('link')));
    fs.writeFileSync(path.join(directory, 'sha256', 'README'), 'x');
    fs.mkdirSync(path.join(directory, 'sha256', hashOf('directory')));
    expect(await (await open()).list()).toEqual([]);
  });

  it('says what is wrong when its directory cannot be used', async () => {
    fs.writeFileSync(directory, 'a file');
    await expect(open()).rejects.toMatchObject({ code: 'E_ASSET_WRITE' });
  });
});

describe('boot loaders', () => {
  const put = (name: string, text = name, mode = 0o644) => {
    const file = path.join(loaders, name);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, text);
    fs.chmodSync(file, mode);
    return file;
  };
  const names = async (): Promise<readonly string[]> => ((await open()) as Assets).loaders();

  it('are the files of the directory, by name', async () => {
    put('undionly.kpxe');
    put('ipxe.efi');
    put('sub/dir.efi');
    put('with space.efi');
    put('.hidden');
    expect(await names()).toEqual(['ipxe.efi', 'undionly.kpxe']);
    const assets = await open();
    expect(fs.readFileSync(assets.loader('ipxe.efi')!.path, 'utf8')).toBe('ipxe.efi');
    for (const name of ['sub/dir.efi', '../loaders/ipxe.efi', '/etc/passwd', '', '.', '..'])
      expect(assets.loader(name)).toBeUndefined();
  });

  it('may be links to files that all users may read (Debian links ipxe.efi to /boot), but to no others', async () => {
    const elsewhere = path.join(path.dirname(directory), 'boot');
    fs.mkdirSync(elsewhere);
    const target = path.join(elsewhere, 'real.efi');
    fs.writeFileSync(target, 'x');
    fs.chmodSync(target, 0o644);
    fs.symlinkSync(target, path.join(loaders, 'ipxe.efi'));
    const secret = path.join(elsewhere, 'key');
    fs.writeFileSync(secret, 'x');
    fs.chmodSync(secret, 0o600);
    fs.symlinkSync(secret, path.join(loaders, 'secret.efi'));
    const writable = path.join(elsewhere, 'writable');
    fs.writeFileSync(writable, 'x');
    fs.chmodSync(writable, 0o666);
    fs.symlinkSync(writable, path.join(loaders, 'writable.efi'));
    fs.symlinkSync('/nowhere', path.join(loaders, 'dangling.efi'));
    fs.symlinkSync('/etc', path.join(loaders, 'etc'));
    put('inside.efi');
    fs.symlinkSync('inside.efi', path.join(loaders, 'alias.efi'));
    expect(await names()).toEqual(['alias.efi', 'inside.efi', 'ipxe.efi']);
  });

  it('of an earlier directory are preferred, and a missing directory is ignored', async () => {
    const second = path.join(path.dirname(directory), 'second');
    fs.mkdirSync(second);
    fs.writeFileSync(path.join(second, 'ipxe.efi'), 'second');
    fs.writeFileSync(path.join(second, 'snponly.efi'), 'second');
    put('ipxe.efi', 'first');
    const assets = await openAssets({
      directory,
      loaderDirectories: ['/nowhere', loaders, second],
      log: silentLog,
    });
    expect(fs.readFileSync(assets.loader('ipxe.efi')!.path, 'utf8')).toBe('first');
    expect(assets.loader('snponly.efi')?.size).toBe(6);
    put('new.efi');
    assets.rescanLoaders();
    expect(assets.loader('new.efi')?.size).toBe(7);
  });
});
