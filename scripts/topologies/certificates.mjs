// Makes certificates of a test authority in this process, because not every machine has `openssl`.
import { generateKeyPair, randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import forge from 'node-forge';
import { HOST } from './servers.mjs';

const DAY_MS = 86_400_000;
const IP_ADDRESS = 7;

/** Resolves to `{ ca, server, client }`, each `{ cert, key }` in PEM; the server's is for the loopback address. */
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
