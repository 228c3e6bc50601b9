/**
 * Three control planes are upgraded to the next minor version of Kubernetes with real API servers,
 * controller managers, schedulers and etcd, under a client that asks 50 times a second: by the
 * shipped boot host and real agents, of which some are killed meanwhile. Needs MUSTER_ARTIFACTS and
 * MUSTER_FORMER_ARTIFACTS: test/artifacts.ts.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ChangeView } from '../../src/api/operations/changes.ts';
import { systemClock } from '../../src/base/clock.ts';
import { minorOf } from '../../src/cluster/model/versions.ts';
import { ARTIFACTS, FORMER_ARTIFACTS } from '../artifacts.ts';
import { until } from './etcd/rack.ts';
import { ApiClient } from './kubernetes/api-client.ts';
import { Timeline } from './kubernetes/timeline.ts';
import { get, openTwoVersions, type TwoVersions } from './kubernetes/two-versions.ts';

const LOGS = [
  'systemctl',
  'containerd.service',
  'agent',
  'kubelet.pods',
  'kubelet.service',
  'kube-apiserver',
  'muster-objects.service',
];

describe.skipIf(ARTIFACTS === undefined || FORMER_ARTIFACTS === undefined)(
  'with two versions of Kubernetes',
  () => {
    let of: TwoVersions;
    let client: ApiClient;
    let timeline: Timeline;

    const logs = (): string =>
      of.rack.all
        .flatMap((machine) =>
          LOGS.map(
            (name) =>
              `--- ${machine.name} ${name}\n${(machine.read(`/run/${name}.log`) ?? '-').slice(-1500)}`,
          ),
        )
        .join('\n');
    const state = async (): Promise<string> =>
      [
        (await of.rack.muster('change', 'one')).output,
        (await of.rack.muster('cluster', 'status', 'one')).output,
        logs(),
        of.rack.host.log(),
      ].join('\n');
    const view = (): Promise<ChangeView> => get<ChangeView>(of.rack, 'change');
    const upgrade = async (...words: string[]): Promise<void> => {
      const { code, output } = await of.rack.muster('cluster', 'upgrade', 'one', ...words);
      expect(code, output).toBe(0);
    };
    const healthy = (): Promise<unknown> =>
      until(
        'the cluster is healthy',
        async () => (await of.rack.muster('cluster', 'status', 'one')).code === 0,
        state,
        600,
      );
    const reaches = (what: string, wanted: (now: ChangeView) => boolean): Promise<ChangeView> =>
      until(
        what,
        async () => {
          timeline.read();
          const now = await view().catch(() => undefined);
          return now !== undefined && wanted(now) && now;
        },
        state,
        600,
      );

    beforeAll(async () => {
      of = await openTwoVersions();
      await Promise.all(of.rack.all.map((machine) => machine.powerOn()));
      await of.rack.healthy(600).catch((error) => {
        throw new Error(`${logs()}\n${error}`.slice(0, 12000));
      });
      await healthy();
      timeline = new Timeline(of.rack.all);
      client = new ApiClient(of.rack.all);
      const kubeconfig = await of.rack.muster('kubeconfig', 'one');
      expect(kubeconfig.code, kubeconfig.output).toBe(0);
      await client.prepare(kubeconfig.output);
      client.start();
    }, 900_000);

    afterAll(async () => {
      await client?.stop();
      await of?.rack.close();
    }, 60_000);

    test('a new control plane that serves as the old version is taken back, with all that was written to it', {
      timeout: 900_000,
    }, async () => {
      const served = await client.discovery();
      await upgrade('--to', of.to, '--soak', '0s', '--until', 'soak');
      await reaches('it pauses', ({ paused }) => paused !== undefined);
      const old = minorOf(of.from).split('.')[1];
      for (const version of await client.versions())
        expect(version).toMatchObject({ gitVersion: `v${of.to}`, emulationMinor: old });
      expect(await client.discovery()).toEqual(served);
      const written = await client.writeEveryKind();
      expect(written.length).toBeGreaterThan(25);
      const back = await of.rack.muster('change', 'one', 'roll-back');
      expect(back.code, back.output).toBe(0);
      const { ended } = await reaches('it was taken back', (now) => now.ended !== undefined);
      expect(ended).toMatchObject({ as: 'rolled-back' });
      for (const version of await client.versions())
        expect(version).toMatchObject({ gitVersion: `v${of.from}` });
      expect(await client.readEveryKind()).toEqual(written);
      expect(timeline.states().forbidden).toEqual([]);
      expect(client.failedTwice).toEqual([]);
      await healthy();
    });

    test('all programs reach the next minor version in the order of the skew policy, and no request fails twice', {
      timeout: 1_800_000,
    }, async () => {
      const began = systemClock.monotonic();
      // A busy host may miss an answer of etcd just when the checks ask.
      await until(
        'the upgrade begins',
        async () => {
          const { code, output } = await of.rack.muster(
            ...['cluster', 'upgrade', 'one', '--to', of.to, '--soak', '1s'],
          );
          if (code !== 0) throw new Error(output);
          return true;
        },
        state,
      );
      await reaches('the emulation is lifted', ({ step }) => step === 'lift-managers');
      const refused = await of.rack.muster('change', 'one', 'roll-back');
      expect(refused).toMatchObject({ code: 1, output: expect.stringContaining('E_CHANGE') });
      await of.rack.host.restart();
      for (const machine of of.rack.all) machine.killAgent();
      await reaches('the kubelets', ({ step }) => step === 'control-planes');
      await of.rack.host.restart();
      of.rack.all[1]!.killAgent();
      const { ended } = await reaches('it has ended', (now) => now.ended !== undefined);
      expect(ended).toMatchObject({ as: 'done' });
      const seconds = Math.round((systemClock.monotonic() - began) / 1000);
      await healthy();
      await client.stop();
      const { all, forbidden } = timeline.states();
      const { answered, retried, slowestMs } = client;
      const text = {
        seconds,
        answered,
        retried,
        slowestMs: Math.round(slowestMs),
        all,
        reasons: [...client.reasons],
      };
      console.log(JSON.stringify(text, undefined, 1));
      expect(forbidden).toEqual([]);
      expect(client.failedTwice).toEqual([]);
    });
  },
);
