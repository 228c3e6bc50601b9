/**
 * etcd is upgraded from 3.4 to 3.5 by an edit of the version: with the shipped boot host, the real
 * agent, real etcd of both versions, and a client that writes all the time.
 */
import fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { ChangeView } from '../../src/api/operations/changes.ts';
import type { Answer } from '../../src/api/operations.ts';
import { callApi } from './etcd/api.ts';
import { DEBIAN_12, DEBIAN_13, openRack, type Rack, until } from './etcd/rack.ts';

async function get<T>(rack: Rack, what: string): Promise<T> {
  const { status, text } = await callApi(rack.host.socket, 'GET', `/v1/clusters/one/${what}`);
  if (status !== 200) throw new Error(text);
  return JSON.parse(text) as T;
}

const versions = async (rack: Rack): Promise<string[]> => {
  const { machines } = await get<Answer<'GET /v1/clusters/:name/running'>>(rack, 'running');
  return machines.map(({ name, versions: { etcd } }) => `${name} ${etcd}`).sort();
};

/**
 * Both versions in the place of one: each machine starts the one whose flags its unit has, as if it
 * had installed it.
 */
function bothVersions(rack: Rack): void {
  const tools = join(rack.host.home, 'tools');
  for (const [name, { program }] of [['3.4', DEBIAN_12] as const, ['3.5', DEBIAN_13] as const]) {
    fs.mkdirSync(join(tools, name));
    fs.copyFileSync(program, join(tools, name, 'etcd'));
    fs.chmodSync(join(tools, name, 'etcd'), 0o755);
  }
  const choose = `#!/bin/sh
case "$*" in *--experimental-watch-progress-notify-interval=*) exec /tools/3.5/etcd "$@" ;; esac
exec /tools/3.4/etcd "$@"
`;
  fs.writeFileSync(join(tools, 'etcd.new'), choose, { mode: 0o755 });
  fs.renameSync(join(tools, 'etcd.new'), join(tools, 'etcd'));
}

test('an edited version of etcd reaches one member after the other, after a snapshot, and no write is lost', {
  timeout: 1_200_000,
}, async () => {
  const rack = await openRack({ diskMiB: 512 });
  try {
    bothVersions(rack);
    await Promise.all(rack.all.map((machine) => machine.powerOn()));
    await rack.healthy();
    rack.writer.start();
    await until(
      'every agent says which etcd runs',
      async () => (await versions(rack)).join() === 'm1 3.4.23,m2 3.4.23,m3 3.4.23',
      rack.state,
    );

    const refused = await rack.muster('cluster', 'upgrade', 'one');
    expect(refused.output).toMatch(/E_UPGRADE/);

    const file = join(rack.host.home, 'config/all.yaml');
    const text = fs.readFileSync(file, 'utf8');
    fs.writeFileSync(`${file}.new`, text.replace('3.4.23-0', '3.5.16-0'));
    fs.renameSync(`${file}.new`, file);

    const mixtures = new Set<string>();
    const ended = await until(
      'the upgrade is complete',
      async () => {
        mixtures.add((await versions(rack)).join(' '));
        const view = await get<ChangeView>(rack, 'change');
        return view.ended && view;
      },
      async () => `${(await rack.muster('change', 'one')).output}\n${await rack.state()}`,
    );
    expect(ended.ended).toMatchObject({ as: 'done' });
    expect(ended.steps.map(({ name, state }) => `${name} ${state}`)).toEqual([
      ...['snapshot done', 'prefetch done', 'etcd done', 'settle done'],
    ]);
    // One member after the other.
    expect([...mixtures]).toEqual([
      'm1 3.4.23 m2 3.4.23 m3 3.4.23',
      'm1 3.5.16 m2 3.4.23 m3 3.4.23',
      'm1 3.5.16 m2 3.5.16 m3 3.4.23',
      'm1 3.5.16 m2 3.5.16 m3 3.5.16',
    ]);
    await rack.healthy();
    await rack.nothingLost();

    // etcd 3.4 cannot read these data any more.
    fs.writeFileSync(`${file}.new`, text);
    fs.renameSync(`${file}.new`, file);
    await until(
      'the older version is refused',
      async () => (await rack.muster('status')).output.includes('E_SKEW'),
      rack.state,
    );
    expect(await versions(rack)).toEqual(['m1 3.5.16', 'm2 3.5.16', 'm3 3.5.16']);
  } finally {
    await rack.close();
  }
});
