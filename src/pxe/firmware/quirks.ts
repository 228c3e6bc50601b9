/**
 * What firmware does that no standard describes: what it does, how Muster answers, where it was
 * seen, and the test that proves the answer (file and title; test/unit/pxe/firmware/quirks.test.ts
 * checks that each exists). `make docs` writes docs/firmware.md from this table.
 */

export interface Quirk {
  /** What the firmware does. */
  readonly what: string;
  /** What Muster does about it. */
  readonly answer: string;
  /** Where it was seen. */
  readonly source: string;
  /** `file: title` of the test. */
  readonly test: string;
}

const CLASSIFY = 'test/unit/pxe/dhcp/classify.test.ts';
const PACKET = 'test/unit/pxe/dhcp/packet.test.ts';
const REPLY = 'test/unit/pxe/dhcp/reply.test.ts';
const HANDLE = 'test/unit/pxe/dhcp/handle.test.ts';
const PROXY = 'test/unit/pxe/dhcp/proxy.test.ts';
const DECIDE = 'test/unit/pxe/decide/decide.test.ts';
const TFTP_REQUEST = 'test/unit/pxe/tftp/request.test.ts';
const TFTP = 'test/unit/pxe/tftp/server.test.ts';
const HTTP = 'test/unit/pxe/http/machines.test.ts';

