/**
 * Layouts of the C structures that system calls read and write, worked out by C's rules for 64-bit
 * processors: each field is aligned to its own size, and a structure to its largest field. Pure.
 */

const OCTETS = { u16: 2, u32: 4, u64: 8, pointer: 8 } as const;
type FieldType = keyof typeof OCTETS;

/** The processors that Node calls `x64` and `arm64`. Both are little-endian under Linux. */
export type Architecture = 'x64' | 'arm64';

export interface StructLayout<Name extends string> {
  /** Octets of one structure, and so the distance between two in an array. */
  readonly size: number;
  /** Octets before each field. */
  readonly at: Readonly<Record<Name, number>>;
}

/** `packed`: the fields follow one another without gaps. */
function layoutOf<Name extends string>(
  fields: Readonly<Record<Name, FieldType>>,
  { packed }: { readonly packed: boolean } = { packed: false },
): StructLayout<Name> {
  const at: Partial<Record<Name, number>> = {};
  let end = 0;
  let widest = 1;
  const aligned = (offset: number, to: number) => (packed ? offset : Math.ceil(offset / to) * to);
  for (const [name, type] of Object.entries(fields) as [Name, FieldType][]) {
    const octets = OCTETS[type];
    widest = Math.max(widest, octets);
    const start = aligned(end, octets);
    at[name] = start;
    end = start + octets;
  }
  return { size: aligned(end, widest), at: at as Record<Name, number> };
}

/** The structures, by processor. Only `epoll_event` differs: x86-64 packs it (epoll_ctl(2)). */
export function structLayouts(architecture: Architecture) {
  return {
    sockaddr_in: layoutOf({ family: 'u16', port: 'u16', address: 'u32', zero: 'u64' }),
    iovec: layoutOf({ base: 'pointer', length: 'u64' }),
    /** `struct mmsghdr`: a `struct msghdr`, and the octets that were sent or received. */
    mmsghdr: layoutOf({
      name: 'pointer',
      nameLength: 'u32',
      iov: 'pointer',
      iovLength: 'u64',
      control: 'pointer',
      controlLength: 'u64',
      flags: 'u32',
      // The msghdr ends on a multiple of 8, which the two fields around this gap do not show.
      gap: 'u32',
      octets: 'u32',
    }),
    cmsghdr: layoutOf({ length: 'u64', level: 'u32', type: 'u32' }),
    in_pktinfo: layoutOf({ interfaceIndex: 'u32', localAddress: 'u32', destination: 'u32' }),
    epoll_event: layoutOf({ events: 'u32', data: 'u64' }, { packed: architecture === 'x64' }),
  };
}
