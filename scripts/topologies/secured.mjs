import { generateKeyPair, randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import forge from 'node-forge';
import { freePorts, makeFolder, startRedisServer, withFreshPorts } from '../redis.mjs';
import { HOST, ask, orCleanUp, stopAll } from './servers.mjs';

const DAY_MS = 86_400_000;
const IP_ADDRESS = 7;
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
 * @property {SecuredConnection} connection For the user `locks`, who has the permissions of docs/security.md.
 * @property {SecuredConnection} admin For a user with all permissions.
 * @property {import('../redis.mjs').StartedRedis} server Its `url` and `port` are those without TLS, closed once it has started.
 * @property {() => Promise<void>} stop
 */

/**
 * Reads the permissions of the user `locks` from docs/security.md, as arguments of `ACL SETUSER`: the documented permissions are tested.
 * @returns {string[]}
 */
export function documentedRights() {
  const [, rule] = /^```acl\nuser \S+ on >\S+ (.+)\n```$/m.exec(readFileSync(DOCUMENT, 'utf8')) ?? [];
  if (!rule) throw new Error('docs/security.md has no block `acl` with one line `user … on >… permissions`.');
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
    await stopAll(started);
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

/**
 * Makes certificates of a test authority in this process, because not every machine has `openssl`. Resolves to `{ ca, server, client }`, each `{ cert, key }` in PEM; the server's is for the
 * loopback address.
 */
export async function makeCertificates() {
  const [authority, server, client] = await Promise.all([makeKeys(), makeKeys(), makeKeys()]);
  const ca = certify('test authority', authority, authority, [
    { name: 'basicConstraints', cA: true, critical: true },
    { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
  ]);
  const usedBy = (use) => ({ name: 'extKeyUsage', [use]: true });
  const forHost = { name: 'subjectAltName', altNames: [{ type: IP_ADDRESS, ip: HOST }] };
  return {
    ca,
    server: certify('test server', server, authority, [usedBy('serverAuth'), forHost]),
    client: certify('test client', client, authority, [usedBy('clientAuth')]),
  };
}

/** Makes a pair of PEM texts with Node, because forge takes seconds. */
function makeKeys() {
  return promisify(generateKeyPair)('rsa', {
    modulusLength: 2_048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
}

function certify(name, keys, authority, extensions) {
  const { pki, md } = forge;
  const certificate = pki.createCertificate();
  const named = (value) => [{ name: 'commonName', value }];
  certificate.publicKey = pki.publicKeyFromPem(keys.publicKey);
  // DER requires the shortest form of a positive number: a first byte of 01 is neither padding nor a sign.
  certificate.serialNumber = `01${randomBytes(15).toString('hex')}`;
  certificate.validity.notBefore = new Date(Date.now() - DAY_MS);
  certificate.validity.notAfter = new Date(Date.now() + DAY_MS);
  certificate.setSubject(named(name));
  certificate.setIssuer(named('test authority'));
  certificate.setExtensions(extensions);
  certificate.sign(pki.privateKeyFromPem(authority.privateKey), md.sha256.create());
  return { cert: pki.certificateToPem(certificate), key: keys.privateKey };
}
