export { tearDown as default } from './topology-setup.mjs';
