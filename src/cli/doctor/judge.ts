/** What `muster doctor` says about what it observed. Pure. */

/**
 * For how many seconds DHCP servers are asked. Servers probe an address before they offer it:
 * dnsmasq for 3 s, Windows up to 5 s.
 */
export const ASKED_FOR_S = 8;

/** `unknown`: it could not be looked at; the text says why. */
export type State = 'ok' | 'warn' | 'fail' | 'unknown';

export interface Finding {
  readonly check: string;
  readonly network?: string;
  readonly state: State;
  readonly text: string;
  /** What to change. */
  readonly remedy?: string;
}

/** A network of the documents, or only an address of this host. */
export interface Segment {
  readonly network: string;
  /** Absent: no server runs that says it. */
  readonly mode?: string;
  readonly subnet: string;
  readonly mtu?: number;
  /** Absent: this host has no address in the subnet. */
  readonly interface?: string;
  readonly address?: string;
}

/** What was observed on a segment; a text says why something could not be. */
export interface Observed {
  readonly operstate?: string | undefined;
  readonly mtu?: number | undefined;
  /** A text: nothing could be asked, and why. */
  readonly offers: readonly Offer[] | string;
  readonly tftp: Asked;
  readonly http: Asked;
}

/** What a service of this host said, or why it said nothing. */
export interface Asked {
  readonly ok: boolean;
  readonly text: string;
  /** false: no program of this host listens on the port. */
  readonly listens?: boolean | undefined;
}

/** An answer to a DISCOVER, or on port 4011. */
export interface Offer {
  readonly server: string;
  /** 0.0.0.0: a boot file without an address, as a proxy offers it. */
  readonly address: string;
  readonly file: string;
  /** Where the file is; absent: at the server itself. */
  readonly from?: string;
  /** The hardware of the server, if the kernel learned it. */
  readonly mac?: string;
}

const finding = (check: string, state: State, text: string, remedy?: string): Finding => ({
  check,
  state,
  text,
  ...(remedy !== undefined && { remedy }),
});

/** Judges one segment. */
export function judgeSegment(segment: Segment, observed: Observed | undefined): readonly Finding[] {
  const { network } = segment;
  const found =
    segment.address === undefined || observed === undefined
      ? [
          finding(
            'address',
            segment.mode === 'off' ? 'ok' : 'warn',
            `this host has no address in ${segment.subnet}`,
            'Give an interface an address in the subnet, or list the relays that forward for it in dhcp.relays.',
          ),
        ]
      : [
          finding('address', 'ok', `${segment.address} on ${segment.interface}`),
          linkOf(segment, observed),
          mtuOf(segment, observed),
          ...serversOf(segment, observed),
          serviceOf('tftp', 'UDP port 69', segment, observed.tftp),
          serviceOf('http', 'the TCP port for machines', segment, observed.http),
        ];
  return found.map((one) => ({ ...one, network }));
}

function linkOf({ interface: name }: Segment, { operstate }: Observed): Finding {
  return operstate === undefined || operstate === 'up' || operstate === 'unknown'
    ? finding('link', 'ok', `${name} is up`)
    : finding('link', 'fail', `${name} is ${operstate}`, 'Look at the cable, and at the port of the switch.');
}

function mtuOf({ interface: name, mtu: wanted = 1500 }: Segment, { mtu }: Observed): Finding {
  if (mtu === undefined) return finding('mtu', 'unknown', `the MTU of ${name} is not known`);
  return mtu >= wanted
    ? finding('mtu', 'ok', `${mtu}`)
    : finding(
        'mtu',
        'fail',
        `${name} has ${mtu}, and the Network ${wanted}: large packets are lost`,
        `ip link set ${name} mtu ${wanted}, or lower \`mtu\` in the Network.`,
      );
}

function serviceOf(check: string, port: string, { interface: name }: Segment, asked: Asked): Finding {
  if (asked.ok) return finding(check, 'ok', asked.text);
  return asked.listens === false
    ? finding(
        check,
        'fail',
        `nothing listens on ${port}`,
        `Start the server with ${name} in MUSTER_INTERFACE or --interface.`,
      )
    : finding(
        check,
        'fail',
        asked.text,
        `Look whether ${name} is in MUSTER_INTERFACE or --interface, and allow ${port} in the firewall of this host.`,
      );
}

function serversOf({ mode, address: own }: Segment, { offers }: Observed): readonly Finding[] {
  const told = (state: State, text: string, remedy?: string) =>
    finding('dhcp servers', state, `${text} (asked for ${ASKED_FOR_S} s)`, remedy);
  if (typeof offers === 'string') return [finding('dhcp servers', 'unknown', offers)];
  // Without a server of ours, whatever answers from this host is another one too.
  const others = offers.filter(({ server }) => mode === undefined || server !== own);
  const names = (list: readonly Offer[]): string =>
    [...new Set(list.map(({ server, mac }) => (mac === undefined ? server : `${server} (${mac})`)))].join(
      ', ',
    );
  const givers = others.filter(({ address }) => address !== '0.0.0.0');
  // A server that names files of this host does what `muster network snippet` says.
  const booters = others.filter(({ file, from }) => file !== '' && from !== own);
  const rivals = booters.map(() =>
    told(
      'fail',
      `${names(booters)} offers ${[...new Set(booters.map(({ file }) => file))].join(', ')} to boot from as well: machines take whichever comes first`,
      'Remove next-server and filename from that server, or switch it off where it is a proxy.',
    ),
  );
  const boots = others.some(({ from }) => from === own);
  return [...rivals.slice(0, 1), ...givenBy(mode, { givers, names: names(givers), rivals, boots }, told)];
}

