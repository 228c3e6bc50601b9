/** Takes a snapshot of a rack's etcd, and has its members lose their data. */
import type { Rack } from './rack.ts';

/** Takes a snapshot by the command; resolves with its id. */
export async function takeSnapshot(rack: Rack): Promise<string> {
  const { code, output } = await rack.muster('cluster', 'backup', 'one');
  if (code !== 0) throw new Error(`${output}\n${await rack.state()}`);
  return /snapshot (\S+):/.exec(output)![1]!;
}

/** All members lose their data, start again, and are held because etcd has no quorum. */
export async function loseAll(rack: Rack): Promise<void> {
  const { all } = rack;
  for (const machine of all) {
    machine.lose('/var/lib/muster/etcd/member');
    machine.lose('/var/lib/muster/marker');
  }
  await Promise.all(all.map((machine) => machine.cycle()));
  await Promise.all(all.map(({ name }) => rack.decision(name, 'hold no-quorum')));
}
