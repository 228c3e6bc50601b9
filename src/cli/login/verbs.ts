/** Registers `muster login`, `logout`, `whoami`, `context`, `operator`, `token` and `pending`. */
import { Option } from 'commander';
import { ROLES } from '../../api/access.ts';
import { collect, outputOption, type Register, withExamples, withServer } from '../register.ts';

const roleOption = (): Option =>
  new Option('--role <role>', 'role (repeatable)').choices(Object.keys(ROLES)).argParser(collect);
const clusterOption = (): Option =>
  new Option('--cluster <name>', 'only for this cluster (repeatable); default: everywhere').argParser(
    collect,
  );

const poolOption = (): Option =>
  new Option(
    '--pool <name>',
    'only for machines of this pool (repeatable); with --cluster also for it',
  ).argParser(collect);

export const registerLogin: Register = (program, io, finish) => {
  const login = program
    .command('login')
    .summary('log in to a server over HTTPS')
    .description(
      'Logs in to the server of another host, which then answers all commands. The session is kept in a file that only you may read. The first time, compare the fingerprint of its CA with what `muster status` prints on the boot host.',
    )
    .argument('<url>', 'address of the server, such as https://boot.example:8444')
    .option('--operator <name>', 'name of your account (default: the calling user)')
    .option('--fingerprint <sha256>', "fingerprint of the server's CA, as `muster status` prints it there")
    .option('--site-ca', "the server shows a certificate that this host's CAs already vouch for")
    .option('--invitation <text>', 'set a password by an invitation')
    .option('--sso', "log in at the site's identity provider, in a browser on any device")
    .option('--certificate <file>', 'log in by a client certificate (PEM), where the server takes them')
    .option('--key <file>', 'the key of that certificate (PEM)')
    .option('--token', 'use a token instead of name and password')
    .option('--password-file <path>', 'read password or token from a file, - is standard input')
    .action(async (url: string, options) =>
      finish(await (await import('./login.ts')).login(url, options, io)),
    );
  withExamples(
    login,
    ['muster login https://boot.example:8444 --fingerprint AB:CD:… --operator ada', 'log in'],
    ['muster login https://boot.example:8444 --site-ca --sso', "log in at the site's identity provider"],
    [
      'muster login https://boot.example:8444 --site-ca --token --password-file token.txt',
      'log in by a token',
    ],
  );
  const logout = program
    .command('logout')
    .summary('end the session of `muster login`')
    .description('Ends the session, on the server and here. Commands then call the server of this host.')
    .action(async () => finish(await (await import('./login.ts')).logout(io)));
  withExamples(logout, ['muster logout', 'use the server of this host again']);
  const whoami = withServer(
    program
      .command('whoami')
      .summary('show who you are for the server, and your roles')
      .description('Shows as whom the server knows you, and with which roles.'),
  ).action(async (options) => finish(await (await import('./login.ts')).whoami(options, io)));
  withExamples(whoami, ['muster whoami', 'see your roles']);
  registerContexts(program, io, finish);
  registerOperators(program, io, finish);
  registerTokens(program, io, finish);
  registerPending(program, io, finish);
};

const registerContexts: Register = (program, io, finish) => {
  const context = program
    .command('context')
    .summary('choose among servers')
    .description(
      'Lists the servers that you have logged in to, and chooses the one that commands call. MUSTER_SERVER names another one for a single command.',
    );
  const list = context
    .command('ls')
    .summary('list the servers that you have logged in to')
    .description('Lists the servers that you have logged in to, as whom, and until when.')
    .addOption(outputOption('table', 'json', 'yaml'))
    .action(async (options) => finish((await import('./login.ts')).listContexts(options, io)));
  withExamples(list, ['muster context ls', 'see which server commands call']);
  const use = context
    .command('use')
    .summary('call another server from now on')
    .description('Makes a server that you have logged in to the one that commands call.')
    .argument('<url>', 'address of the server')
    .action(async (url: string) => finish((await import('./login.ts')).useContext(url, io)));
  withExamples(use, ['muster context use https://boot-2.example:8444', 'call the second boot host']);
};

