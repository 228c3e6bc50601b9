/** The scripts and units of the agent, read once from the files beside this one. */
import { scriptText, unitText } from '../../base/script-text.files.ts';

/** muster-agent.sh, the parts that it sources, then the others. */
const NAMES = [
  'muster-agent.sh',
  'muster-base.sh',
  'muster-within.sh',
  'muster-serial.sh',
  'muster-identity.sh',
  'muster-tpm.sh',
  'muster-crypt.sh',
  'muster-approval.sh',
  'muster-talk.sh',
  'muster-clock.sh',
  'muster-versions.sh',
  'muster-facts.sh',
  'muster-inventory.sh',
  'muster-evidence.sh',
  'muster-plan.sh',
  'muster-files.sh',
  'muster-pairs.sh',
  'muster-fetch.sh',
  'muster-units.sh',
  'muster-data.sh',
  'muster-etcddisk.sh',
  'muster-etcd.sh',
  'muster-image.sh',
  'muster-snapshot.sh',
  'muster-kept.sh',
  'muster-upgrade.sh',
  'muster-disk.sh',
  'muster-format.sh',
  'muster-luks.sh',
  'muster-check.sh',
] as const;

const script = (name: string): string => scriptText(`src/agent/scripts/${name}`);

/** The scripts of every machine of a cluster, by file name. */
export const AGENT_SCRIPTS: Readonly<Record<string, string>> = Object.fromEntries(
  NAMES.map((name) => [name, script(name)]),
);

/** Starts the agent; the only script that an upgrade of the agent does not replace. */
export const START_SCRIPT = script('muster-start.sh');

/** Only machines with a boot disk get this script with their first configuration. */
export const BOOT_SCRIPT = script('muster-boot.sh');

export const AGENT_UNIT = unitText('src/agent/scripts/muster-agent.service');
export const INLINE_UNIT = unitText('src/agent/scripts/muster-inline.service');
