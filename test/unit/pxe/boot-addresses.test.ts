import { expect, test } from 'vitest';
import { bootAddresses, bootAddressText } from '../../../src/pxe/boot-addresses.ts';

const read = (...list: string[]) => bootAddresses(list, '--boot-address').map(bootAddressText);

test('boot addresses are read as they are written', () => {
  const written = ['eth1=10.0.0.2/24', 'bond0.20=10.1.0.2/32', 'br-lan=10.2.0.2/31'];
  expect(read(...written)).toEqual(written);
});

test.each([
  ['10.0.0.2/24', 'is not an interface and an address like eth1=10.0.0.2/24'],
  ['eth1=10.0.0.2', 'is not an interface and an address'],
  ['eth1=10.0.0.02/24', 'is not an interface and an address'],
  ['eth1=10.0.0.2/0', 'is not an interface and an address'],
  ['an-interface-name=10.0.0.2/24', 'is not an interface and an address'],
  ['eth1;id=10.0.0.2/24', 'is not an interface and an address'],
  ['eth1=10.0.0.0/24', 'is the address of a network'],
  ['eth1=10.0.0.255/24', 'or its broadcast address'],
])('%s is refused', (text, why) => {
  expect(() => read(text)).toThrow(why);
});

test('an address is for one interface', () => {
  expect(() => read('eth1=10.0.0.2/24', 'eth2=10.0.0.2/24')).toThrow('is listed twice');
});
