/** A machine that a virtual BMC powers, and that asks a segment for its boot as firmware does. */
import type { BootTarget } from '../../src/bmc/bmc.ts';
import { ImaginedMachine } from '../../src/lab/bmc/virtual-bmc.server.ts';
import { run } from './dhcp-segment.ts';

/** udhcpc as PXE firmware of UEFI: it ends with its first lease, and sets no address. */
const FIRMWARE = [
  ...['udhcpc', '-i', 'eth0', '-n', '-q', '-t', '5', '-T', '2', '-s', '/bin/true'],
  ...['-V', 'PXEClient:Arch:00007:UNDI:003016', '-x', '93:0007', '-x', '94:010310'],
];

/** `namespace` is where its network card is (dhcp-segment.ts). */
export class PoweredMachine extends ImaginedMachine {
  readonly #namespace: string;
  /** Its firmware, for each start. */
  readonly #asking = new Set<Promise<unknown>>();

  constructor(namespace: string) {
    super();
    this.#namespace = namespace;
  }

  override async start(boot: BootTarget, how: { readonly hang: boolean }): Promise<void> {
    await super.start(boot, how);
    if (how.hang || boot === 'setup') return;
    const asking: Promise<unknown> = run(this.#namespace, FIRMWARE).then(() => this.#asking.delete(asking));
    this.#asking.add(asking);
  }

  /** Resolves when no firmware of it asks any more. */
  async settled(): Promise<void> {
    await Promise.all(this.#asking);
  }
}
