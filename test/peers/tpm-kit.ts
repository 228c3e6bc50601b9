/** TPMs by swtpm, made by swtpm_setup as a vendor makes them, and tpm2-tools on them. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

/** A directory with a vendor's CA and its TPMs, which `close` removes. */
export class TpmVendor {
  readonly directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-tpm-'));
  readonly #tpms: Tpm[] = [];

  constructor() {
    const ca = path.join(this.directory, 'ca');
    fs.mkdirSync(ca);
    const lines = [
      `statedir = ${ca}`,
      `signingkey = ${ca}/key.pem`,
      `issuercert = ${ca}/issuer.pem`,
      `certserial = ${ca}/serial`,
    ];
    fs.writeFileSync(path.join(this.directory, 'ca.conf'), `${lines.join('\n')}\n`);
    const setup = [
      'create_certs_tool = /usr/bin/swtpm_localca',
      `create_certs_tool_config = ${this.directory}/ca.conf`,
      'create_certs_tool_options = /etc/swtpm-localca.options',
    ];
    fs.writeFileSync(path.join(this.directory, 'setup.conf'), `${setup.join('\n')}\n`);
  }

  /** The CA that signed the certificates of its endorsement keys, PEM. */
  get authority(): string {
    return fs.readFileSync(path.join(this.directory, 'ca/issuer.pem'), 'latin1');
  }

  /** Makes a TPM and starts it. */
  async make(name: string, { certified = true } = {}): Promise<Tpm> {
    const state = path.join(this.directory, name);
    fs.mkdirSync(state);
    const certificate = certified ? ['--create-ek-cert'] : ['--createek'];
    const config = ['--config', path.join(this.directory, 'setup.conf')];
    execFileSync('swtpm_setup', ['--tpm2', '--tpm-state', state, ...certificate, ...config], {
      stdio: 'pipe',
    });
    const tpm = new Tpm(state);
    this.#tpms.push(tpm);
    await tpm.start();
    return tpm;
  }

  close(): void {
    for (const tpm of this.#tpms) tpm.stop();
    fs.rmSync(this.directory, { recursive: true, force: true });
  }
}

export class Tpm {
  /** Its state and its socket. */
  readonly directory: string;
  #process: ChildProcess | undefined;

  constructor(directory: string) {
    this.directory = directory;
  }

  /** What TPM2TOOLS_TCTI has to be. */
  get tcti(): string {
    return `swtpm:path=${this.directory}/socket`;
  }

  async start(): Promise<void> {
    const socket = path.join(this.directory, 'socket');
    const words = [
      'socket',
      '--tpm2',
      '--tpmstate',
      `dir=${this.directory}`,
      '--flags',
      'not-need-init,startup-clear',
    ];
    const listen = ['--server', `type=unixio,path=${socket}`, '--ctrl', `type=unixio,path=${socket}.ctrl`];
    this.#process = spawn('swtpm', [...words, ...listen], { stdio: 'ignore' });
    while (!fs.existsSync(`${socket}.ctrl`)) {
      if (this.#process.exitCode !== null) throw new Error('swtpm ended');
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  stop(): void {
    this.#process?.kill();
    this.#process = undefined;
  }

  /** Switches it off and on again, as a machine's power cycle does. */
  async restart(): Promise<void> {
    const ended = this.#process && once(this.#process, 'exit');
    this.stop();
    await ended;
    for (const name of ['socket', 'socket.ctrl']) fs.rmSync(path.join(this.directory, name), { force: true });
    await this.start();
  }

  file(name: string): string {
    return path.join(this.directory, name);
  }

  read(name: string): Buffer {
    return fs.readFileSync(this.file(name));
  }

  /** Runs one of tpm2-tools in the TPM's directory, and then frees the TPM's memory. */
  tool(command: string, ...words: readonly string[]): Buffer {
    const env = { ...process.env, TPM2TOOLS_TCTI: this.tcti };
    const run = (program: string, args: readonly string[]) =>
      execFileSync(program, args, { cwd: this.directory, env, stdio: 'pipe' });
    const output = run(command, words);
    run('tpm2_flushcontext', ['-t']);
    return output;
  }

  /** Makes endorsement key `ALGORITHM.ek` and attestation key `ALGORITHM.ak` (TPM2B_PUBLIC). */
  keys(algorithm: 'rsa' | 'ecc'): { readonly ek: Buffer; readonly ak: Buffer; readonly name: Buffer } {
    const at = (suffix: string): string => `${algorithm}.${suffix}`;
    this.tool('tpm2_createek', '-G', algorithm, '-c', at('ek.ctx'), '-u', at('ek'));
    const ak = [
      '-G',
      'ecc',
      '-g',
      'sha256',
      '-s',
      'ecdsa',
      '-c',
      at('ak.ctx'),
      '-u',
      at('ak'),
      '-n',
      at('name'),
    ];
    this.tool('tpm2_createak', '-C', at('ek.ctx'), ...ak);
    return { ek: this.read(at('ek')), ak: this.read(at('ak')), name: this.read(at('name')) };
  }

  /** TPM2_ActivateCredential with the keys that {@link keys} made. Throws if the TPM refuses. */
  activate(algorithm: 'rsa' | 'ecc', credential: Buffer, ak = `${algorithm}.ak.ctx`): Buffer {
    fs.writeFileSync(this.file('credential'), credential);
    fs.rmSync(this.file('secret'), { force: true });
    this.tool('tpm2_startauthsession', '--policy-session', '-S', 'session');
    try {
      this.tool('tpm2_policysecret', '-S', 'session', '-c', 'e');
      const keys = ['-c', ak, '-C', `${algorithm}.ek.ctx`, '-P', 'session:session'];
      this.tool('tpm2_activatecredential', ...keys, '-i', 'credential', '-o', 'secret');
    } finally {
      this.tool('tpm2_flushcontext', 'session');
    }
    return this.read('secret');
  }
}
