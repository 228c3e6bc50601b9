/**
 * Writes what another project's DHCP server has to be configured with, so that machines boot from
 * Muster: a loader for each architecture of firmware, and a script for iPXE. Pure.
 */

/** What a DHCP server says to machines that boot (src/pxe/decide/boot-table.ts). */
export interface BootTable {
  readonly network: string;
  /** For example `10.77.0.0/24`. */
  readonly subnet: string;
  /** The boot host's address on this network. */
  readonly server: string;
  /** URL of the script for an iPXE that runs already. */
  readonly script: string;
  readonly rows: readonly BootRow[];
}

interface BootRow {
  /** Value of option 93. */
  readonly code: number;
  readonly about: string;
  /** The firmware takes a URL, and only from a server that calls itself `HTTPClient`. */
  readonly http: boolean;
  /** Name for TFTP, or a URL. */
  readonly file: string;
}

/** The DHCP servers that snippets are written for. */
export const DHCP_PROGRAMS = ['dnsmasq', 'kea', 'isc', 'windows', 'mikrotik', 'unifi'] as const;
export type DhcpProgram = (typeof DHCP_PROGRAMS)[number];

const hex4 = (code: number): string => code.toString(16).padStart(4, '0');
/** The beginning of option 60, for servers that cannot compare option 93. */
const vendorClass = ({ code, http }: BootRow): string =>
  `${http ? 'HTTP' : 'PXE'}Client:Arch:${String(code).padStart(5, '0')}`;

/** The lines of a snippet, without the comment at its beginning. */
type Writer = (table: BootTable) => readonly string[];

/** A row of dnsmasq.conf sets a tag, and the next row names a file for clients with this tag. */
const dnsmasq: Writer = ({ server, script, rows }) => [
  'dhcp-userclass=set:muster-ipxe,iPXE',
  `dhcp-boot=tag:muster-ipxe,${script},,${server}`,
  ...rows.flatMap(({ code, about, http, file }) => [
    `# ${about}`,
    `dhcp-match=set:muster-${code},option:client-arch,${code}`,
    `dhcp-boot=tag:muster-${code},tag:!muster-ipxe,${file},,${server}`,
    ...(http ? [`dhcp-option-force=tag:muster-${code},tag:!muster-ipxe,60,HTTPClient`] : []),
  ]),
];

/**
 * The value of `client-classes` for Kea. The first octets of option 93 are compared, because it is
 * a list.
 */
const kea: Writer = ({ server, script, rows }) => {
  const always = (name: string, data: string) => ({ name, data, 'always-send': true });
  const classes = [
    {
      name: 'muster-ipxe',
      test: "option[77].hex == 'iPXE'",
      'next-server': server,
      'boot-file-name': script,
    },
    ...rows.map(({ code, http, file }) => ({
      name: `muster-${code}`,
      test: `substring(option[93].hex, 0, 2) == 0x${hex4(code)} and not member('muster-ipxe')`,
      'next-server': server,
      'boot-file-name': file,
      ...(http && {
        'option-data': [always('vendor-class-identifier', 'HTTPClient'), always('boot-file-name', file)],
      }),
    })),
  ];
  return JSON.stringify(classes, undefined, 2).split('\n');
};

/** ISC dhcpd has numbers in option 93 only if it is no list. */
const isc: Writer = ({ server, script, rows }) => [
  'option muster-architecture code 93 = string;',
  `next-server ${server};`,
  'if exists user-class and option user-class = "iPXE" {',
  `  filename "${script}";`,
  ...rows.flatMap(({ code, about, http, file }) => [
    `} elsif substring(option muster-architecture, 0, 2) = ${hex4(code).replace(/(..)(..)/, '$1:$2')} {`,
    `  # ${about}`,
    ...(http ? ['  option vendor-class-identifier "HTTPClient";'] : []),
    `  filename "${file}";`,
  ]),
  '}',
];

