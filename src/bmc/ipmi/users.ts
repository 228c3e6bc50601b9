/** Accounts of a BMC by IPMI (sections 22.26 to 22.31). `ask` sends a command in a session. */
import { BmcFault } from '../bmc.ts';
import {
  type Command,
  enableUser,
  nameIn,
  setUserAccess,
  setUserConsole,
  setUserName,
  setUserPassword,
  userAccess,
  userName,
  usersIn,
} from './commands.ts';

type Ask = (command: Command) => Promise<Buffer>;

/** The number of the user of that name, and of the first one without a name. */
async function lookUp(
  ask: Ask,
  user: string,
): Promise<{ readonly id?: number | undefined; readonly free?: number | undefined }> {
  const most = usersIn(await ask(userAccess(1)));
  let free: number | undefined;
  for (let id = 1; id <= most; id++) {
    const name = await ask(userName(id)).then(nameIn, (error: unknown) => {
      // Some BMCs refuse to say a name that is empty.
      if (error instanceof BmcFault && error.code === 'refused') return '';
      throw error;
    });
    if (name === user) return { id };
    // The first one without a name stands for whoever gives none.
    if (name === '' && id > 1) free ??= id;
  }
  return { free };
}

/** Makes a user, or gives the one of that name this password. @throws {BmcFault} */
export async function setUser(
  ask: Ask,
  { user, password }: { readonly user: string; readonly password: string },
): Promise<void> {
  const { id: known, free } = await lookUp(ask, user);
  const id = known ?? free;
  if (id === undefined) throw new BmcFault('refused', 'it has no room for another account');
  if (known === undefined) await ask(setUserName(id, user));
  await ask(setUserPassword(id, password));
  await ask(setUserAccess(id));
  // A BMC without a console does not have this command.
  await ask(setUserConsole(id)).catch(() => {});
  await ask(enableUser(id, true));
}

/** Switches a user off. @throws {BmcFault} */
export async function switchUserOff(ask: Ask, user: string): Promise<void> {
  const { id } = await lookUp(ask, user);
  if (id !== undefined) await ask(enableUser(id, false));
}
