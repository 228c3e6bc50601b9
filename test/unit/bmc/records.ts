/** Records of IPMI as BMCs answer them, for tests. */

/** A full record of a temperature, whose readings are octets less 100 degrees. */
export const FULL_RECORD = Buffer.concat([
  Buffer.from([7, 0, 0x51, 0x01, 43 + 8]),
  Buffer.from([0x20, 0, 0x31, 3, 1, 0x7f, 0x68, 0x01, 0x01, 0, 0, 0, 0, 0, 0]),
  // Unsigned, degrees, linear, M = 1, B = -100, no exponents.
  Buffer.from([0, 1, 0, 0, 1, 0, 0x9c, 0xc0, 0, 0]),
  Buffer.alloc(17),
  Buffer.from([0xc8]),
  Buffer.from('CPU Temp'),
]);

/** An entry of the log: a fan below its critical limit. */
export const LOG_RECORD = Buffer.from([
  ...[5, 0, 0x02, 0x00, 0xf1, 0x53, 0x65, 0x20, 0, 0x04],
  ...[0x04, 0x41, 0x01, 0x52, 0x03, 0x04],
]);

/** The area of a product: maker, name, part, version, serial number. */
export const PRODUCT = Buffer.concat([
  Buffer.from([1, 4, 25]),
  ...['Maker', 'R740', '', '', 'S-1\u0000'].map((text) =>
    Buffer.concat([Buffer.from([0xc0 | text.length]), Buffer.from(text)]),
  ),
  Buffer.from([0xc1, 0, 0]),
]);
