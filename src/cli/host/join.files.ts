/** `muster host join`: writes what this host needs to stand by for the one that invited it. */
import fs from 'node:fs';
import path from 'node:path';
import { MusterError } from '../../base/errors.ts';
import { parsed } from '../../base/foreign-json.ts';
import { ageDecrypt, type Identity, newIdentity } from '../../pki/age.ts';
import { askSibling, textOf } from '../../pxe/siblings/ask.socket.ts';
import { readCode } from '../../pxe/siblings/code.ts';
import { makePair } from '../../pxe/siblings/pair.ts';
import { JOIN_PATH, type JoinAnswer, joinAnswer } from '../../pxe/siblings/wire.ts';
import { scan } from '../../resources/directory.files.ts';
import { readOctets } from '../documents/sources.files.ts';
import { EXIT, type Io } from '../io.ts';
import { SERVE_SETTINGS } from '../serve/options.ts';

interface Options {
  readonly state: string;
  readonly config: string;
  readonly storeFiles: string;
  readonly settings: string;
  readonly storeCert?: string;
  readonly storeKey?: string;
}

/**
 * Joins. Everything that can be found wrong here is found before the code is spent.
 *
 * @throws {MusterError} E_USAGE when files are in the way, or the code is none; E_UNREACHABLE;
 *   E_JOIN when the code does not count
 */
export async function join(options: Options, io: Io): Promise<number> {
  const pair = readPair(options);
  mustBeEmpty(options);
  const typed = await io.ask('code: ');
  const code = readCode(typed ?? Buffer.from(await readOctets('-', io.signal)).toString());
  const { identity, recipient } = await newIdentity();
  const answer = await askSibling(
    await makePair('a new host'),
    { host: 'the host that printed the code', ...code },
    JOIN_PATH,
    {
      method: 'POST',
      body: JSON.stringify({ v: 1, secret: code.secret, recipient }),
      signal: io.signal,
    },
  );
  const text = await textOf(answer);
  if (answer.statusCode !== 200)
    throw new MusterError(
      'E_JOIN',
      'the host does not take the code: it was used, called off or is too old, or another host acts now',
    );
  const given = joinAnswer.parse(parsed(text));
  const written = await write(given, identity, pair, options);
  io.out(`${[`this host is ${given.host}. It has now:`, ...written.map((one) => `  ${one}`)].join('\n')}\n`);
  const missing = [
    ...given.missing,
    ...(pair === undefined && given.store.pair === undefined
      ? [`host.pem and host.key in ${options.storeFiles}: a certificate for etcd, and its key`]
      : []),
  ];
  io.out(`${['Bring by hand:', ...missing.map((one) => `  ${one}`)].join('\n')}\n`);
  io.out(
    `Then: systemctl daemon-reload && systemctl restart muster. \`muster host list\` on the other host shows this one.\n`,
  );
  return EXIT.ok;
}

type StorePair = { readonly cert: string; readonly key: string };

function readPair({ storeCert, storeKey }: Options): StorePair | undefined {
  if (storeCert === undefined && storeKey === undefined) return undefined;
  if (storeCert === undefined || storeKey === undefined)
    throw new MusterError('E_USAGE', '--store-cert and --store-key are given together');
  return { cert: readFile(storeCert), key: readFile(storeKey) };
}

function readFile(file: string): string {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch (cause) {
    throw new MusterError('E_FILE_READ', `${file} cannot be read`, { cause });
  }
}

