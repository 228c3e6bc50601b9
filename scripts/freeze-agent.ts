/**
 * Writes the agent's scripts of this tree to standard output, as tar.gz. Run it on the tree of the
 * last release before the agent changes:
 *
 *     git show RELEASE:src/agent/scripts.generated.ts >/tmp/scripts.ts
 *     node scripts/freeze-agent.ts /tmp/scripts.ts >test/peers/previous-agent.tar.gz
 *
 * test/peers/agent-upgrade.test.ts runs those scripts against the server of the tree, because
 * machines that run keep their agent for a while when Muster is upgraded.
 */
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { tar } from '../src/agent/tar.ts';

const file = path.resolve(process.argv[2] ?? 'src/agent/scripts.generated.ts');
const { AGENT_SCRIPTS } = (await import(pathToFileURL(file).href)) as {
  readonly AGENT_SCRIPTS: Readonly<Record<string, string>>;
};
const entries = Object.entries(AGENT_SCRIPTS).map(([name, text]) => ({ name, content: Buffer.from(text) }));
process.stdout.write(gzipSync(tar(entries), { level: 9 }));
