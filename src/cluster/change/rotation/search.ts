/** Searches the objects of a cluster for old CAs and for tokens of old keys. */
import type { Clock } from '../../../base/clock.ts';
import { duration } from '../../../base/duration.ts';
import { fieldsOf, listOf, textOf } from '../../../base/foreign-json.ts';
import { type Kube, KubeRefusal } from '../../kube.ts';
import { leftoversOf, type Needle, SEARCHED, type Searched, searched } from './leftovers.ts';
import type { Leftover } from './order.ts';

/** How many objects are read with one request. */
const PAGE = 250;
/** What is read of custom resources at most, in one search; what is beyond it is named. */
const MOST = { kinds: 400, octets: 256 * 1024 * 1024, time: duration('60s') } as const;

/** A kind of custom resource that the API serves. */
interface CustomKind {
  /** `PLURAL.GROUP`, as kubectl takes it. */
  readonly name: string;
  readonly path: string;
}

/**
 * The objects that contain a needle, by the object that an operator has to change. Custom resources
 * that could not be searched are in the list as `search/PLURAL.GROUP`.
 *
 * @throws {KubeRefusal} when the API does not list one of its own kinds
 */
export async function search(
  kube: Kube,
  needles: readonly Needle[],
  clock: Pick<Clock, 'monotonic'>,
): Promise<readonly Leftover[]> {
  const found: Searched[] = [];
  const custom: CustomKind[] = [];
  for (const { kind, path } of SEARCHED)
    await eachPage(kube, path, (body) => {
      found.push(...searched(kind, body, needles));
      if (kind === 'customresourcedefinition') custom.push(...customKinds(body));
      return true;
    });
  const missed: Leftover[] = [];
  const until = clock.monotonic() + MOST.time;
  let octets = 0;
  for (const [n, { name, path }] of custom.entries()) {
    const within = () => n < MOST.kinds && octets < MOST.octets && clock.monotonic() < until;
    const miss = (why: string) => missed.push({ name: `search/${name}`, text: `was not searched: ${why}` });
    const complete = await eachPage(
      kube,
      path,
      (body, size) => {
        octets += size;
        found.push(...searched(name, body, needles));
        return within();
      },
      within,
    ).catch((error: unknown) => {
      // A definition that was removed meanwhile has no objects.
      if (error instanceof KubeRefusal && error.status === 404) return true;
      miss(error instanceof KubeRefusal ? error.message : 'the API server did not answer in time');
      return true;
    });
    if (!complete) miss('the cluster has more custom resources than one search reads');
  }
  return [...leftoversOf(found), ...missed];
}

/** Reads a list page by page. Resolves with whether all was read. */
async function eachPage(
  kube: Kube,
  path: string,
  read: (body: unknown, octets: number) => boolean,
  begins: () => boolean = () => true,
): Promise<boolean> {
  let next = '';
  if (!begins()) return false;
  do {
    const more = next === '' ? '' : `&continue=${encodeURIComponent(next)}`;
    const { body, text } = await kube(`${path}?limit=${PAGE}${more}`);
    const goesOn = read(body, text.length);
    next = textOf(fieldsOf(fieldsOf(body).metadata).continue);
    if (next !== '' && !goesOn) return false;
  } while (next !== '');
  return true;
}

/** The kinds of custom resources in a list of definitions, each in the version that is stored. */
function customKinds(list: unknown): readonly CustomKind[] {
  return listOf(fieldsOf(list).items).flatMap((item) => {
    const { group, names, versions } = fieldsOf(fieldsOf(item).spec);
    const served = listOf(versions)
      .map(fieldsOf)
      .filter((one) => one.served === true);
    const version = served.find(({ storage }) => storage === true) ?? served[0];
    const plural = textOf(fieldsOf(names).plural);
    if (version === undefined || plural === '') return [];
    const path = `/apis/${textOf(group)}/${textOf(version.name)}/${plural}`;
    return [{ name: `${plural}.${textOf(group)}`, path }];
  });
}
