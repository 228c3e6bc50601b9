/** The operators' API over its socket. */
import { request } from 'node:http';

export function callApi(
  socketPath: string,
  method: string,
  path: string,
  body?: string | Buffer,
): Promise<{ readonly status: number; readonly text: string }> {
  return new Promise((done, fail) => {
    // A connection that is kept may lead to a boot host that was killed.
    const asking = request({ socketPath, path, method, timeout: 20_000, agent: false }, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (part) => (text += part));
      answer.on('end', () => done({ status: answer.statusCode!, text }));
      answer.on('error', fail);
    });
    asking.on('error', fail);
    asking.on('timeout', () => asking.destroy(new Error(`${path}: no answer`)));
    asking.end(body);
  });
}