export const QUIRKS = {
  'no-machine-id': {
    what: 'Firmware sends no option 97, an empty one, or one of zeros, although RFC 4578 §2.3 demands it.',
    answer: 'The machine is recognised by its hardware address; Muster makes up no UUID.',
    source:
      'Supermicro and Intel ROMs: danderson/pixiecore#21; pixiecore dhcp.go; QEMU without -uuid (Muster capture)',
    test: `${CLASSIFY}: has no UUID when option 97 is missing, empty, of a wrong size, all zero or all one`,
  },
  'arch-9-is-x64': {
    what: 'Option 93 is 9 (EFI byte code) on x64, because RFC 4578 printed 7 and 9 the wrong way round.',
    answer: 'Muster reads 9 as 7, x64 UEFI.',
    source: 'RFC 4578 errata; iPXE commit af9afd0a; dnsmasq changelog',
    test: `${CLASSIFY}: reads architecture 9 as 7`,
  },
  'arch-list': {
    what: 'Option 93 is a list, in order of preference.',
    answer: 'Muster takes the first code that it knows.',
    source: 'RFC 5970 §3.3; tinkerbell/smee',
    test: `${CLASSIFY}: takes the first architecture that it knows from a list`,
  },
  'ipxe-raw-user-class': {
    what: 'iPXE sends its user class (77) as plain text, not length-prefixed as RFC 3004 says.',
    answer: 'Muster reads both forms, and recognises an iPXE by option 175 as well.',
    source: 'metal3-io/baremetal-operator#446; Muster captures',
    test: `${CLASSIFY}: knows iPXE by its user class, plain or length-prefixed, and by option 175`,
  },
  'ipxe-never-exits': {
    what: 'ipxe.efi of Debian 12 never returns to OVMF after `exit`, so the firmware does not try its disk.',
    answer:
      'UEFI machines that boot from their disk get snponly.efi, which does return, where it is installed.',
    source: 'ipxe 1.0.0+git-20190125 with OVMF 2022.11 in the virtual rack (lab/installed.yaml)',
    test: `${DECIDE}: a machine that only leaves to its disk gets a loader that returns to the firmware`,
  },
  'ipxe-without-http': {
    what: 'An iPXE in ROM may have been built without HTTP.',
    answer:
      'Option 175 then lists features without 0x13 (HTTP); such an iPXE gets a loader by TFTP instead of a script.',
    source: 'iPXE src/include/ipxe/features.h',
    test: `${CLASSIFY}: an iPXE that lists features without HTTP cannot fetch scripts`,
  },
  'ipxe-header-wins': {
    what: 'iPXE prefers siaddr and file of the header; EDK2 prefers options 66 and 67.',
    answer: 'Muster always writes the same server and file in both places.',
    source: 'iPXE dhcppkt_fetch; EDK2 PxeBcDhcp4.c',
    test: `${REPLY}: the header and options 66 and 67 always name the same server and file`,
  },
  'ipxe-proxy-wait': {
    what: 'iPXE waits two seconds for a proxy offer.',
    answer:
      'Where Muster is the only server it sends 175.176=1 (no proxy). iPXE does not wait after option 60 either.',
    source: 'iPXE config/dhcp.h; measured 3.3 s → 0 s',
    test: `${REPLY}: tells iPXE not to wait for a proxy where Muster is the only server`,
  },
  'ipxe-secs': {
    what: 'iPXE keeps retry counters in the field secs.',
    answer: 'Muster decides nothing by secs.',
    source: 'iPXE dhcp_tx; Muster captures (the first DISCOVER has secs=4)',
    test: `${HANDLE}: answers the same whatever secs says`,
  },
  'edk2-needs-43-or-4011': {
    what: 'EDK2 that gets option 60 without option 43 insists on a reply from port 4011, and fails with PXE-E16 without one.',
    answer: 'Option 43 tells it to boot the offered file (06 01 08 ff); Muster also answers on port 4011.',
    source: 'tianocore/edk2#8149; measured with OVMF 2022.11',
    test: `${REPLY}: firmware gets 60, 97 and 43=060108ff, in OFFER and ACK`,
  },
  'uefi-ignores-bypass': {
    what: 'Some UEFI firmware ignores offers that bypass boot server discovery.',
    answer:
      'With pxe.style binl (of a network, vendor class or machine) the offer has no option 43 and no file; the firmware then asks port 4011.',
    source: 'pixiecore dhcp.go and README.booting; netboot#43 (HP DL380 Gen9)',
    test: `${REPLY}: style binl names no file before the firmware asks port 4011`,
  },
  'boot-item-echo': {
    what: 'BIOS firmware names a boot item (43.71) in its request to port 4011 and drops an answer without it.',
    answer: 'Muster echoes the boot item.',
    source: 'pixiecore#21; matchbox#245; dnsmasq rfc2131.c',
    test: `${PROXY}: port 4011 echoes the boot item`,
  },
  'file-in-ack': {
    what: 'Some firmware takes the boot file from the ACK only.',
    answer: 'OFFER and ACK carry the same boot options.',
    source: 'BeryJu/gravity#912 (VMware UEFI)',
    test: `${REPLY}: firmware gets 60, 97 and 43=060108ff, in OFFER and ACK`,
  },
  'unterminated-67': {
    what: 'Some firmware reads option 67 past its end.',
    answer: 'The name in option 67 ends with a NUL octet; the header has it too, padded with zeros.',
    source: 'netbootxyz#1198 (Kontron); dnsmasq: "Some PXE ROMs have bugs"',
    test: `${REPLY}: the boot file name in option 67 ends with a NUL for firmware that loads by TFTP`,
  },
  'edk2-57': {
    what: 'EDK2 announces 65280 octets in option 57 of its REQUEST.',
    answer: "Muster sends at most an Ethernet frame's worth.",
    source: 'Muster capture of OVMF 2022.11',
    test: `${PACKET}: believes option 57 up to the size of an Ethernet frame`,
  },
  'pads-between-options': {
    what: "The Raspberry Pi's ROM ignores a reply with padding between options.",
    answer: 'Muster pads only behind END.',
    source: 'raspberrypi/rpi-eeprom#82',
    test: `${PACKET}: writes no padding between options`,
  },
  'raspberry-pi-says-x86': {
    what: 'The Raspberry Pi sends architecture 0, x86 BIOS.',
    answer:
      'Muster recognises it by its hardware address block or by its option 97, and never gives it an x86 loader.',
    source: 'tinkerbell/smee isRaspberryPI; raspberrypi/documentation#1686',
    test: `${CLASSIFY}: a Raspberry Pi is not an x86 BIOS, whatever it says`,
  },
  'raspberry-pi-43': {
    what: 'The Raspberry Pi boots only if option 43 has a menu with "Raspberry Pi Boot".',
    answer: 'Muster sends that menu.',
    source: 'tinkerbell/smee AddRPIOpt43; raspberrypi/firmware#941',
    test: `${REPLY}: a Raspberry Pi gets the menu that its ROM looks for`,
  },
  'request-without-vendor-class': {
    what: "The Raspberry Pi's REQUEST has no option 60 although its DISCOVER had.",
    answer: 'Until the ACK, Muster treats the client as what its DISCOVER said.',
    source: 'raspberrypi/rpi-eeprom#82',
    test: `${HANDLE}: a client whose REQUEST has lost its vendor class is still the one that was offered a boot file`,
  },
  'u-boot-vendor-class': {
    what: 'U-Boot sends "U-Boot" in option 60, no option 97 and often no 93, and reads only siaddr and file.',
    answer: 'Muster always fills siaddr and file, and sends U-Boot no option 60.',
    source: 'u-boot net/bootp.c; Muster capture',
    test: `${REPLY}: U-Boot gets siaddr and file and no option 60`,
  },
  'client-id-changes': {
    what: 'ROM, iPXE, installer and system each use a different client identifier.',
    answer: 'A lease belongs to the hardware address; Muster echoes the identifier (RFC 6842).',
    source: 'coreos/bugs#1432, #2252; Kea manual, match-client-id',
    test: `${HANDLE}: ROM, iPXE and system keep one address although their client identifiers differ`,
  },
  'jetdirect-t1': {
    what: 'HP Jetdirect wants renewal times (58, 59) in the OFFER already.',
    answer: 'Every OFFER and ACK with a lease has them.',
    source: 'dnsmasq rfc2131.c',
    test: `${REPLY}: the OFFER already has renewal times`,
  },
  'stray-ciaddr': {
    what: 'Some clients fill in ciaddr although they have no address.',
    answer: 'Muster ignores ciaddr in a DISCOVER, and wherever option 50 is present.',
    source: 'dnsmasq rfc2131.c',
    test: `${HANDLE}: a stray ciaddr changes nothing`,
  },
  'short-replies': {
    what: 'In-kernel BOOTP clients drop replies under 300 octets.',
    answer: 'Muster pads replies to 300 octets.',
    source: 'RFC 1542 §2.1; dnsmasq 2.8 changelog',
    test: `${PACKET}: a packet is never shorter than 300 octets`,
  },
  'windows-dot-0': {
    what: 'Windows cannot use .0 and .255 even where the subnet is larger than /24.',
    answer: 'Muster gives neither out of a pool.',
    source: 'Microsoft KB 281579; the same rule is in dnsmasq dhcp.c',
    test: 'test/unit/pxe/dhcp/leases.test.ts: never gives out the ends of the subnet, .0, .255, its own address or the gateway',
  },
  'nul-in-vendor-class': {
    what: 'Some clients end texts with a NUL octet.',
    answer: 'Muster drops that octet.',
    source: 'dnsmasq rfc2131.c',
    test: `${CLASSIFY}: a NUL at the end of the vendor class is not part of it`,
  },
  'unicast-that-cannot-arrive': {
    what: 'iPXE, U-Boot and the Raspberry Pi leave the broadcast flag clear although they have no address; EDK2 always sets it.',
    answer:
      'Muster answers a client without an address by broadcast, whatever the flag says (`src/pxe/dhcp/README.md`).',
    source: 'EDK2 source; Muster captures of iPXE and U-Boot; RFC 2131 §4.1 allows it',
    test: `${HANDLE}: a client is answered by broadcast even when it asks for unicast, and by unicast when it has an address`,
  },
  'ipxe-needs-url': {
    what: "VirtualBox's iPXE cannot boot from siaddr and a bare file name.",
    answer: 'An iPXE gets tftp://SERVER/FILE, never a bare name.',
    source: 'danderson/netboot README.testing; pixiecore and tinkerbell/smee do the same',
    test: `${DECIDE}: loaders are named without a path to firmware, and by URL to iPXE and HTTP boot`,
  },
  'ipxe-rom-without-undi': {
    what: 'An iPXE that is itself the ROM of a BIOS machine cannot start an UNDI loader.',
    answer:
      'It gets ipxe.pxe, which has its own drivers, and undionly.kpxe only if nothing else is installed.',
    source: 'pixiecore FirmwareX86Ipxe; tinkerbell/smee Bootfile',
    test: `${DECIDE}: an iPXE in ROM gets a loader with native drivers before one with UNDI`,
  },
  'bios-native-drivers': {
    what: "With some cards iPXE's native driver does not work, and UNDI does.",
    answer:
      'A BIOS gets undionly.kpxe first; pxe.loader of a network, vendor class or machine names another loader.',
    source: 'HP DL380p G8: danderson/netboot#63',
    test: `${DECIDE}: a BIOS gets a loader with UNDI first, unless documents demand another one`,
  },
  'tftp-backslash': {
    what: 'shim asks for names with \\ instead of /; other clients begin names with / or //.',
    answer: 'Muster reads all of them as the same flat name.',
    source: 'rhboot/shim#300, #524; Muster capture of curl',
    test: `${TFTP}: finds names as firmware writes them`,
  },
  'tftp-name-0xff': {
    what: 'A board that read option 67 past its end asks for the name with an octet 0xff appended.',
    answer: 'Muster drops the octet.',
    source: 'netbootxyz#1198 (Kontron)',
    test: `${TFTP}: finds names as firmware writes them`,
  },
  'grub-lists': {
    what: 'GRUB asks for command.lst, crypto.lst, fs.lst and terminal.lst and does not cope with a refusal; PXELINUX needs real refusals.',
    answer:
      'Muster answers these four names with an empty file in any directory, and every other missing file with error 1.',
    source: 'MAAS tftp.py',
    test: `${TFTP}: answers GRUB’s lists with an empty file and everything unknown with error 1`,
  },
  'tftp-probe': {
    what: 'EDK2 asks for the size, aborts that transfer with ERROR 8 and asks again; BIOS ROMs abort it with ERROR 0.',
    answer: 'Muster counts that as a probe, neither as a failure nor as a served file.',
    source: 'Muster capture of OVMF; pin/tftp#125',
    test: 'test/unit/pxe/tftp/transfer.test.ts: a transfer that the client aborts after it has learned the size is a probe, not a failure (EDK2: error 8; BIOS ROMs: error 0)',
  },
  'curl-tsize-0': {
    what: 'curl gives up when a tsize of 0 is acknowledged.',
    answer: 'Muster does not acknowledge the size of an empty file.',
    source: 'curl lib/tftp.c',
    test: `${TFTP_REQUEST}: the answer to tsize leaves out the size of an empty file, because curl would give up`,
  },
  'http-keep-alive': {
    what: 'EDK2 sends HEAD and then GET, and fails if the server closes the connection in between.',
    answer: 'Muster keeps connections open for more than a minute.',
    source: 'tianocore/edk2#9920',
    test: `${HTTP}: the server keeps a connection open after HEAD and GET, for more than a minute (edk2#9920)`,
  },
  'http-empty-header': {
    what: 'EDK2 hangs when it receives a header without a value.',
    answer: 'Muster never sends one.',
    source: 'tianocore/edk2#7443',
    test: `${HTTP}: the server never sends an empty header value (edk2#7443), and always sends a length`,
  },
  'grub-content-length': {
    what: 'GRUB compares names of headers with their case, and waits for the end of the connection when it finds no `Content-Length`.',
    answer: 'Muster writes that name so.',
    source: 'GRUB 2.12 net/http.c; Debian 13, seen in the virtual rack',
    test: `${HTTP}: the length is in a header that GRUB reads`,
  },
  'http-no-redirect': {
    what: 'Firmware fails when it is redirected, which many servers do for // in a path.',
    answer: 'Muster reads doubled slashes as one and never redirects.',
    source: 'tinkerbell/smee#229; Raspberry Pi: raspberrypi/rpi-eeprom#475',
    test: `${HTTP}: paths may have doubled slashes, and are never answered with a redirect`,
  },
  'http-host-without-port': {
    what: "EDK2's HTTP boot leaves the port out of Host.",
    answer: 'Muster ignores Host and builds URLs from its own address and port.',
    source: 'Muster capture of OVMF 2022.11 (server on port 8080)',
    test: `${HTTP}: scripts have URLs with the server’s address, not with the Host that the client sends`,
  },
} as const satisfies Record<string, Quirk>;

/** Name of a quirk: a heading of docs/firmware.md, and what `muster explain` prints. */
export type QuirkId = keyof typeof QUIRKS;

/** The text of `docs/firmware.md`. */
export function firmwareDocument(): string {
  const rows = (Object.entries(QUIRKS) as [string, Quirk][]).map(
    ([id, quirk]) =>
      `## ${id}\n\n${quirk.what}\n\n- **Muster:** ${quirk.answer}\n- Seen: ${quirk.source}\n- Test: \`${quirk.test}\`\n`,
  );
  return [
    '<!-- Written by `make docs` from src/pxe/firmware/quirks.ts; change it there. -->\n',
    '# Firmware quirks\n',
    'What network-boot firmware does that no standard describes, and how Muster answers it. `muster explain` names the',
    'entries that applied to a packet.\n',
    ...rows,
  ].join('\n');
}