/** PowerShell. Policies are tried in their order, and iPXE has the vendor class of its firmware. */
const windows: Writer = ({ subnet, server, script, rows }) => {
  const policy = (name: string, type: 'User' | 'Vendor', data: string, file: string, order: number) => {
    const condition = type === 'User' ? `-UserClass EQ,'${name}'` : `-VendorClass EQ,'${name}*'`;
    return [
      `Add-DhcpServerv4Class -Name '${name}' -Type ${type} -Data '${data}'`,
      `Add-DhcpServerv4Policy -Name '${name}' -ScopeId $scope -Condition OR ${condition} -ProcessingOrder ${order}`,
      `Set-DhcpServerv4OptionValue -ScopeId $scope -PolicyName '${name}' -OptionId 66 -Value '${server}'`,
      `Set-DhcpServerv4OptionValue -ScopeId $scope -PolicyName '${name}' -OptionId 67 -Value '${file}'`,
    ];
  };
  return [
    `$scope = '${subnet.replace(/\/.*/, '')}'`,
    'if (-not (Get-DhcpServerv4OptionDefinition -OptionId 60 -ErrorAction SilentlyContinue)) {',
    "  Add-DhcpServerv4OptionDefinition -OptionId 60 -Name 'Class' -Type String",
    '}',
    ...policy('Muster iPXE', 'User', 'iPXE', script, 1),
    ...rows.flatMap((row, index) => {
      const name = `Muster ${row.code} ${row.about}`;
      return [
        ...policy(name, 'Vendor', vendorClass(row), row.file, index + 2),
        ...(row.http
          ? [
              `Set-DhcpServerv4OptionValue -ScopeId $scope -PolicyName '${name}' -OptionId 60 -Value 'HTTPClient'`,
            ]
          : []),
      ];
    }),
  ];
};

/** RouterOS 7. SERVER and POOL are names that only the operator knows. */
const mikrotik: Writer = ({ subnet, server, script, rows }) => {
  const all = [
    { key: 'ipxe', code: 77, value: 'iPXE', http: false, file: script },
    ...rows.map((row) => ({
      ...{ key: String(row.code), code: 60, value: vendorClass(row), http: row.http, file: row.file },
    })),
  ];
  return [
    '/ip dhcp-server network',
    `set [find address=${subnet}] next-server=${server}`,
    '/ip dhcp-server option',
    `add name=muster-server code=66 value="s'${server}'"`,
    `add name=muster-http code=60 value="s'HTTPClient'"`,
    ...all.map(({ key, file }) => `add name=muster-${key} code=67 value="s'${file}'"`),
    '/ip dhcp-server option sets',
    ...all.map(
      ({ key, http }) =>
        `add name=muster-${key} options=muster-server,muster-${key}${http ? ',muster-http' : ''}`,
    ),
    '/ip dhcp-server matcher',
    ...all.map(
      ({ key, code, value }) =>
        `add name=muster-${key} server=SERVER address-pool=POOL code=${code} matching-type=substring value=${value} option-set=muster-${key}`,
    ),
  ];
};

/**
 * UniFi has one boot file for all clients. An iPXE would get itself again and again, so Muster adds
 * the boot file as a proxy.
 */
const unifi: Writer = ({ network, server }) => [
  '# UniFi names one boot file for all clients: an iPXE would load itself again and again.',
  '# 1. In the settings of this network of UniFi, switch "Network Boot" and "TFTP Server" off.',
  `# 2. In Network/${network} of Muster, write: dhcp: {mode: proxy}`,
  `# 3. With DHCP Guarding, or DHCP snooping in a switch, trust ${server} as well.`,
];

interface Program {
  readonly comment: '#' | '//';
  /** Where the snippet belongs. */
  readonly place: string;
  readonly write: Writer;
}

const PROGRAMS: Readonly<Record<DhcpProgram, Program>> = {
  dnsmasq: { comment: '#', place: 'a file in /etc/dnsmasq.d', write: dnsmasq },
  kea: {
    comment: '//',
    place: 'a file that kea-dhcp4.conf includes: "client-classes": <?include "/etc/kea/muster.json"?>',
    write: kea,
  },
  isc: {
    comment: '#',
    place: 'a file that dhcpd.conf includes: include "/etc/dhcp/muster.conf";',
    write: isc,
  },
  windows: { comment: '#', place: 'PowerShell on the DHCP server, as administrator', write: windows },
  mikrotik: {
    comment: '#',
    place: 'the terminal of RouterOS 7, with SERVER and POOL replaced by names of yours',
    write: mikrotik,
  },
  unifi: { comment: '#', place: 'the settings of the UniFi Network application', write: unifi },
};

/**
 * The configuration that makes `program` boot machines from Muster.
 *
 * @example
 * dhcpSnippet('dnsmasq', table);
 * // dhcp-match=set:muster-7,option:client-arch,7
 * // dhcp-boot=tag:muster-7,tag:!muster-ipxe,ipxe.efi,,10.77.0.1
 */
export function dhcpSnippet(program: DhcpProgram, table: BootTable): string {
  const { comment, place, write } = PROGRAMS[program];
  const head = [
    `Written by \`muster network snippet ${table.network} --for ${program}\` for ${place}.`,
    'Write it again when Network or loaders change; --check FILE says whether it still fits.',
  ];
  return [...head.map((line) => `${comment} ${line}`), ...write(table), ''].join('\n');
}
