/**
 * A boot host that installs systems on loop devices, and a machine that runs the scripts of the
 * discovery system with busybox, as its initrd does.
 */
import { execFileSync, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { piecesText } from '../../src/artifacts/disk-layout.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { piecesOf } from '../../src/cli/image/pieces.ts';
import { type Assets, openAssets } from '../../src/pxe/assets/assets.files.ts';
import { startMachineHttp } from '../../src/pxe/http/machines.server.ts';
import { document, MAC1, machine, NETWORK, type World, world } from '../unit/pxe/boot/world.ts';

export const MIB = 1024 * 1024;
export const run = (program: string, ...args: readonly string[]): string =>
  execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

const sha256Of = (octets: Uint8Array): string => createHash('sha256').update(octets).digest('hex');

/** A loop device, as a disk of the machine. */
export interface Disk {
  readonly name: string;
  readonly file: string;
  readonly device: string;
  readonly serial: string;
  readonly bytes: number;
  readonly sector: number;
}

/** An image with two partitions of random octets and one of zeros between them. */
function makeImage(file: string, sector: 512 | 4096, mib = 24): Buffer {
  fs.writeFileSync(file, Buffer.alloc(mib * MIB));
  const unit = MIB / sector;
  const table = [
    'label: gpt',
    `start=${unit}, size=${2 * unit}, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, name=esp`,
    `start=${3 * unit}, size=${(mib - 6) * unit}, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709, name=root`,
  ];
  // sfdisk takes the size of the sectors from a device.
  const device = run('losetup', '--find', '--show', '--sector-size', String(sector), file).trim();
  execFileSync('sfdisk', ['--quiet', '--no-reread', device], {
    input: `${table.join('\n')}\n`,
    stdio: ['pipe', 'ignore', 'pipe'],
  });
  run('losetup', '--detach', device);
  const image = fs.readFileSync(file);
  // Boot code, which is kept.
  image.write('boot code', 0, 'latin1');
  randomBytes(6 * MIB).copy(image, MIB);
  randomBytes((mib - 15) * MIB).copy(image, 12 * MIB);
  fs.writeFileSync(file, image);
  return image;
}

export interface Rig {
  readonly world: World;
  readonly assets: Assets;
  readonly image: Buffer;
  /** The offsets of extents that were fetched. */
  readonly fetched: number[];
  /** Makes a disk, and plugs it in. */
  plug(name: string, of: { serial?: string; bytes?: number; sector?: number; file?: string }): Disk;
  unplug(disk: Disk): void;
  /** Orders an installation, as an operator does. */
  order(released?: string): void;
  /** Boots the machine up to its script. */
  boot(): Promise<string>;
  /** Runs the installing system in the session, and kills it after `cutAfter` milliseconds. */
  install(session: string, cutAfter?: number): Promise<{ installed: boolean; cut: boolean }>;
  close(): Promise<void>;
}

/** The files that the discovery system's initrd has, in a directory, with its programs. */
function system(directory: string): string {
  const bin = path.join(directory, 'bin');
  fs.mkdirSync(bin, { recursive: true });
  for (const applet of run('busybox', '--list').split('\n').filter(Boolean))
    fs.symlinkSync('/usr/bin/busybox', path.join(bin, applet));
  fs.rmSync(path.join(bin, 'lsblk'), { force: true });
  fs.copyFileSync('images/discovery/lsblk.sh', path.join(bin, 'lsblk'));
  fs.chmodSync(path.join(bin, 'lsblk'), 0o755);
  return bin;
}

/** Opens the rig, by default with a profile that installs on the smallest disk. */
export async function openRig({
  sector = 512 as 512 | 4096,
  installDisk = { choose: 'smallest' } as object,
  mib = 24,
} = {}): Promise<Rig> {
  const home = fs.mkdtempSync(path.join(tmpdir(), 'muster-install-'));
  const root = path.join(home, 'root');
  for (const part of ['sys/block', 'dev', 'proc', 'run'])
    fs.mkdirSync(path.join(root, part), { recursive: true });
  const bin = system(home);
  const assets = await openAssets({
    directory: path.join(home, 'assets'),
    loaderDirectories: [],
    log: silentLog,
  });
  const put = async (octets: Uint8Array): Promise<string> => {
    const sha256 = sha256Of(octets);
    await assets.receive({
      sha256,
      offset: 0,
      body: (async function* () {
        yield octets;
      })(),
    });
    return sha256;
  };
  const image = makeImage(path.join(home, 'image'), sector, mib);
  const pieces = piecesText((await piecesOf([image])).pieces);
  const [kernel, disk, list] = [
    await put(Buffer.from('kernel')),
    await put(image),
    await put(Buffer.from(pieces)),
  ];
  const w = await world(
    [
      NETWORK,
      document('Image', 'server', {
        os: 'debian',
        arch: 'x86_64',
        kernel: { sha256: kernel },
        disk: { sha256: disk },
        pieces: { sha256: list },
        configFormat: 'cloud-init',
        cloudInitVersion: '22.4',
      }),
      document('Profile', 'installed', { image: 'server', home: 'disk', installDisk }),
      machine('m1', [MAC1], { profile: 'installed' }),
    ],
    { files: assets, leases: new Map([[MAC1, '127.0.0.1']]) },
  );
  const fetched: number[] = [];
  const http = await startMachineHttp({
    networks: () => [w.network],
    boot: {
      ...w.boot,
      installExtent(session, at, asked) {
        fetched.push(at);
        return w.boot.installExtent(session, at, asked);
      },
    },
    assets,
    events: w.events,
    subjectOf: () => undefined,
    admits: () => true,
    standing: () => 'machine',
    clock: systemClock,
    log: silentLog,
    metrics: w.metrics,
    listen: { host: '127.0.0.1', port: 0 },
  });
  const disks = new Set<Disk>();
  const unplug = (gone: Disk): void => {
    run('losetup', '--detach', gone.device);
    fs.rmSync(path.join(root, 'sys/block', gone.name), { recursive: true });
    fs.rmSync(path.join(root, 'dev', gone.name));
    disks.delete(gone);
  };
  return {
    world: w,
    assets,
    image,
    fetched,
    plug(name, { serial = name.toUpperCase(), bytes = 64 * MIB, sector: own = sector, file }) {
      const backing = file ?? path.join(home, `${name}-${randomBytes(4).toString('hex')}`);
      if (file === undefined) fs.writeFileSync(backing, '');
      fs.truncateSync(backing, bytes);
      const device = run('losetup', '--find', '--show', '--sector-size', String(own), backing).trim();
      const sys = path.join(root, 'sys/block', name);
      fs.mkdirSync(path.join(sys, 'queue'), { recursive: true });
      const facts = {
        dev: '8:0',
        size: bytes / 512,
        serial,
        'queue/logical_block_size': own,
        'queue/rotational': 0,
      };
      for (const [fact, value] of Object.entries(facts)) fs.writeFileSync(path.join(sys, fact), `${value}\n`);
      fs.symlinkSync(device, path.join(root, 'dev', name));
      const made = { name, file: backing, device, serial, bytes, sector: own };
      disks.add(made);
      return made;
    },
    unplug,
    order: (released) =>
      w.roster.change(w.roster.get('m1')!, {
        install: { at: w.clock.now(), state: 'ordered', ...(released !== undefined && { released }) },
      }),
    async boot() {
      const { session, script } = await w.powerOn(MAC1);
      if (!script.includes('kernel ')) throw new Error(`no boot: ${script}`);
      return session!.id;
    },
    install(session, cutAfter) {
      const words = ['base', 'within', 'serial', 'inventory']
        .map((part) => `. src/agent/scripts/muster-${part}.sh;`)
        .join(' ');
      const child = spawn(
        '/usr/bin/busybox',
        [
          'sh',
          '-c',
          `${words} . images/discovery/install.sh; install_once; done=$?; cat "$run/install.answer"; exit $done`,
        ],
        {
          env: {
            PATH: bin,
            root,
            run: path.join(root, 'run'),
            url: `http://127.0.0.1:${http.port}/boot/${session}`,
            known_as: 'm1',
            MUSTER_ATTEMPTS: '2',
          },
          detached: true,
          stdio: ['ignore', 'ignore', 'inherit'],
        },
      );
      let cut = false;
      const timer =
        cutAfter === undefined
          ? undefined
          : setTimeout(() => {
              cut = true;
              process.kill(-child.pid!, 'SIGKILL');
            }, cutAfter);
      return new Promise((done) =>
        child.once('close', (code) => {
          clearTimeout(timer);
          done({ installed: code === 0, cut });
        }),
      );
    },
    async close() {
      await http.close();
      w.boot.close();
      for (const one of [...disks]) unplug(one);
      fs.rmSync(home, { recursive: true });
    },
  };
}

export const isZero = (octets: Buffer): boolean => octets.every((octet) => octet === 0);

/** Whether everything but the first MiB and what is made for the disk is that of the image. */
export function holdsImage({ image }: Rig, disk: Disk): boolean {
  const until = image.length - 3 * MIB;
  return fs.readFileSync(disk.file).subarray(MIB, until).equals(image.subarray(MIB, until));
}
