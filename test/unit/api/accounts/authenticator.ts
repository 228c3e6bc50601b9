/**
 * An authenticator in software, which answers as browsers do: ES256 keys, CBOR and COSE by hand, so
 * that the server's library is tested against something else than itself.
 */
import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import type { Asserted, AssertionRequest, Created, Creation } from '../../../../src/api/contract/passkeys.ts';

type Cbor = number | string | Buffer | readonly Cbor[] | ReadonlyMap<number | string, Cbor>;

/** Encodes a value (RFC 8949): whole numbers below 2^32, texts, octets, arrays, maps. */
function cbor(value: Cbor): Buffer {
  if (typeof value === 'number') return value >= 0 ? head(0, value) : head(1, -1 - value);
  if (typeof value === 'string')
    return Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)]);
  if (Buffer.isBuffer(value)) return Buffer.concat([head(2, value.length), value]);
  if (value instanceof Map)
    return Buffer.concat([
      head(5, value.size),
      ...[...value].flatMap(([key, one]) => [cbor(key), cbor(one)]),
    ]);
  const items = value as readonly Cbor[];
  return Buffer.concat([head(4, items.length), ...items.map(cbor)]);
}

function head(kind: number, n: number): Buffer {
  if (n < 24) return Buffer.from([(kind << 5) | n]);
  if (n < 256) return Buffer.from([(kind << 5) | 24, n]);
  return Buffer.from([(kind << 5) | 25, n >> 8, n & 255]);
}

const PRESENT = 1;
const VERIFIED = 4;
const HAS_CREDENTIAL = 0x40;

/** What a test lets the authenticator or the browser do wrong. */
export interface Wrong {
  readonly origin?: string;
  readonly rpId?: string;
  readonly type?: string;
  readonly challenge?: string;
  /** The person is there, and the authenticator does not know who it is. */
  readonly unverified?: boolean;
  readonly counter?: number;
  readonly userHandle?: string;
  readonly attestation?: readonly [string, ReadonlyMap<string, Cbor>];
}

export class Authenticator {
  readonly id = randomBytes(20).toString('base64url');
  readonly #origin: string;
  readonly #keys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  /** The account, as the server named it. */
  handle = randomBytes(32).toString('base64url');
  counter = 0;

  /** @param origin of the page that the browser shows */
  constructor(origin: string) {
    this.#origin = origin;
  }

  create({ rp, user, challenge }: Creation, wrong: Wrong = {}): Created {
    this.handle = user.id;
    const id = Buffer.from(this.id, 'base64url');
    const size = Buffer.from([0, id.length]);
    const attested = Buffer.concat([Buffer.alloc(16), size, id, cosePublicKey(this.#keys.publicKey)]);
    const [fmt, attStmt] = wrong.attestation ?? ['none', new Map()];
    const object = new Map<string, Cbor>([
      ['fmt', fmt],
      ['attStmt', attStmt],
      ['authData', this.#data(rp.id, wrong, attested)],
    ]);
    return {
      id: this.id,
      rawId: this.id,
      type: 'public-key',
      clientExtensionResults: {},
      response: {
        clientDataJSON: this.#client('webauthn.create', challenge, wrong).toString('base64url'),
        attestationObject: cbor(object).toString('base64url'),
        transports: ['internal'],
      },
    };
  }

  get({ rpId, challenge }: AssertionRequest, wrong: Wrong = {}): Asserted {
    const client = this.#client('webauthn.get', challenge, wrong);
    const data = this.#data(rpId, wrong);
    const signed = Buffer.concat([data, createHash('sha256').update(client).digest()]);
    return {
      id: this.id,
      rawId: this.id,
      type: 'public-key',
      clientExtensionResults: {},
      response: {
        clientDataJSON: client.toString('base64url'),
        authenticatorData: data.toString('base64url'),
        signature: sign('sha256', signed, this.#keys.privateKey).toString('base64url'),
        userHandle: wrong.userHandle ?? this.handle,
      },
    };
  }

  #client(type: string, challenge: string, wrong: Wrong): Buffer {
    const { origin = this.#origin } = wrong;
    return Buffer.from(
      JSON.stringify({ type: wrong.type ?? type, challenge: wrong.challenge ?? challenge, origin }),
    );
  }

  #data(rpId: string, wrong: Wrong, attested?: Buffer): Buffer {
    this.counter = wrong.counter ?? this.counter + 1;
    const flags = PRESENT | (wrong.unverified ? 0 : VERIFIED) | (attested ? HAS_CREDENTIAL : 0);
    const fixed = Buffer.alloc(5);
    fixed.writeUInt8(flags, 0);
    fixed.writeUInt32BE(this.counter, 1);
    const name = createHash('sha256')
      .update(wrong.rpId ?? rpId)
      .digest();
    return Buffer.concat([name, fixed, attested ?? Buffer.alloc(0)]);
  }
}

/** RFC 9053 sections 2.1 and 7.1.1. */
function cosePublicKey(key: KeyObject): Buffer {
  const { x, y } = key.export({ format: 'jwk' });
  const [kty, alg, crv] = [1, 3, -1];
  return cbor(
    new Map<number, Cbor>([
      [kty, 2],
      [alg, -7],
      [crv, 1],
      [-2, Buffer.from(x!, 'base64url')],
      [-3, Buffer.from(y!, 'base64url')],
    ]),
  );
}
