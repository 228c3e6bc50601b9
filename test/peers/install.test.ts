/**
 * Installs systems on loop devices: the scripts of the discovery system against the listener for
 * machines, judged by sfdisk, mtools and fsck.vfat.
 */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { type Disk, holdsImage, isZero, MIB, openRig, type Rig, run } from './install-rig.ts';

let rig: Rig;
afterEach(() => rig.close());

const statusOf = () => rig.world.roster.get('m1')!.status;
const reasonCode = () => statusOf().reason?.code;
/** The partitions of a disk, as sfdisk sees them. */
function partitions(disk: Disk): readonly { name: string; start: number; size: number }[] {
  const { partitiontable } = JSON.parse(run('sfdisk', '--json', disk.device)) as {
    partitiontable: { partitions: { name: string; start: number; size: number }[] };
  };
  return partitiontable.partitions;
}

async function installed(session: string): Promise<void> {
  expect(await rig.install(session)).toEqual({ installed: true, cut: false });
  expect(statusOf().install?.state).toBe('written');
}

describe.each([512, 4096] as const)('on a disk with sectors of %i octets', (sector) => {
  it('a system is installed: the image, a grown partition, the configuration, both tables', async () => {
    rig = await openRig({ sector });
    const disk = rig.plug('sda', { bytes: 64 * MIB });
    await installed(await rig.boot());
    expect(holdsImage(rig, disk)).toBe(true);
    run('sfdisk', '--verify', disk.device);
    const [esp, root, seed] = partitions(disk);
    const unit = MIB / sector;
    expect([esp, root, seed]).toMatchObject([
      { name: 'esp', start: unit, size: 2 * unit },
      { name: 'root', start: 3 * unit, size: 59 * unit },
      { name: 'muster-seed', start: 62 * unit, size: unit },
    ]);
    expect(fs.readFileSync(disk.file).toString('latin1', 0, 9)).toBe('boot code');
    const volume = `${disk.file}.seed`;
    fs.writeFileSync(volume, fs.readFileSync(disk.file).subarray(62 * MIB, 63 * MIB));
    run('fsck.vfat', '-n', volume);
    expect(run('mlabel', '-i', volume, '-s', '::')).toContain('CIDATA');
    expect(run('mtype', '-i', volume, '::user-data')).toContain('/etc/muster/installed.sh');
    expect(run('mtype', '-i', volume, '::meta-data')).toContain('instance-id');
    // Pieces of zeros are not fetched: 8 to 12 MiB, and what follows 21 MiB, except for its end.
    expect(rig.fetched).not.toContain(8 * MIB);
  });
});

it('the system counts as installed when it reports from that disk, and from no other', async () => {
  rig = await openRig();
  rig.plug('sda', { serial: 'GOOD' });
  const session = await rig.boot();
  await installed(session);
  const { boot } = rig.world;
  const report = (disk: string) => boot.report(session, { step: 'ready', disk }, '127.0.0.1');
  const fromDisk = await rig.world.powerOn('52:54:00:aa:00:01' as never);
  expect(fromDisk.script).toContain('boots from its disk');
  expect(await boot.report(session, { step: 'ready' }, '127.0.0.1')).toMatchObject({ believed: false });
  expect(await report('OTHER')).toMatchObject({ believed: false });
  expect(statusOf().phase).not.toBe('ready');
  expect(await report('GOOD')).toMatchObject({ believed: true });
  expect(statusOf()).toMatchObject({ phase: 'ready', install: { state: 'installed', disk: 'GOOD' } });
  const next = await rig.world.powerOn('52:54:00:aa:00:01' as never);
  expect(next.decision).toMatchObject({ kind: 'disk', reason: { code: 'installed' } });
});

it('the same version again fetches nothing of the image', async () => {
  rig = await openRig();
  rig.plug('sda', { serial: 'GOOD' });
  await installed(await rig.boot());
  rig.order('GOOD');
  rig.fetched.length = 0;
  await installed(await rig.boot());
  expect(rig.fetched.filter((at) => at >= MIB && at < 61 * MIB)).toEqual([]);
});

