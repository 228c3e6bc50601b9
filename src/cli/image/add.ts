/**
 * `muster image add` and `muster image build`: upload files, then apply the document that names
 * them.
 */
import { createHash } from 'node:crypto';
import path from 'node:path';
import { piecesText } from '../../artifacts/disk-layout.ts';
import { MusterError } from '../../base/errors.ts';
import { assetsOf } from '../../pxe/assets/assets.ts';
import { parseDocuments, validate } from '../../resources/document.ts';
import { API_VERSION, type Asset, type Document, type ImageSpec } from '../../resources/kinds.ts';
import { type ApiClient, openClient, type ServerOptions } from '../client.socket.ts';
import { readTexts } from '../documents/sources.files.ts';
import { EXIT, type Io, printWarnings } from '../io.ts';
import { sizeText } from '../output.ts';
import { withProgress } from '../progress.files.ts';
import { piecesOf } from './pieces.ts';
import { type AssetSource, hashOf, localCopy, readBuilt, runRecipe, sourceOf } from './sources.files.ts';
import { upload } from './upload.ts';

export interface AddOptions extends ServerOptions {
  readonly filename?: readonly string[];
  readonly dir?: string;
  readonly from?: string;
  readonly kernel?: string;
  readonly initrd?: readonly string[];
  readonly root?: string;
  readonly disk?: string;
  readonly installer: string;
  readonly sha256?: readonly string[];
  readonly trustOnFirstUse?: boolean;
  readonly os: string;
  readonly osVersion?: string;
  readonly arch: ImageSpec['arch'];
  readonly configFormat: ImageSpec['configFormat'];
  readonly cloudInitVersion?: string;
  readonly kernelArgument?: readonly string[];
}

/** The Image whose system installs disks, unless another one is named. */
export const INSTALLER = 'discovery';

/** An image to add: its document, and the source of each file by hash. */
interface Plan {
  readonly document: Document<'Image'>;
  readonly sources: ReadonlyMap<string, AssetSource>;
  /** Deletes temporary copies. */
  readonly cleanUp?: () => Promise<void>;
}

/**
 * `muster image add`: uploads the files of an image and applies its document.
 *
 * @throws {MusterError} E_USAGE unless exactly one kind of source is named; and what reading the
 *   files and the server's answers throw.
 */
export async function add(name: string | undefined, options: AddOptions, io: Io): Promise<number> {
  const ways = [name !== undefined, options.filename !== undefined, options.from !== undefined];
  if (ways.filter(Boolean).length !== 1 && !(name !== undefined && options.from !== undefined))
    throw new MusterError('E_USAGE', 'name one of: NAME with --kernel, -f FILE, --from DIRECTORY');
  const client = openClient(options, io);
  const plans =
    options.filename !== undefined
      ? await documentPlans(options.filename, options.dir, io.signal)
      : options.from !== undefined
        ? [await builtPlan(options.from, { name, client, io })]
        : [await namedPlan(name!, options, io, client)];
  try {
    for (const plan of plans) await carryOut(plan, client, io, options.filename === undefined);
    if (options.filename !== undefined) await applyFiles(client, options.filename, io);
  } finally {
    for (const plan of plans) await plan.cleanUp?.();
  }
  return EXIT.ok;
}

/** `muster image build`: runs a recipe, and adds the image that it built. */
export async function build(
  recipe: string,
  args: readonly string[],
  options: ServerOptions & { readonly name?: string },
  io: Io,
): Promise<number> {
  const client = openClient(options, io);
  // Without a server the command fails here, and not after minutes of building.
  await client.ask('GET /v1/assets', { query: { limit: 0 } });
  if (args.includes('--disk')) await installerOf(client, INSTALLER);
  const directory = await runRecipe(recipe, args, io.signal);
  await addBuilt(directory, options.name, client, io);
  return EXIT.ok;
}

/** Adds the image in a directory with image.json; `name` is another name than it says there. */
export const addBuilt = async (
  directory: string,
  name: string | undefined,
  client: ApiClient,
  io: Io,
): Promise<void> => carryOut(await builtPlan(directory, { name, client, io }), client, io, true);

