/**
 * What BMCs do otherwise than their specifications, as data: how it shows, what is done about it,
 * where it was seen, and the test that shows what is done. docs/power.md lists the rows.
 */

export interface Quirk {
  readonly code: string;
  /** The vendors; `any` where no vendor tells them apart. */
  readonly who: string;
  readonly what: string;
  readonly answer: string;
  readonly source: string;
  /** The title of a test in test/unit/bmc or test/peers/bmc.test.ts. */
  readonly test: string;
}

const quirk = <const Code extends string>(one: Quirk & { readonly code: Code }) => one;

export const QUIRKS = [
  quirk({
    code: 'target-alone',
    who: 'Supermicro',
    what: 'a boot target that is sent alone keeps the old mode, or is not enabled',
    answer: 'target, enabled and mode are sent in one request, and read back',
    source: 'bmc-toolbox/bmclib#459',
    test: 'power, boot once and its reading back work in one session, which is closed',
  }),
  quirk({
    code: 'mode-together',
    who: 'Dell',
    what: 'a boot target that is sent with the mode that counts already is refused',
    answer: 'the mode is left out where it is the wanted one',
    source: 'openstack/sushy: system.py, set_system_boot_options',
    test: 'Dell gets the mode only where it changes',
  }),
  quirk({
    code: 'settings-below-sd',
    who: 'AMI',
    what: 'the boot target changes only below /SD, which no annotation names',
    answer: 'the change goes to /SD of the system',
    source: 'Redfish-Tacklebox#144',
    test: 'AMI gets changes of the boot target below /SD',
  }),
  quirk({
    code: 'tag-unknown',
    who: 'any',
    what: 'a weak tag is refused where a strong one is compared, or the own tag is not known',
    answer: 'the change is sent with the tag, then with it as a strong one, then without',
    source: 'openstack/sushy: connector.py',
    test: 'power, boot once and its reading back work in one session, which is closed',
  }),
  quirk({
    code: 'state-too-soon',
    who: 'HPE, Dell',
    what: 'shortly after a change of power every order is refused as impossible in this state',
    answer: 'the refusal counts as busy, and the order is sent again',
    source: 'openstack/sushy: connector.py; openstack/ironic: drivers/modules/redfish/power.py',
    test: 'a refusal because of the present state is asked again',
  }),
  quirk({
    code: 'disk-by-another-number',
    who: 'Supermicro',
    what: 'a machine that boots by UEFI takes the disk by IPMI only as device 9',
    answer: 'it gets device 9',
    source: 'openstack/ironic: doc/source/admin/drivers/ipmitool.rst',
    test: 'Supermicro gets the disk of UEFI as device 9',
  }),
  quirk({
    code: 'reset-of-what-is-off',
    who: 'any',
    what: 'a reset of a machine that is off is accepted, and nothing happens',
    answer: 'a machine that is off is switched on instead',
    source: 'bmc-toolbox/bmclib#211',
    test: 'a machine that is off is not reset but switched on, and one that is stopped is reset',
  }),
  quirk({
    code: 'paused',
    who: 'NVIDIA',
    what: 'a machine that is stopped in its firmware says Paused; to switch it on does nothing',
    answer: 'it is reset',
    source: 'NVIDIA/infra-controller#6350',
    test: 'a machine that is off is not reset but switched on, and one that is stopped is reset',
  }),
  quirk({
    code: 'accounts-in-slots',
    who: 'Dell',
    what: 'accounts are slots, of which the first is reserved; a new one is a change of an empty slot, with name, role and password together',
    answer: 'an empty slot that is listed is filled in one request, else an account is added',
    source: 'ironcore-dev/metal-operator#926, #946',
    test: 'a BMC with slots for accounts gets all of a new account in one request',
  }),
  quirk({
    code: 'channel-by-another-number',
    who: 'any',
    what: 'the channel of the LAN is not number 1',
    answer: 'commands about accounts name the channel by which they come',
    source: 'RackHD/on-http#211',
    test: 'an account that Muster makes opens a session, gets a new password, and is switched off',
  }),
  quirk({
    code: 'console-not-named',
    who: 'OpenBMC',
    what: 'no resource of Redfish names the serial console, which is a websocket at /console0',
    answer: 'it is opened there where the manager of the only system has a part `OpenBmc`',
    source: 'openbmc/bmcweb: include/obmc_console.hpp, redfish-core/lib/managers.hpp',
    test: 'the console of OpenBMC is read and typed into in the session of its Redfish',
  }),
] as const;
export type QuirkCode = (typeof QUIRKS)[number]['code'];

/** The rows that depend on the vendor, by the beginning of the name that the BMC says. */
const VENDORS: readonly (readonly [begins: RegExp, ...codes: readonly QuirkCode[]])[] = [
  [/^dell/i, 'mode-together'],
  [/^(ami|american megatrends)/i, 'settings-below-sd'],
];

/** The quirks of a vendor, as Redfish names it. */
export const quirksOf = (vendor: string): ReadonlySet<QuirkCode> =>
  new Set(VENDORS.flatMap(([begins, ...codes]) => (begins.test(vendor) ? codes : [])));

/** The quirks of a manufacturer, by its IANA number as IPMI says it. */
export const quirksOfNumber = (number: number): ReadonlySet<QuirkCode> =>
  new Set(number === 10_876 || number === 47_196 ? ['disk-by-another-number'] : []);

/** Codes of Redfish messages by which a BMC says that it could do it later. */
export const LATER: ReadonlySet<string> = new Set([
  'InvalidOperationForSystemState',
  'ResourceInUse',
  'ServiceTemporarilyUnavailable',
  'ServiceInUnknownState',
  'SYS518',
]);
