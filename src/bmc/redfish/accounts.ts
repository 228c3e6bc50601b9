/** Accounts of a BMC by Redfish (DSP0266, AccountService). */
import { fieldsOf, textOf } from '../../base/foreign-json.ts';
import { isOwnPath, membersOf, type Resource } from './model.ts';

/** What asks the BMC. Every call rejects with a BmcFault. */
interface Asks {
  get(path: string): Promise<Resource>;
  post(path: string, body: object): Promise<unknown>;
  patch(path: string, body: object, etag: string | undefined): Promise<void>;
}

const SERVICE = '/redfish/v1/AccountService';
const ROLE = 'Administrator';

/** The account of that name, the collection, and a slot without a name where there are slots. */
async function lookUp(link: Asks, user: string) {
  const service = await link.get(SERVICE);
  const said = textOf(fieldsOf(service.body.Accounts)['@odata.id']);
  const collection = isOwnPath(said) ? said : `${SERVICE}/Accounts`;
  let free: Resource | undefined;
  for (const path of membersOf(await link.get(collection))) {
    const one = await link.get(path);
    const name = textOf(one.body.UserName);
    if (name === user) return { collection, found: one };
    // The first slot is reserved.
    if (name === '' && !/\/1\/?$/.test(path)) free ??= one;
  }
  return { collection, free };
}

/** Makes an account, or gives the one of that name this password. @throws {BmcFault} */
export async function setAccount(
  link: Asks,
  { user, password }: { readonly user: string; readonly password: string },
): Promise<void> {
  const { collection, found, free } = await lookUp(link, user);
  const whole = { UserName: user, Password: password, Enabled: true, RoleId: ROLE };
  if (found) {
    const { Enabled, RoleId } = found.body;
    const isWhole = Enabled === true && textOf(RoleId) === ROLE;
    const { UserName: _, ...rights } = whole;
    await link.patch(found.path, isWhole ? { Password: password } : rights, found.etag);
  } else if (free) await link.patch(free.path, whole, free.etag);
  else await link.post(collection, whole);
}

/** Switches an account off. @throws {BmcFault} */
export async function switchAccountOff(link: Asks, user: string): Promise<void> {
  const { found } = await lookUp(link, user);
  if (found) await link.patch(found.path, { Enabled: false }, found.etag);
}
