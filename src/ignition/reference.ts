/** Reference pages made from this room's tables; `make docs` writes them. */
import { CLOUD_INIT_VERSIONS } from './cloudinit-versions.ts';
import { IGNITION_VERSIONS } from './ignition-types.ts';
import { TEMPLATE_NAMES } from './template.ts';

const MADE = (from: string) => `<!-- Written by \`make docs\` from ${from}; change it there. -->\n`;

/** `docs/reference/templates.md`. */
function templatesPage(): string {
  return [
    MADE('src/ignition/template.ts'),
    '# Templates\n',
    '`${machine.name}` in a text of a [configuration](nodeconfig.md) is replaced by a value. There are no conditions and no code. A name that does not exist, or has no value for a machine, is an error when the document is applied; where it has none only on one of the networks that the machine may boot from, or with a profile that selects it by what only its firmware tells (architecture, firmware, manufacturer, product, a serial number that its document does not name), a warning that names which. For a literal `${` (a variable of a shell script) write `$${`.\n',
    '`${var.NAME}` is the value of `variables.NAME` in the merged configuration; a variable may use every name but other variables.\n',
    '| name | value |\n| --- | --- |',
    ...Object.entries(TEMPLATE_NAMES).map(([name, about]) => `| \`\${${name}}\` | ${about} |`),
    '',
  ].join('\n');
}

/** `docs/reference/formats.md`: the formats that images get. */
function formatsPage(): string {
  return [
    MADE('src/ignition/cloudinit-versions.ts and src/ignition/ignition-types.ts'),
    '# Formats of the configuration\n',
    "An Image's `configFormat` says what its machines fetch.\n",
    '## cloud-init\n',
    'The NoCloud source with a URL: user-data, meta-data, vendor-data, network-config. All four are always served, because cloud-init asks ten times more, a second apart, for each that is missing, and without meta-data or user-data boots unconfigured. `cloudInitVersion` selects the row:\n',
    '| since | kernel argument | fetches network-config | |\n| --- | --- | --- | --- |',
    ...CLOUD_INIT_VERSIONS.map(
      (row) =>
        `| ${row.since} | \`ds=${row.source};s=URL/\` | ${row.fetchesNetworkConfig ? 'yes' : 'no'} | ${row.note} |`,
    ),
    '',
    'The network configuration is also on the kernel command line (`network-config=`, base64): every version reads it there before any network is up and prefers it to all other sources, so a machine comes up on the right interface with its own addresses at once. Without `network` in the configuration that is DHCP on the interface that booted. If it is too long for the command line, it is fetched instead, and refused for versions that cannot.\n',
    '## Ignition\n',
    `Spec ${IGNITION_VERSIONS.join(', ')}; \`ignitionVersion\` selects it, ${IGNITION_VERSIONS[0]} by default. Interfaces become files of systemd-networkd, or of NetworkManager on Fedora CoreOS and its kin. \`extra.ignition\` is merged by Ignition itself (\`ignition.config.merge\`).\n`,
    '## Reports\n',
    'An image that does not say `reports: true` gets /etc/muster/muster-report.sh and its three units through the configuration: configured (after cloud-final, or after Ignition), ready (after multi-user.target), failed (with the end of the journal).\n',
  ].join('\n');
}

/** The pages as pairs of path and text. */
export const ignitionPages = (): readonly (readonly [string, string])[] => [
  ['docs/reference/templates.md', templatesPage()],
  ['docs/reference/formats.md', formatsPage()],
];
