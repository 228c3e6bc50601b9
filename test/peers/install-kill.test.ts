/** Kills an installation at many points, and starts it again, until it is done. */
import fs from 'node:fs';
import { afterEach, expect, it } from 'vitest';
import { holdsImage, isZero, MIB, openRig, type Rig } from './install-rig.ts';

/** How often it is killed; MUSTER_CUTS=200 takes some minutes. */
const CUTS = Number(process.env.MUSTER_CUTS ?? 20);

let rig: Rig;
afterEach(() => rig.close());

it(
  'killed at any time, it never leaves a disk that starts and is not whole, and goes on where it was',
  async () => {
    rig = await openRig({ mib: 16 });
    const member = rig.world.roster.get('m1')!;
    const disk = rig.plug('sda', { serial: 'D', bytes: 24 * MIB });
    const started = performance.now();
    expect(await rig.install(await rig.boot())).toMatchObject({ installed: true });
    const whole = performance.now() - started;
    let [made, runs] = [0, 0];
    while (made < CUTS) {
      // Another disk in its place, with data of its own, which is released.
      fs.writeFileSync(disk.file, Buffer.alloc(disk.bytes, `data ${runs}`));
      rig.order('D');
      rig.fetched.length = 0;
      let cutsHere = 0;
      for (;;) {
        // An operator who accepts the machine again: it may be cut before it says anything.
        rig.world.roster.change(member, { bootsWithoutReady: 0 });
        // Spread evenly, in an order that is not that of time.
        const after = (((made * 7 + 3) % CUTS) / CUTS) * whole;
        const { installed, cut } = await rig.install(await rig.boot(), made < CUTS ? after : undefined);
        const found = fs.readFileSync(disk.file);
        const isOld = found.toString('latin1', 0, 5) === 'data ';
        if (!isOld && !isZero(found.subarray(0, 4096))) expect(holdsImage(rig, disk)).toBe(true);
        // Cut after the boot host knew that it was done: it boots from the disk next.
        if (installed || member.status.install?.state === 'written') break;
        expect({ cut, why: member.status.reason }).toMatchObject({ cut: true });
        made++;
        cutsHere++;
      }
      runs++;
      expect(holdsImage(rig, disk)).toBe(true);
      expect(member.status.install?.state).toBe('written');
      const ofImage = rig.fetched.filter((at) => at >= MIB && at < 13 * MIB);
      expect(ofImage.length - new Set(ofImage).size).toBeLessThanOrEqual(cutsHere);
    }
  },
  60_000 + CUTS * 20_000,
);