/** Uploads the files that the server lacks, then applies the document if `apply` is true. */
async function carryOut(plan: Plan, client: ApiClient, io: Io, apply: boolean): Promise<void> {
  const { document, sources } = plan;
  const { name } = document.metadata;
  for (const sha256 of assetsOf(document.spec)) {
    const source = sources.get(sha256);
    // Kernel and initrd of the system that installs a disk are there already.
    if (source === undefined) continue;
    const { size, already } = await withProgress(source.shown, 'continues from here', io, (how) =>
      upload({ client, source, sha256, ...how }),
    );
    const how = already ? 'was there already' : 'stored and verified';
    io.out(`asset/${sha256.slice(0, 12)} ${path.basename(source.shown)} ${sizeText(size)} ${how}\n`);
  }
  if (!apply) return;
  const { results, warnings } = await client.ask('POST /v1/apply', {
    body: { sources: [{ file: `image/${name}`, text: JSON.stringify(document) }] },
  });
  for (const { action } of results) io.out(`image/${name} ${action}\n`);
  printWarnings(warnings, io);
}

/**
 * Applies documents that the API owns. Documents of the configuration directory belong to their
 * files, so for those it prints only that they were not changed.
 */
async function applyFiles(client: ApiClient, files: readonly string[], io: Io): Promise<void> {
  try {
    const { results, warnings } = await client.ask('POST /v1/apply', {
      body: { sources: await readTexts(files, io.signal) },
    });
    for (const { kind, name, action } of results) io.out(`${kind.toLowerCase()}/${name} ${action}\n`);
    printWarnings(warnings, io);
  } catch (error) {
    if (!(error instanceof MusterError) || error.code !== 'E_FILE_OWNED') throw error;
    io.err('the documents belong to files of the configuration directory, and were not changed\n');
  }
}

async function documentPlans(
  files: readonly string[],
  directory: string | undefined,
  signal: AbortSignal,
): Promise<readonly Plan[]> {
  const plans = (await readTexts(files, signal)).flatMap(({ file, text }) => {
    const { documents, faults } = parseDocuments(text, file);
    if (faults.length > 0) throw new MusterError(faults[0]!.code, faults[0]!.message, { faults });
    return documents.flatMap(({ document }) =>
      document.kind === 'Image'
        ? [documentPlan(document as Document<'Image'>, directory ?? path.dirname(file))]
        : [],
    );
  });
  if (plans.length === 0)
    throw new MusterError('E_USAGE', `${files.join(', ')}: there is no Image document in it`);
  return plans;
}

function documentPlan(document: Document<'Image'>, directory: string): Plan {
  const { kernel, initrds = [], root, disk, pieces } = document.spec;
  const sources = new Map<string, AssetSource>();
  for (const asset of [kernel, ...initrds, root, disk, pieces]) {
    if (asset === undefined) continue;
    if (asset.url === undefined)
      throw new MusterError(
        'E_USAGE',
        `Image "${document.metadata.name}": the file ${asset.name ?? asset.sha256} has no url to be fetched from`,
      );
    sources.set(asset.sha256, sourceOf(asset.url, directory));
  }
  return { document, sources };
}

/**
 * Makes and checks the document of an image.
 *
 * @throws {MusterError} E_SCHEMA, with every fault.
 */
function imageDocument(name: string, spec: object): Document<'Image'> {
  const result = validate({ apiVersion: API_VERSION, kind: 'Image', metadata: { name }, spec });
  if (result.ok) return result.document as Document<'Image'>;
  throw new MusterError('E_SCHEMA', result.faults[0]!.message, { faults: result.faults });
}