const registerOperators: Register = (program, io, finish) => {
  const operator = program
    .command('operator')
    .summary('manage who may log in')
    .description('Manages the accounts of operators who log in over HTTPS, and their roles.');
  const add = withServer(
    operator
      .command('add')
      .summary('make an account or change its roles')
      .description(
        'Makes an account, or replaces its roles. A new account gets an invitation: a link with which its operator sets a password, once, within a day.',
      )
      .argument('<name>', 'name of the operator')
      .addOption(roleOption().makeOptionMandatory())
      .addOption(clusterOption())
      .addOption(poolOption()),
  ).action(async (name: string, options) =>
    finish(await (await import('./operators.ts')).add(name, options, io)),
  );
  withExamples(
    add,
    ['muster operator add ada --role admin --role auditor', 'make an administrator'],
    ['muster operator add bob --role operator --cluster blue', 'let somebody run one cluster'],
    [
      'muster operator add bob --role operator --cluster blue --pool spare',
      'let somebody also take machines of a pool for it',
    ],
  );
  const invite = withServer(
    operator
      .command('invite')
      .summary('make a new invitation, for a forgotten password')
      .description('Makes an invitation for a day. The password that is set counts until it is redeemed.')
      .argument('<name>', 'name of the operator'),
  ).action(async (name: string, options) =>
    finish(await (await import('./operators.ts')).invite(name, options, io)),
  );
  withExamples(invite, ['muster operator invite ada', 'let somebody set a new password']);
  const list = withServer(
    operator
      .command('ls')
      .summary('list accounts and their roles')
      .description('Lists accounts and their roles.')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (options) => finish(await (await import('./operators.ts')).list(options, io)));
  withExamples(list, ['muster operator ls', 'see who may log in']);
  const remove = withServer(
    operator
      .command('rm')
      .summary('remove an account, its sessions and tokens')
      .description('Removes an account. Its sessions and tokens end at once.')
      .argument('<name>', 'name of the operator'),
  ).action(async (name: string, options) =>
    finish(await (await import('./operators.ts')).remove(name, options, io)),
  );
  withExamples(remove, ['muster operator rm bob', 'end all access of an operator']);
  const sessions = operator
    .command('sessions')
    .summary('list and end sessions')
    .description('Lists and ends the sessions of operators who are logged in, also by an identity provider.');
  const listed = withServer(
    sessions
      .command('ls')
      .summary('list sessions')
      .description('Lists the sessions that have not ended, the one that was used last first.')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (options) => finish(await (await import('./operators.ts')).sessions(options, io)));
  withExamples(listed, ['muster operator sessions ls', 'see who is logged in']);
  const end = withServer(
    sessions
      .command('end')
      .summary('end a session')
      .description('Ends a session at once, with the streams of events that it follows.')
      .argument('<id>', 'id of the session, as `sessions ls` shows it'),
  ).action(async (id: string, options) =>
    finish(await (await import('./operators.ts')).endSession(id, options, io)),
  );
  withExamples(end, ['muster operator sessions end 3pQx0a81bc2d', 'log somebody out']);
};

const registerTokens: Register = (program, io, finish) => {
  const token = program
    .command('token')
    .summary('manage tokens for programs')
    .description('Manages tokens, with which programs act in the name of an operator.');
  const add = withServer(
    token
      .command('add')
      .summary('make a token; its text is printed once')
      .description(
        'Makes a token with some of the roles of its operator. Its text is printed once and not kept.',
      )
      .argument('<operator>', 'whose token it is')
      .requiredOption('--label <text>', 'what it is for')
      .addOption(roleOption().makeOptionMandatory())
      .addOption(clusterOption())
      .addOption(poolOption())
      .option('--expires <duration>', 'how long it counts, at most 366d', '30d'),
  ).action(async (name: string, options) =>
    finish(await (await import('./operators.ts')).addToken(name, options, io)),
  );
  withExamples(add, [
    'muster token add ada --label grafana --role viewer --expires 90d',
    'let a program read',
  ]);
  const list = withServer(
    token
      .command('ls')
      .summary('list tokens, without their texts')
      .description('Lists tokens: whose they are, what for, and until when.')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (options) => finish(await (await import('./operators.ts')).tokens(options, io)));
  withExamples(list, ['muster token ls', 'see which programs have tokens']);
  const remove = withServer(
    token
      .command('rm')
      .summary('end a token')
      .description('Ends a token at once.')
      .argument('<id>', 'its id'),
  ).action(async (id: string, options) =>
    finish(await (await import('./operators.ts')).removeToken(id, options, io)),
  );
  withExamples(remove, ['muster token rm 4f2c81a09b3d', 'end a token']);
};

const registerPending: Register = (program, io, finish) => {
  const pending = program
    .command('pending')
    .summary('confirm orders of other operators')
    .description(
      'Lists and confirms orders that wait for a second person, where the server has --require-second-person.',
    );
  const list = withServer(
    pending
      .command('ls')
      .summary('list orders that wait')
      .description('Lists orders that wait for a second person: who gave them, what, and until when.')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (options) => finish(await (await import('./operators.ts')).pending(options, io)));
  withExamples(list, ['muster pending ls', 'see what waits for you']);
  const confirm = withServer(
    pending
      .command('confirm')
      .summary('carry out an order of another operator')
      .description('Carries out an order that another operator gave. You need the same role.')
      .argument('<id>', 'its id'),
  ).action(async (id: string, options) =>
    finish(await (await import('./operators.ts')).confirm(id, options, io)),
  );
  withExamples(confirm, ['muster pending confirm 4f2c81a0', 'agree to an order']);
  const withdraw = withServer(
    pending
      .command('withdraw')
      .summary('forget an order that waits')
      .description('Forgets an order that waits, so that nobody can confirm it.')
      .argument('<id>', 'its id'),
  ).action(async (id: string, options) =>
    finish(await (await import('./operators.ts')).withdraw(id, options, io)),
  );
  withExamples(withdraw, ['muster pending withdraw 4f2c81a0', 'refuse an order']);
};
