/** What `muster doctor` says about what it observed. Pure. */

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

/** A network of the documents, and this host's interface on it. */
export interface Segment {
  readonly network: string;
  readonly mode: string;
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
  /** `sent` a block of the loader, or why not. */
  readonly tftp: { readonly ok: boolean; readonly text: string };
  readonly http: { readonly ok: boolean; readonly text: string };
}

/** An answer to a DISCOVER. */
export interface Offer {
  readonly server: string;
  /** 0.0.0.0: a boot file without an address, as a proxy offers it. */
  readonly address: string;
  readonly file: string;
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
          serversOf(segment, observed),
          finding(
            'tftp',
            observed.tftp.ok ? 'ok' : 'fail',
            observed.tftp.text,
            observed.tftp.ok
              ? undefined
              : 'Allow UDP port 69 in the firewall of this host; `muster status` shows whether the server listens.',
          ),
          finding(
            'http',
            observed.http.ok ? 'ok' : 'fail',
            observed.http.text,
            observed.http.ok
              ? undefined
              : 'Allow the TCP port for machines in the firewall of this host; `muster status` shows whether the server listens.',
          ),
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

function serversOf({ mode, address: own }: Segment, { offers }: Observed): Finding {
  if (typeof offers === 'string') return finding('dhcp servers', 'unknown', offers);
  const others = offers.filter(({ server }) => server !== own);
  const names = (list: readonly Offer[]): string => [...new Set(list.map(({ server }) => server))].join(', ');
  const givers = others.filter(({ address }) => address !== '0.0.0.0');
  const booters = others.filter(({ file }) => file !== '');
  if (booters.length > 0)
    return finding(
      'dhcp servers',
      'fail',
      `${names(booters)} offers a boot file as well: machines take whichever comes first`,
      'Remove next-server and filename from that server.',
    );
  if (mode === 'proxy')
    return givers.length > 0
      ? finding('dhcp servers', 'ok', `${names(givers)} gives the addresses`)
      : finding(
          'dhcp servers',
          'fail',
          'no DHCP server gives addresses here',
          'Start one, or set dhcp.mode to server.',
        );
  if (mode === 'reservations' && givers.length > 0)
    return finding(
      'dhcp servers',
      'ok',
      `${names(givers)} gives addresses to machines without a reservation`,
    );
  if (givers.length > 0)
    return finding(
      'dhcp servers',
      'fail',
      `${names(givers)} gives addresses as well: machines may take them and not boot`,
      'Switch that server off on this segment, or set dhcp.mode to proxy.',
    );
  return finding('dhcp servers', 'ok', 'no other one answers');
}

/** Judges what concerns the whole host. */
export function judgeHost(seen: {
  /** undefined: timedatectl cannot say. */
  readonly synchronized: boolean | undefined;
  /** Chains that drop what comes in by default; a text: nobody could look. */
  readonly dropping: readonly string[] | string;
  /** Checks of the server that are not ok. */
  readonly unready: readonly string[];
  /** How many machines the server knows. */
  readonly machines: number;
  /** How many neighbours the kernel keeps; undefined: it does not say, as in a container. */
  readonly neighbours: number | undefined;
}): readonly Finding[] {
  const { synchronized, dropping, unready, machines, neighbours } = seen;
  return [
    unready.length === 0
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
function neighboursOf(machines: number, limit: number | undefined): Finding {
  const name = 'neighbours';
  if (limit === undefined) return finding(name, 'unknown', 'how many the kernel keeps cannot be told here');
  const wanted = machines + PLACES_FOR_OTHERS;
  const text = `the kernel keeps ${limit}, for ${machines} machines`;
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
