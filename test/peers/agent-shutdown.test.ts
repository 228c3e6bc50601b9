/**
 * An agent whose machine is switched off, under a real systemd in its own namespaces. Needs root
 * and scripts/in-namespace.sh.
 */
import fs from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { SOURCE } from './agent-kit.ts';
import { DEBIAN_13 } from './etcd/rack.ts';
import { underSystemd } from './under-systemd.ts';

it('an agent reports the last words of etcd, and when its machine is switched off, so that the machine’s next boot need not wait', {
  timeout: 150_000,
}, async () => {
  const server = path.join(import.meta.dirname, 'agent-shutdown-server.ts');
  const said = await underSystemd('agent-shutdown-guest.sh', [
    SOURCE,
    process.execPath,
    server,
    DEBIAN_13.program,
  ]);
  const asked = [...said.matchAll(/^asked: (.*?)\s*$/gm)].map(([, one]) => one!);
  const boot = fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  expect([asked[0], asked[1], asked.at(-1)], said).toEqual([
    '/agent/redeem - -',
    `/agent/poll cp1 ${boot}`,
    `/agent/leave cp1 ${boot}`,
  ]);
  // Out of the journal of a unit that ends at each start.
  expect(said).toMatch(/^ended: etcd panic: failed to open database\s*$/m);
});
