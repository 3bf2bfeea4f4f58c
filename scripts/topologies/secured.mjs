import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePorts, makeFolder, startRedisServer } from '../redis.mjs';
import { makeCertificates } from './certificates.mjs';
import { HOST, ask, orCleanUp, withFreshPorts } from './servers.mjs';

const DOCUMENT = new URL('../../docs/security.md', import.meta.url);

/**
 * Options of ioredis; certificates and key are PEM texts.
 * @typedef {import('./servers.mjs').Address & {
 *   username: string,
 *   password: string,
 *   tls: { ca: string, cert: string, key: string },
 * }} SecuredConnection
 */

/**
 * @typedef {object} StartedSecured
 * @property {SecuredConnection} connection For the user `locks`, who has the rights of docs/security.md.
 * @property {SecuredConnection} admin For a user who may do everything.
 * @property {import('../redis.mjs').StartedRedis} server Its `url` and `port` are those without TLS, closed once it has started.
 * @property {() => Promise<void>} stop
 */

/**
 * Reads the rights of the user `locks` from docs/security.md, as arguments of `ACL SETUSER`: the documented rights are tested.
 * @returns {string[]}
 */
export function documentedRights() {
  const [, rule] = /^```acl\nuser \S+ on >\S+ (.+)\n```$/m.exec(readFileSync(DOCUMENT, 'utf8')) ?? [];
  if (!rule) throw new Error('docs/security.md has no block `acl` with one line `user … on >… rights`.');
  return rule.split(' ');
}

/**
 * Starts a server that accepts only TLS with a client certificate, and whose `default` user is off.
 * @returns {Promise<StartedSecured>}
 */
export async function startSecured() {
  const folder = makeFolder();
  const started = [];
  const stop = async () => {
    await Promise.all(started.map((server) => server.stop()));
    folder.remove();
  };
  return orCleanUp(stop, async () => {
    const { ca, server: serverPair, client } = await makeCertificates();
    const passwords = { locks: randomBytes(16).toString('hex'), admin: randomBytes(16).toString('hex') };
    const files = writeFiles(folder.path, { ca: ca.cert, ...serverPair }, passwords);
    const { server, port } = await withFreshPorts(() => launch(files));
    started.push(server);
    const tls = { ca: ca.cert, cert: client.cert, key: client.key };
    const connect = (username) => ({ host: HOST, port, username, password: passwords[username], tls });
    const admin = connect('admin');
    // The port without TLS was only for `startRedisServer`, which checks whether the server is ready.
    await ask(server, (one) => one.config('SET', 'port', 0), admin);
    return { connection: connect('locks'), admin, server, stop };
  });
}

function writeFiles(folder, { ca, cert, key }, passwords) {
  const write = (name, text) => {
    const path = join(folder, name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  };
  const users = [
    'user default off',
    `user admin on >${passwords.admin} ~* &* +@all`,
    `user locks on >${passwords.locks} ${documentedRights().join(' ')}`,
  ];
  const lines = [
    `tls-ca-cert-file ${write('ca.pem', ca)}`,
    `tls-cert-file ${write('server.pem', cert)}`,
    `tls-key-file ${write('server-key.pem', key)}`,
    'tls-auth-clients yes',
    ...users,
  ];
  return write('redis.conf', `${lines.join('\n')}\n`);
}

async function launch(file) {
  const [port, plainPort] = await freePorts(2);
  const server = await startRedisServer({ port: plainPort, args: [file, '--tls-port', String(port)] });
  return { server, port };
}