/** Judges who gives addresses. `boots`: it also names files of this host to boot from. */
function givenBy(
  mode: string | undefined,
  {
    givers: [first],
    names,
    rivals,
    boots,
  }: {
    readonly givers: readonly Offer[];
    readonly names: string;
    readonly rivals: readonly Finding[];
    readonly boots: boolean;
  },
  told: (state: State, text: string, remedy?: string) => Finding,
): readonly Finding[] {
  if (first === undefined) {
    if (mode === 'proxy')
      return [told('fail', 'no DHCP server gives addresses here', 'Start one, or set dhcp.mode to server.')];
    return rivals.length > 0 ? [] : [told('ok', 'no other one answers')];
  }
  const gives = (what: string): string => `${names} gives ${what}, such as ${first.address}`;
  if (mode === 'proxy') return [told('ok', gives('the addresses'))];
  if (mode === 'reservations') return [told('ok', gives('addresses to machines without a reservation'))];
  if (mode === 'off')
    return boots
      ? [told('ok', `${gives('the addresses')}, and boots machines from here`)]
      : [
          told(
            'warn',
            `${gives('the addresses')}, and boots no machine from here`,
            'Configure it with `muster network snippet`, or set dhcp.mode to proxy.',
          ),
        ];
  const remedy = 'Switch that server off on this segment, or set dhcp.mode to proxy.';
  return mode === undefined
    ? [told('warn', `${gives('addresses')}: in dhcp.mode server machines may take them and not boot`, remedy)]
    : [told('fail', `${gives('addresses as well')}: machines may take them and not boot`, remedy)];
}

/** Judges what concerns the whole host. */
export function judgeHost(seen: {
  /** undefined: timedatectl cannot say. */
  readonly synchronized: boolean | undefined;
  /** Chains that drop what comes in by default; a text: nobody could look. */
  readonly dropping: readonly string[] | string;
  /** Checks of the server that are not ok; a text: no server answers, and why. */
  readonly unready: readonly string[] | string;
  /** How many machines the server knows; undefined: no server answers. */
  readonly machines: number | undefined;
  /** How many neighbours the kernel keeps; undefined: it does not say, as in a container. */
  readonly neighbours: number | undefined;
}): readonly Finding[] {
  const { synchronized, dropping, unready, machines, neighbours } = seen;
  return [
    typeof unready === 'string'
      ? finding(
          'server',
          'fail',
          `it does not run, and its Networks are not known: ${unready}`,
          'Run `systemctl start muster`, and read in `journalctl -u muster` why it ended.',
        )
      : unready.length === 0
        ? finding('server', 'ok', 'it is ready')
        : finding(
            'server',
            'fail',
            `it is not ready: ${unready.join('; ')}`,
            '`muster status` says what is missing.',
          ),
    synchronized === undefined
      ? finding('clock', 'unknown', 'whether it is synchronized cannot be told')
      : synchronized
        ? finding('clock', 'ok', 'it is synchronized')
        : finding(
            'clock',
            'warn',
            'it is not synchronized',
            'Install chrony or systemd-timesyncd: certificates begin and end by this clock.',
          ),
    typeof dropping === 'string'
      ? finding('firewall', 'unknown', dropping)
      : dropping.length === 0
        ? finding('firewall', 'ok', 'no chain drops what comes in by default')
        : finding(
            'firewall',
            'warn',
            `${dropping.join(', ')} drops what no rule accepts`,
            'Accept the ports of docs/ports.md from the served segments.',
          ),
    neighboursOf(machines, neighbours),
  ];
}

/** Other hosts of the segments need places in the kernel's table too. */
const PLACES_FOR_OTHERS = 256;

/**
 * Judges the kernel's table of neighbours (ARP). When more hosts are awake at once than it has
 * places, the kernel drops answers to them.
 */
function neighboursOf(machines: number | undefined, limit: number | undefined): Finding {
  const name = 'neighbours';
  if (limit === undefined) return finding(name, 'unknown', 'how many the kernel keeps cannot be told here');
  const wanted = (machines ?? 0) + PLACES_FOR_OTHERS;
  const text = `the kernel keeps ${limit}${machines === undefined ? '' : `, for ${machines} machines`}`;
  if (wanted <= limit) return finding(name, 'ok', text);
  const better = 2 ** Math.ceil(Math.log2(2 * wanted));
  return finding(
    name,
    'warn',
    `${text}: it drops answers when all are powered on at once`,
    `Set net.ipv4.neigh.default.gc_thresh3 = ${better} and gc_thresh2 = ${better / 2} in /etc/sysctl.d.`,
  );
}

/** The chains of `nft list ruleset` with hook input that drop by default. */
export function droppingChains(ruleset: string): readonly string[] {
  const chains: string[] = [];
  let table = '';
  let chain = '';
  for (const line of ruleset.split('\n')) {
    const words = line.trim().split(/\s+/);
    if (words[0] === 'table') table = `${words[1]} ${words[2]}`;
    else if (words[0] === 'chain') chain = words[1] ?? '';
    else if (/\bhook input\b.*\bpolicy drop\b/.test(line)) chains.push(`${table} ${chain}`);
  }
  return chains;
}
