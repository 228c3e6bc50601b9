/** Values of flags by their type, for tests. */
/** A value that each type takes, and some that it does not. */
export const VALUES: Readonly<Record<string, readonly [right: string, ...wrong: string[]]>> = {
  bool: ['true', 'yes', '', '2', 'on'],
  int: ['-0x1F', '1.5', '', '08', '5s', 'many', '9223372036854775808'],
  int32: ['2147483647', '2147483648', '1e3', ''],
  level: ['010', '0x2', '', '1.5'],
  int32Slice: ['29,0x1d', 'X25519', '29,', ''],
  uint: ['7', '-7', '', 'x'],
  float64: ['-1.5e3', '', '1,5', '5s'],
  duration: ['1h30m0.5s', '90', '1d', '', '5 m', '1h30'],
  quantity: ['64Ki', '64KB', '', '1 Gi'],
  ip: ['fd00::1', '10.0.0', 'localhost'],
  mapStringString: ['a=b,c=', 'a', 'a=b,c'],
  onePair: ['a=b,c', 'a'],
  stringToString: ['m,l=1,3', 'a', '', 'm,l=1,n,k=2'],
  portRange: ['30000-32767', '30000-', 'http', '70000'],
  namedCertKey: ['/a.crt,/a.key:x.example', '/a.crt'],
  urls: ['https://10.0.0.1:2380,http://a.test:80', '10.0.0.1:2380', 'ftp://a.test', 'https://a.test'],
};
