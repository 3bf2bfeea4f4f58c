// The bundle takes our package in; all others stay outside.
const nodeExternals = require('webpack-node-externals');

module.exports = (options) => ({
  ...options,
  externals: [nodeExternals({ allowlist: [/^nestjs-redis-lock/] })],
  // Short names of classes: nothing may depend on the long ones.
  optimization: { ...options.optimization, minimize: true },
});