/** The plan for the result of a recipe: `image.json`, with its files in the same directory. */
async function builtPlan(
  directory: string,
  { name, client, io }: { readonly name: string | undefined; readonly client: ApiClient; readonly io: Io },
): Promise<Plan> {
  const built = await readBuilt(directory);
  const { kernel, initrd, root, disk } = built as Record<string, Asset | undefined>;
  if (!kernel && !disk)
    throw new MusterError('E_USAGE', `${directory}/image.json names no kernel and no disk`);
  const sources = new Map<string, AssetSource>();
  for (const asset of [kernel, initrd, root, disk])
    if (asset) sources.set(asset.sha256, sourceOf(asset.name ?? '', directory));
  const cloudInit = built.cloudInitVersion as string | undefined;
  const document = imageDocument(name ?? String(built.name), {
    os: built.os,
    ...(built.version ? { version: built.version } : {}),
    arch: built.arch,
    ...(kernel ? { kernel } : {}),
    ...(initrd ? { initrds: [initrd] } : {}),
    ...(root ? { root } : {}),
    configFormat: built.configFormat ?? (cloudInit ? 'cloud-init' : 'none'),
    ...(cloudInit ? { cloudInitVersion: cloudInit } : {}),
    ...(built.kernelArguments ? { kernelArguments: built.kernelArguments } : {}),
    ...(built.programs ? { programs: built.programs } : {}),
    // Images of our recipes contain the report script and its units.
    reports: built.reports ?? true,
    ...(disk ? await diskParts(disk, sources, client, io) : {}),
  });
  return { document, sources };
}

/** What a document has for the image of a disk; the list of its pieces becomes a source. */
async function diskParts(disk: Asset, sources: Map<string, AssetSource>, client: ApiClient, io: Io) {
  const { kernel, initrds = [], kernelArguments } = await installerOf(client, INSTALLER);
  const pieces = await listOfPieces(disk.name ?? 'disk', sources.get(disk.sha256)!, io.signal);
  sources.set(pieces.asset.sha256, pieces.source);
  return { kernel, initrds, ...(kernelArguments && { kernelArguments }), disk, pieces: pieces.asset };
}

/** The plan from flags. Each file is hashed here, or the operator gives its hash. */
async function namedPlan(name: string, options: AddOptions, io: Io, client: ApiClient): Promise<Plan> {
  if (options.kernel === undefined && options.disk === undefined)
    throw new MusterError('E_USAGE', 'an image needs a --kernel, or a --disk');
  const known = hashesGiven(options.sha256 ?? []);
  const sources = new Map<string, AssetSource>();
  const copies: (() => Promise<void>)[] = [];
  const cleanUp = async () => {
    for (const remove of copies) await remove();
  };
  const take = async (part: string, text: string): Promise<Asset> => {
    let source = sourceOf(text);
    const { remote } = source;
    const given = known.get(part);
    let sha256 = given;
    known.delete(part);
    if (!remote) sha256 = (await hashOf(source, io.signal)).sha256;
    else if (sha256 === undefined) {
      if (!options.trustOnFirstUse)
        throw new MusterError(
          'E_USAGE',
          `${text}: give its hash (--sha256 ${part}=…), or accept the file unverified with --trust-on-first-use`,
        );
      const original = source;
      const got = await withProgress(
        text,
        `the download starts again; with --sha256 ${part}=… it would continue`,
        io,
        (how) => localCopy(original, how.io, how.onProgress),
      );
      copies.push(got.remove);
      source = got.copy;
      sha256 = got.sha256;
      io.err(`${text}: accepted without a check; its SHA-256 is ${sha256}\n`);
    }
    // This host has the octets, so they are compared with the given hash: the server may already
    // have another file with that hash.
    if (given !== undefined && sha256 !== given)
      throw new MusterError(
        'E_ASSET_HASH',
        `${text} has SHA-256 ${sha256}, not ${given} as --sha256 ${part}= says`,
      );
    sources.set(sha256, source);
    return { sha256, name: safeName(text, part), ...(remote ? { url: text } : {}) };
  };
  try {
    const disk = options.disk === undefined ? undefined : await take('disk', options.disk);
    const pieces = disk && (await listOfPieces(options.disk!, sources.get(disk.sha256)!, io.signal));
    if (pieces) sources.set(pieces.asset.sha256, pieces.source);
    const installer = options.kernel === undefined ? await installerOf(client, options.installer) : undefined;
    const kernel = installer?.kernel ?? (await take('kernel', options.kernel!));
    const initrds: Asset[] = [...(installer?.initrds ?? [])];
    for (const [n, text] of (options.initrd ?? []).entries())
      initrds.push(await take(known.has(`initrd${n}`) || n > 0 ? `initrd${n}` : 'initrd', text));
    const root = options.root === undefined ? undefined : await take('root', options.root);
    const [left] = known.keys();
    if (left !== undefined) throw new MusterError('E_USAGE', `--sha256 ${left}=…: there is no such part`);
    const document = imageDocument(name, {
      os: options.os,
      ...(options.osVersion ? { version: options.osVersion } : {}),
      arch: options.arch,
      kernel,
      ...(initrds.length > 0 ? { initrds } : {}),
      ...(root ? { root } : {}),
      ...(disk && pieces ? { disk, pieces: pieces.asset } : {}),
      configFormat: options.configFormat,
      ...(options.cloudInitVersion ? { cloudInitVersion: options.cloudInitVersion } : {}),
      ...(options.kernelArgument
        ? { kernelArguments: options.kernelArgument }
        : installer?.kernelArguments && { kernelArguments: installer.kernelArguments }),
    });
    return { document, sources, cleanUp };
  } catch (error) {
    await cleanUp();
    throw error;
  }
}

