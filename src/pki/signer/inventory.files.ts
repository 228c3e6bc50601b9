/**
 * The machines of the site as the signer knows them: those of the documents in a directory that
 * belongs to root, and those that a person at the host approved.
 */
import fs from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
import { duration } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { parsed } from '../../base/foreign-json.ts';
import { replaceFile } from '../../base/replace-file.files.ts';
import { readText, type Stamp, sameStamp, scan } from '../../resources/directory.files.ts';
import { parseDocuments } from '../../resources/document.ts';
import type { Document, Kind } from '../../resources/kinds.ts';
import { etcdMembers, membershipsIn } from '../../resources/membership.ts';
import type { Role } from '../hierarchy.ts';
import { IssueLimit } from '../issue-limit.ts';
import type { Proof, Site } from './site.ts';

/** How long something stays allowed. */
export const ALLOWED_FOR = duration('5m');
/** The directory is looked at this often at most. */
const LOOK_EVERY = duration('1s');

const approved = z.strictObject({
  machine: z.string(),
  /** Absent: any cluster. */
  cluster: z.string(),
  roles: z.array(z.enum(['control-plane', 'etcd', 'worker'])),
});
export type Approved = z.output<typeof approved>;
const kept = z.strictObject({ v: z.literal(1), approved: z.array(approved) });

type AnyDocument = Document<Kind>;

export interface Inventory extends Site {
  /** @throws {MusterError} E_FILE_WRITE when it cannot be kept */
  approve(entries: readonly Approved[]): void;
  /** Takes machines back that were approved; those of documents stay. */
  withdraw(machines: readonly string[]): void;
  allow(proof: Proof): void;
  list(): readonly Approved[];
}

interface InventoryDeps {
  /** The directory with the documents; undefined: only what is approved counts. */
  readonly documents: string | undefined;
  /** The file that keeps what was approved. */
  readonly file: string;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
}

/** Opens the inventory. @throws {MusterError} E_PKI when what was approved cannot be read */
export function openInventory(deps: InventoryDeps): Inventory {
  return new FileInventory(deps);
}

class FileInventory implements Inventory {
  readonly #deps: InventoryDeps;
  readonly #limit = new IssueLimit();
  readonly #allowed = new Map<Proof, number>();
  #approved: readonly Approved[];
  #files = new Map<string, { readonly stamp: Stamp; readonly documents: readonly AnyDocument[] }>();
  #documented: readonly Approved[] = [];
  #lookedAt = Number.NEGATIVE_INFINITY;

  constructor(deps: InventoryDeps) {
    this.#deps = deps;
    const text = fs.existsSync(deps.file) ? fs.readFileSync(deps.file, 'utf8') : undefined;
    const read = text === undefined ? undefined : kept.safeParse(parsed(text));
    if (read?.success === false) throw new MusterError('E_PKI', `${deps.file} is not a list of machines`);
    this.#approved = read?.data.approved ?? [];
  }

  roles(machine: string, cluster?: string): readonly Role[] | undefined {
    this.#look();
    const found = [...this.#documented, ...this.#approved].filter(
      (one) => one.machine === machine && (cluster === undefined || one.cluster === cluster),
    );
    return found.length === 0 ? undefined : found.flatMap(({ roles }) => roles);
  }

  proved(proof: Proof): boolean {
    return (this.#allowed.get(proof) ?? Number.NEGATIVE_INFINITY) > this.#deps.clock.monotonic();
  }

  take(who: string): ReturnType<Site['take']> {
    return this.#limit.take(who, this.#deps.clock.monotonic());
  }

  apart(now: Parameters<Site['apart']>[0]): number {
    return Math.abs(now - this.#deps.clock.now());
  }

  approve(entries: readonly Approved[]): void {
    const others = this.#approved.filter(
      ({ machine, cluster }) => !entries.some((one) => one.machine === machine && one.cluster === cluster),
    );
    this.#keep([...others, ...entries]);
  }

  withdraw(machines: readonly string[]): void {
    this.#keep(this.#approved.filter(({ machine }) => !machines.includes(machine)));
  }

  allow(proof: Proof): void {
    this.#allowed.set(proof, this.#deps.clock.monotonic() + ALLOWED_FOR);
  }

  list(): readonly Approved[] {
    this.#look();
    return [...this.#documented, ...this.#approved];
  }

  #keep(all: readonly Approved[]): void {
    replaceFile(this.#deps.file, `${JSON.stringify({ v: 1, approved: all }, undefined, 1)}\n`);
    this.#approved = all;
  }

  /** Reads the files that changed. One that is faulty counts as it was, as for the server. */
  #look(): void {
    const { documents, clock } = this.#deps;
    if (documents === undefined || clock.monotonic() - this.#lookedAt < LOOK_EVERY) return;
    this.#lookedAt = clock.monotonic();
    const found = scan(documents);
    const files = new Map<string, { readonly stamp: Stamp; readonly documents: readonly AnyDocument[] }>();
    let changed = found.files.size !== this.#files.size;
    for (const [file, stamp] of found.files) {
      const known = this.#files.get(file);
      if (known && sameStamp(known.stamp, stamp)) files.set(file, known);
      else {
        changed = true;
        const read = documentsIn(file);
        files.set(file, { stamp, documents: read ?? known?.documents ?? [] });
      }
    }
    this.#files = files;
    if (changed) this.#documented = documentedIn([...files.values()].flatMap((one) => one.documents));
  }
}

function documentsIn(file: string): readonly AnyDocument[] | undefined {
  const read = readText(file);
  if ('fault' in read) return undefined;
  const { documents, faults } = parseDocuments(read.text, path.basename(file));
  return faults.length > 0 ? undefined : documents.map(({ document }) => document);
}

/** The machines that have documents, with what the Clusters among the documents make of them. */
function documentedIn(all: readonly AnyDocument[]): readonly Approved[] {
  const clusters = all.flatMap((one) => (one.kind === 'Cluster' ? [one as Document<'Cluster'>] : []));
  const members = membershipsIn(clusters);
  const etcd = new Set(clusters.flatMap((one) => etcdMembers(one)));
  return all.flatMap((one) => {
    if (one.kind !== 'Machine') return [];
    const { metadata, spec } = one as Document<'Machine'>;
    const machine = metadata.name;
    const member = members.get(machine);
    if (member === undefined) return [{ machine, cluster: spec.cluster ?? '', roles: ['worker' as const] }];
    const roles: Approved['roles'] = [
      ...(member.role === 'control plane' ? (['control-plane'] as const) : []),
      ...(member.role === 'worker' ? (['worker'] as const) : []),
      ...(etcd.has(machine) ? (['etcd'] as const) : []),
    ];
    return [{ machine, cluster: member.cluster, roles }];
  });
}
