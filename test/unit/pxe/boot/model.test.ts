/**
 * A model test: what must hold whatever machines, forgers, operators and power cuts do, in any
 * order.
 */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type Millis, millis } from '../../../../src/base/duration.ts';
import type { Mac } from '../../../../src/base/mac.ts';
import { acceptMachine } from '../../../../src/machines/accept.ts';
import type { MachineReport } from '../../../../src/machines/machine.ts';
import { TRANSITIONS } from '../../../../src/machines/phases.ts';
import type { BootStage } from '../../../../src/pxe/client.ts';
import { BOOT_LIMIT } from '../../../../src/pxe/decide/decide.ts';
import { IMAGE, MAC1, MAC2, MAC3, machine, NETWORK, WORKER, type World, world } from './world.ts';

const MACS = [MAC1, MAC2, MAC3, '00:1b:21:00:00:0a' as Mac];
const UUIDS = ['4c4c4544-0042-3510-8051-b7c04f4d3532', '03000200-0400-0500-0006-000700080009'];

type Command =
  | { do: 'dhcp'; mac: number; stage: BootStage; ack: boolean }
  | {
      do: 'script';
      mac: number;
      also: number;
      session: number;
      uuid: number;
      serial: boolean;
      peer: number;
    }
  | { do: 'report'; session: number; step: MachineReport['step']; peer: number }
  | { do: 'accept'; mac: number }
  | { do: 'delete'; mac: number }
  | { do: 'wait'; span: Millis }
  | { do: 'restart' };

const index = fc.nat({ max: 3 });
const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('dhcp' as const),
      mac: index,
      stage: fc.constantFrom<BootStage>('pxe', 'http', 'ipxe', 'ipxe-tftp', 'none'),
      ack: fc.boolean(),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('script' as const),
      mac: index,
      also: index,
      session: fc.integer({ min: -1, max: 6 }),
      uuid: fc.nat({ max: 2 }),
      serial: fc.boolean(),
      peer: fc.nat({ max: 4 }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('report' as const),
      session: fc.integer({ min: -1, max: 6 }),
      step: fc.constantFrom<MachineReport['step']>('kernel', 'configured', 'ready', 'failed'),
      peer: fc.nat({ max: 4 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('accept' as const), mac: index }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('delete' as const), mac: index }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      span: fc.constantFrom(1000, 20_000, 400_000, 3_600_000, 30_000_000).map(millis),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('restart' as const) }) },
);

/** Sessions that a request might name: the last ones, and one that never existed. */
const named = (ids: readonly string[], n: number) => (n < 0 ? 'AAAAAAAAAAAAAAAAAAAAAA' : ids.at(-1 - n));
const peerOf = (n: number) => `10.77.0.${101 + n}`;

