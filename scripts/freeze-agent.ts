/**
 * Writes the agent's scripts of this tree to standard output, as tar.gz. Run it in a checkout of
 * the last release before the agent changes:
 *
 *     node scripts/freeze-agent.ts >test/peers/previous-agent.tar.gz
 *
 * test/peers/agent-upgrade.test.ts runs those scripts against the server of the tree, because
 * machines that run keep their agent for a while when Muster is upgraded.
 */
import { gzipSync } from 'node:zlib';
import { AGENT_SCRIPTS } from '../src/agent/scripts/scripts.files.ts';
import { tar } from '../src/artifacts/tar.ts';

const entries = Object.entries(AGENT_SCRIPTS).map(([name, text]) => ({ name, content: Buffer.from(text) }));
process.stdout.write(gzipSync(tar(entries), { level: 9 }));
