/**
 * Takes reports as the boot server does, prints each, and ends the systemd around it after the last
 * one (report-guest.sh). It takes the console as well, and does not print that: the units send it
 * after their reports, so it may come before systemd ends or not at all.
 */
import { execFile } from 'node:child_process';
import { createServer } from 'node:http';

createServer((request, response) => {
  let body = '';
  request.setEncoding('utf8').on('data', (part: string) => {
    body += part;
  });
  request.on('end', () => {
    if (request.url!.endsWith('/console')) {
      response.writeHead(204).end();
      return;
    }
    const said = new URLSearchParams(body);
    process.stdout.write(`report: ${request.url} ${said.get('step')} ${said.get('detail')}\n`);
    response.writeHead(204).end(() => {
      if (said.get('step') !== 'configured') execFile('systemctl', ['--force', 'exit', '0']);
    });
  });
}).listen(8080, '127.0.0.1');
