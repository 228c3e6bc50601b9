/** A simulated BMC that listens: IPMI or Redfish in front of a machine. */
import { randomUUID } from 'node:crypto';
import { type Millis, millis } from '../../base/duration.ts';
import { PrivateKey } from '../../pki/keys.ts';
import { selfSign } from '../../pki/x509.ts';
import { Controller, type Driven, type Identity } from './controller.ts';
import { type FaultRule, type Traits, traits as traitsSchema } from './faults.ts';
import { listenIpmi } from './ipmi.socket.ts';
import { listenRedfish } from './redfish.server.ts';
import { answerSearches } from './ssdp.socket.ts';
import type { Certificate } from './web-certificate.ts';

export interface VirtualBmcOptions {
  readonly protocol: 'ipmi' | 'redfish';
  readonly address: string;
  /** Default: 623 for IPMI, 443 for Redfish; 0 takes any. */
  readonly port?: number;
  readonly user: string;
  readonly password: string;
  readonly identity?: Partial<Identity>;
  readonly traits?: Partial<Traits>;
  readonly faults?: readonly FaultRule[];
  /** The certificate of Redfish; by default a new one. */
  readonly certificate?: Certificate;
  /** Whether Redfish answers searches (SSDP). */
  readonly answersSearches?: true;
}

export interface VirtualBmc {
  readonly address: string;
  readonly port: number;
  readonly controller: Controller;
  /** Shows another certificate from now on; none has IPMI. */
  changeCertificate(): Promise<void>;
  /** Restarts the BMC alone: what it kept for that counts now. */
  restart(): void;
  close(): Promise<void>;
}

const PORTS = { ipmi: 623, redfish: 443 } as const;
const YEAR_MS = 365 * 86_400_000;

/** Starts a BMC in front of `driven`. Rejects when nobody can listen at the address. */
export async function startVirtualBmc(options: VirtualBmcOptions, driven: Driven): Promise<VirtualBmc> {
  const { protocol, address, user, password, faults = [] } = options;
  const port = options.port ?? PORTS[protocol];
  const identity: Identity = {
    uuid: randomUUID(),
    manufacturer: 'Muster Lab',
    product: 'Virtual Rack',
    serial: '',
    macs: [],
    ...options.identity,
  };
  const traits = traitsSchema.parse(options.traits ?? {});
  const controller = new Controller(driven, { user, password, identity, traits, faults, now: Date.now });
  if (protocol === 'ipmi') {
    const listening = await listenIpmi({ address, port }, controller, driven);
    return { ...listening, address, controller, changeCertificate: async () => {}, restart: () => {} };
  }
  const own = options.certificate ?? (await certificateOf(address));
  const listening = await listenRedfish({ address, port }, controller, own, driven);
  const location = `https://${address}${listening.port === 443 ? '' : `:${listening.port}`}/redfish/v1/`;
  const stop = options.answersSearches && (await answerSearches({ address, uuid: identity.uuid, location }));
  return {
    port: listening.port,
    address,
    controller,
    async close() {
      stop?.();
      await listening.close();
    },
    changeCertificate: async () => listening.certificate.set(await certificateOf(address)),
    restart: () => listening.certificate.restart(),
  };
}

/** A new self-signed certificate, as BMCs make it themselves. */
export async function certificateOf(address: string): Promise<Certificate> {
  const key = await PrivateKey.generate();
  const now = millis(Date.now());
  const { pem } = await selfSign(
    {
      subject: { commonName: 'bmc' },
      sans: { dns: [], ips: [address] },
      publicKey: key.publicKey(),
      purposes: ['serverAuth'],
      ca: false,
      notBefore: now,
      notAfter: (now + YEAR_MS) as Millis,
    },
    key,
  );
  return { certificate: pem, key: key.pem() };
}

/** A machine that is a value: for tests, and for fleets. */
export class ImaginedMachine implements Driven {
  on = false;
  /** What was typed into its serial port. */
  typed = '';
  readonly #listeners = new Set<(octets: Buffer) => void>();

  async start(boot: string, { hang }: { readonly hang: boolean }): Promise<void> {
    this.on = true;
    this.say(`BIOS (${boot})\r\n`);
    if (!hang) this.say('login: ');
  }

  async cut(): Promise<void> {
    this.on = false;
  }

  async shutDown(): Promise<void> {
    this.on = false;
  }

  listen(listener: (octets: Buffer) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Its serial port says this, and echoes what is typed. */
  say(text: string): void {
    for (const listener of this.#listeners) listener(Buffer.from(text, 'latin1'));
  }

  type(octets: Buffer): void {
    this.typed += octets.toString('latin1');
    this.say(octets.toString('latin1'));
  }
}