async function carryOut(w: World, one: Command, ids: string[]): Promise<World> {
  switch (one.do) {
    case 'dhcp': {
      const answer = w.ask({ mac: MACS[one.mac]!, stage: one.stage }, one.ack ? 'ack' : 'offer');
      if (answer.writes.length > 0) await w.store.commit(answer.writes);
      if (answer.session) ids.push(answer.session);
      if (one.ack) w.leases.set(MACS[one.mac]!, peerOf(one.mac));
      if (answer.decision.kind === 'ignore') expect(answer.bootFile).toBeUndefined();
      return w;
    }
    case 'script': {
      const mac = MACS[one.mac]!;
      const id = named(ids, one.session);
      const peer = peerOf(one.peer);
      // It comes from an address that no machine leases, so no machine may have sent it.
      const nobodys = ![...w.leases.values()].includes(peer);
      const before = nobodys ? lasting(w) : undefined;
      const answer = await w.fetch(mac, id, {
        macs: [mac, MACS[one.also]!],
        peer,
        ...(one.uuid < 2 ? { uuid: UUIDS[one.uuid]! } : {}),
        ...(one.serial ? { serial: 'SN-1' } : {}),
      });
      ids.push(answer.session!.id);
      const boots = answer.decision.kind === 'script';
      if (nobodys) {
        expect(boots).toBe(false);
        expect(lasting(w)).toEqual(before);
        expect(answer.session!.machine).toBe(peer);
      }
      expect(/^kernel /m.test(answer.script)).toBe(boots);
      // Only machines with a document boot, and a given boot is durable.
      if (boots) {
        const { macs } = w.catalog.get('Machine', answer.session!.machine)!.document.spec;
        // The address is leased to the machine, or to hardware whose UUID and serial are known.
        const trusted = one.serial && one.uuid < 2 ? [...macs, mac] : macs;
        expect(trusted.map((own) => w.leases.get(own as Mac))).toContain(peer);
        const stored = JSON.parse((await w.store.get(`session/${answer.session!.id}`))!.value);
        expect(stored).toMatchObject({ machine: answer.session!.machine, profile: 'worker' });
      }
      return w;
    }
    case 'report': {
      const id = named(ids, one.session) ?? '';
      const live = w.roster.sessions.get(id);
      const name = live?.session.machine ?? '';
      const before = w.roster.get(name)?.status;
      const answer = await w.boot.report(id, { step: one.step }, peerOf(one.peer));
      const after = w.roster.get(name)?.status;
      if (!answer.believed) expect(after).toEqual(before);
      else {
        expect(live!.session.profile).toBe('worker');
        const { macs } = w.catalog.get('Machine', name)!.document.spec;
        const known = [live!.session.mac, ...(macs as Mac[])].map((mac) => w.leases.get(mac));
        expect(known).toContain(peerOf(one.peer));
        const stored = JSON.parse((await w.store.get(`machine/${name}`))!.value);
        expect(stored.phase).toBe(after!.phase);
      }
      return w;
    }
    case 'accept': {
      const member = w.roster.byMac(MACS[one.mac]!);
      if (member) await acceptMachine(w, member.name, { profile: 'worker' }).catch(onlyUsage);
      return w;
    }
    case 'delete': {
      const member = w.roster.byMac(MACS[one.mac]!);
      if (member?.entry) await w.catalog.delete('Machine', member.name);
      return w;
    }
    case 'wait':
      w.clock.advance(one.span);
      await w.roster.flush();
      return w;
    case 'restart': {
      check(w);
      const before = lasting(w);
      const again = await w.restart();
      expect(lasting(again)).toEqual(before);
      return again;
    }
  }
}

/**
 * What a restart must not change. The time of the last packet is only stored with other changes.
 */
function lasting(w: World) {
  return w.roster.list().map(({ status: { lastSeen: _, ...status }, ...rest }) => ({ ...rest, status }));
}

/** Other documents may list all its addresses by now. */
function onlyUsage(error: unknown): void {
  expect(error).toMatchObject({ code: 'E_USAGE' });
}

/** The invariants. */
function check(w: World): void {
  const live = new Map<string, number>();
  for (const { name, status } of w.roster.list()) {
    expect(status.bootsWithoutReady).toBeLessThanOrEqual(BOOT_LIMIT);
    const documented = w.catalog.get('Machine', name) !== undefined;
    expect(status.phase === 'discovered').toBe(!documented);
    const current = w.roster.sessions.current(name);
    if (current && w.roster.sessions.isLive(current)) live.set(name, (live.get(name) ?? 0) + 1);
  }
  for (const n of live.values()) expect(n).toBe(1);
  for (const event of w.events.list({})) {
    const { from, to } = event.fields ?? {};
    if (event.kind !== 'machine.phase' || from === undefined) continue;
    expect(Object.values(TRANSITIONS[from as keyof typeof TRANSITIONS])).toContain(to);
  }
}

it('holds whatever comes in whatever order', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(command, { minLength: 5, maxLength: 60 }), async (commands) => {
      let w = await world([NETWORK, IMAGE, WORKER, machine('node-1', [MAC1], { profile: 'worker' })]);
      const ids: string[] = [];
      try {
        for (const one of commands) w = await carryOut(w, one, ids);
        check(w);
      } finally {
        w.boot.close();
      }
    }),
    { numRuns: 250, seed: 20261120 },
  );
});