/** A host that has a store, a vault key, documents or a certificate of its own keeps them. */
function mustBeEmpty({ state, config, storeFiles, settings }: Options): void {
  const inTheWay = [
    ...['muster.db', 'vault.key'].map((name) => path.join(state, name)).filter((file) => fs.existsSync(file)),
    ...(fs.existsSync(config) && scan(config).files.size > 0 ? [config] : []),
    ...(fs.existsSync(storeFiles) && fs.readdirSync(storeFiles).length > 0 ? [storeFiles] : []),
  ];
  if (inTheWay.length > 0)
    throw new MusterError(
      'E_USAGE',
      `${inTheWay.join(' and ')}: this host has served already. Stop its server (systemctl stop muster), and move these away`,
    );
  if (settingsIn(settings).some((line) => line.startsWith(`${SERVE_SETTINGS.store.env}=`)))
    throw new MusterError('E_USAGE', `${settings} has ${SERVE_SETTINGS.store.env} already; remove that line`);
  for (const place of [state, config, storeFiles, path.dirname(settings)])
    try {
      fs.mkdirSync(place, { recursive: true, mode: 0o750 });
      fs.accessSync(place, fs.constants.W_OK);
    } catch (cause) {
      throw new MusterError('E_USAGE', `${place} cannot be written; run this as root`, { cause });
    }
}

const settingsIn = (file: string): readonly string[] =>
  fs.existsSync(file) ? readFile(file).split('\n') : [];

/** Writes what was given; returns what that is, as sentences. The settings come last. */
async function write(
  given: JoinAnswer,
  identity: Identity,
  own: StorePair | undefined,
  { state, config, storeFiles, settings }: Options,
): Promise<readonly string[]> {
  const done: string[] = [];
  const { uid, gid } = fs.statSync(state);
  const asRoot = process.getuid?.() === 0;
  // The group of the server reads; a file that only its owner may read is the server's.
  const make = (directory: string): void => {
    if (fs.existsSync(directory)) return;
    make(path.dirname(directory));
    fs.mkdirSync(directory, { mode: 0o750 });
    if (asRoot) fs.chownSync(directory, 0, gid);
  };
  const put = (file: string, text: string, mode: number): void => {
    make(path.dirname(file));
    fs.writeFileSync(file, text, { mode, flag: 'wx', flush: true });
    if (asRoot) fs.chownSync(file, mode === 0o600 ? uid : 0, gid);
  };
  if (asRoot) fs.chownSync(storeFiles, 0, gid);
  if (given.vaultKey !== undefined) {
    const file = path.join(state, 'vault.key');
    const key = await ageDecrypt(Buffer.from(given.vaultKey, 'base64'), { identities: [identity] });
    put(file, key.toString(), 0o600);
    done.push(`${file}: the vault key`);
  }
  for (const one of given.documents) put(path.join(config, one.path), one.text, 0o640);
  if (given.documents.length > 0) done.push(`${config}: ${given.documents.length} files of documents`);
  const { ca, pair = own } = given.store;
  const files = {
    [SERVE_SETTINGS.storeCa.env]: path.join(storeFiles, 'ca.pem'),
    [SERVE_SETTINGS.storeCert.env]: path.join(storeFiles, 'host.pem'),
    [SERVE_SETTINGS.storeKey.env]: path.join(storeFiles, 'host.key'),
  };
  if (ca !== '') {
    put(files[SERVE_SETTINGS.storeCa.env]!, ca, 0o640);
    if (pair !== undefined) {
      put(files[SERVE_SETTINGS.storeCert.env]!, pair.cert, 0o640);
      put(files[SERVE_SETTINGS.storeKey.env]!, pair.key, 0o640);
    }
    done.push(
      `${storeFiles}: ${pair === undefined ? 'the CA of etcd' : 'the certificate for etcd, its key and its CA'}`,
    );
  }
  const lines = Object.entries({ ...given.settings, ...(ca === '' ? {} : files) }).map(
    ([name, value]) => `${name}=${value}`,
  );
  const names = new Set(lines.map((line) => line.split('=')[0]));
  const kept = settingsIn(settings).filter((line) => !names.has(line.split('=')[0]));
  fs.writeFileSync(settings, `${[...kept.join('\n').trimEnd().split('\n'), ...lines].join('\n').trim()}\n`);
  done.push(`${settings}: ${lines.length} settings`);
  return done;
}
