/** Memory that system calls use, and how functions of C libraries are described for `node:ffi`. */

export type Ffi = typeof import('node:ffi');
export type Call = (...parameters: readonly bigint[]) => number;

/** A function with so many parameters, all passed as BigInts: `kernel.socket.ts` says why. */
export const call = (parameters: number) =>
  ({ arguments: Array<'pointer'>(parameters).fill('pointer'), return: 'int32' }) as const;

/** Memory that the kernel may read and write during a call. It does not move. */
export class Region {
  readonly bytes: Buffer;
  readonly view: DataView;
  readonly address: bigint;

  constructor(ffi: Ffi, octets: number) {
    if (!Number.isInteger(octets) || octets < 1 || octets > 2 ** 26)
      throw new RangeError(`a region of ${octets} octets`);
    const memory = new ArrayBuffer(octets);
    this.bytes = Buffer.from(memory);
    this.view = new DataView(memory);
    this.address = ffi.getRawPointer(memory);
  }

  /** The address of `octets` octets from `offset` on. @throws {RangeError} outside the region. */
  at(offset: number, octets: number): bigint {
    if (!Number.isInteger(offset) || !Number.isInteger(octets) || offset < 0 || octets < 0)
      throw new RangeError(`${octets} octets at ${offset}`);
    if (offset + octets > this.bytes.length)
      throw new RangeError(`${octets} octets at ${offset} of ${this.bytes.length}`);
    return offset === 0 ? this.address : this.address + BigInt(offset);
  }
}

/** A descriptor; the BigInt is what calls take. */
export interface Descriptor {
  readonly fd: number;
  readonly parameter: bigint;
}

/** @throws {RangeError} when the number cannot be a descriptor. */
export function descriptor(fd: number): Descriptor {
  if (!Number.isInteger(fd) || fd < 0 || fd > 2 ** 20) throw new RangeError(`descriptor ${fd}`);
  return { fd, parameter: BigInt(fd) };
}
