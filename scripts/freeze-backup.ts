/**
 * Writes a backup of a boot host of this tree, as the release will have made thousands, and the key
 * that opens it: run it in a checkout of a release, as root in a namespace of its own:
 *
 *     scripts/in-namespace.sh node_modules/.bin/node scripts/freeze-backup.ts test/peers/releases
 *
 * The host has a founded cluster of simulated machines, a document in the store, and an operator.
 * test/peers/muster-upgrade.test.ts restores the backup of each release with the tree of then.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { VERSION } from '../src/base/version.ts';
import { openBootHost } from '../src/lab/simulated/boot-host.files.ts';

const PROFILE = 'apiVersion: muster/v1\nkind: Profile\nmetadata: {name: kept}\nspec: {boot: hold}\n';

const [into = ''] = process.argv.slice(2);
const [backup, key] = [join(into, `${VERSION}.age`), join(into, `${VERSION}.txt`)];
execFileSync('age-keygen', ['-o', key], { stdio: 'ignore' });
const recipient = String(execFileSync('age-keygen', ['-y', key])).trim();
const host = await openBootHost(4);
try {
  await host.powerOn({ machines: host.machines, perSecond: 0, keep: false });
  const documents = join(host.state, 'more.yaml');
  writeFileSync(documents, PROFILE);
  host.muster('apply', '-f', documents);
  host.muster('operator', 'add', 'ada', '--role', 'admin');
  host.muster('backup', 'create', '-o', backup, '--recipient', recipient);
} finally {
  await host.close();
}