/**
 * Reads the image of a disk and makes the list of its pieces.
 *
 * @throws {MusterError} E_DISK_IMAGE for one that cannot be installed
 */
async function listOfPieces(
  shown: string,
  source: AssetSource,
  signal: AbortSignal,
): Promise<{ readonly asset: Asset; readonly source: AssetSource }> {
  const { pieces, fault } = await piecesOf((await source.read(0, signal)).octets);
  if (fault !== undefined) throw new MusterError('E_DISK_IMAGE', `${shown} cannot be installed: ${fault}`);
  const octets = Buffer.from(piecesText(pieces));
  const sha256 = createHash('sha256').update(octets).digest('hex');
  const name = 'pieces';
  return {
    asset: { sha256, name },
    source: {
      shown: `pieces of ${path.basename(shown)}`,
      remote: false,
      read: async (offset) => ({
        offset,
        total: octets.length,
        octets: (async function* () {
          yield octets.subarray(offset);
        })(),
      }),
    },
  };
}

/**
 * The Image whose kernel and initrds install disks.
 *
 * @throws {MusterError} E_NOT_FOUND when the boot host has none
 */
async function installerOf(client: ApiClient, name: string): Promise<ImageSpec> {
  const found = client.call<Document<'Image'>>('GET', `/v1/images/${encodeURIComponent(name)}`, {});
  return (
    await found.catch((error: unknown) => {
      if (!(error instanceof MusterError) || error.code !== 'E_NOT_FOUND') throw error;
      throw new MusterError(
        'E_NOT_FOUND',
        `there is no Image "${name}", whose system installs disks: run \`muster image build discovery\` first, or name another one with --installer`,
      );
    })
  ).spec;
}

function hashesGiven(words: readonly string[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const word of words) {
    const pair = /^(kernel|initrd[0-9]*|root|disk)=([0-9a-fA-F]{64})$/.exec(word);
    if (!pair)
      throw new MusterError(
        'E_USAGE',
        `--sha256 ${word}: write PART=HASH, e.g. kernel=64 hexadecimal digits`,
      );
    found.set(pair[1]!, pair[2]!.toLowerCase());
  }
  return found;
}

/** The last part of a path or URL, without characters that the server's URLs cannot contain. */
function safeName(text: string, fallback: string): string {
  const last = path.basename(text.replace(/[?#].*$/, '')).replace(/[^A-Za-z0-9._+-]/g, '_');
  return /^[A-Za-z0-9]/.test(last) ? last : fallback;
}