describe('refuses', () => {
  it('a disk with data that nobody released, by a code, and takes it once it is released', async () => {
    rig = await openRig();
    const disk = rig.plug('sda', { serial: 'OLD' });
    fs.writeSync(fs.openSync(disk.file, 'r+'), 'old data', 100_000);
    const session = await rig.boot();
    expect(await rig.install(session)).toMatchObject({ installed: false });
    expect(statusOf()).toMatchObject({
      phase: 'failed',
      reason: {
        code: 'disk_has_data',
        text: expect.stringContaining('muster machine install m1 --release OLD'),
      },
    });
    rig.order('OTHER');
    await rig.install(session);
    expect(reasonCode()).toBe('disk_has_data');
    expect(fs.readFileSync(disk.file).toString('latin1', 100_000, 100_008)).toBe('old data');
    rig.order('OLD');
    await installed(session);
    expect(holdsImage(rig, disk)).toBe(true);
  });

  it('data at the end of a disk, too', async () => {
    rig = await openRig();
    const disk = rig.plug('sda', {});
    fs.writeSync(fs.openSync(disk.file, 'r+'), 'zfs', disk.bytes - 5000);
    await rig.install(await rig.boot());
    expect(reasonCode()).toBe('disk_has_data');
  });

  it('an installation that began here long ago, when the disk has other data since', async () => {
    rig = await openRig();
    const disk = rig.plug('sda', { serial: 'D' });
    const sha256 = createHash('sha256').update(rig.image).digest('hex');
    rig.world.roster.change(rig.world.roster.get('m1')!, {
      install: { at: rig.world.clock.now(), state: 'writing', disk: 'D', image: sha256 },
    });
    // The first sectors of a disk with btrfs are empty, too.
    fs.writeSync(fs.openSync(disk.file, 'r+'), 'other data', 65_536);
    await rig.install(await rig.boot());
    expect(reasonCode()).toBe('disk_has_data');
  });

  it('a disk that is too small by one sector, and takes the next larger one', async () => {
    rig = await openRig();
    // The last partition ends at 21 MiB; then come 1 MiB, 32 sectors of entries and the header.
    const needed = 22 * MIB + 33 * 512;
    const small = rig.plug('sda', { bytes: needed - 512 });
    const session = await rig.boot();
    await rig.install(session);
    expect(statusOf().reason).toMatchObject({
      code: 'disk_small',
      text: expect.stringContaining(`${needed / 512}`),
    });
    expect(isZero(fs.readFileSync(small.file))).toBe(true);
    rig.unplug(small);
    rig.plug('sda', { bytes: needed, serial: 'LARGER' });
    await installed(session);
  });

  it('a disk with other sectors than the image', async () => {
    rig = await openRig();
    rig.plug('sda', { sector: 4096 });
    await rig.install(await rig.boot());
    expect(reasonCode()).toBe('disk_sectors');
  });

  it('two disks with one serial number, and a disk that is not the wanted one', async () => {
    rig = await openRig({ installDisk: { serial: 'TWIN' } });
    const one = rig.plug('sda', { serial: 'TWIN' });
    rig.plug('sdb', { serial: 'TWIN' });
    const session = await rig.boot();
    await rig.install(session);
    expect(reasonCode()).toBe('disk_unfit');
    rig.unplug(one);
    await installed(session);
  });

  it('a disk that something uses', async () => {
    rig = await openRig();
    const disk = rig.plug('sda', {});
    // As the kernel shows it: a directory of the holders of the disk.
    const root = fs.readdirSync('/tmp').find((name) => disk.file.startsWith(`/tmp/${name}/`))!;
    fs.mkdirSync(`/tmp/${root}/root/sys/block/sda/holders/md0`, { recursive: true });
    await rig.install(await rig.boot());
    expect(statusOf().reason).toMatchObject({ code: 'disk_in_use', text: expect.stringContaining('md0') });
  });

  it('an image that changed on the boot host, and one that is shorter', async () => {
    rig = await openRig();
    const disk = rig.plug('sda', {});
    const sha256 = createHash('sha256').update(rig.image).digest('hex');
    const stored = rig.assets.find(sha256)!.path;
    const flipped = Buffer.from(rig.image);
    flipped[14 * MIB]! ^= 1;
    fs.chmodSync(stored, 0o644);
    fs.writeFileSync(stored, flipped);
    const session = await rig.boot();
    await rig.install(session);
    expect(reasonCode()).toBe('image_changed');
    expect(isZero(fs.readFileSync(disk.file).subarray(0, MIB))).toBe(true);
    fs.writeFileSync(stored, rig.image.subarray(0, 14 * MIB));
    await rig.install(session);
    expect(reasonCode()).toBe('image_changed');
    expect(isZero(fs.readFileSync(disk.file).subarray(0, MIB))).toBe(true);
    fs.writeFileSync(stored, rig.image);
    await installed(session);
    expect(holdsImage(rig, disk)).toBe(true);
  });
});
