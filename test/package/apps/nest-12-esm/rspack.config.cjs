// The bundle takes our package in; all others stay outside.
const nodeExternals = require('webpack-node-externals');

module.exports = (options) => ({
  ...options,
  externals: [
    nodeExternals({ importType: 'module', allowlist: [/^nestjs-redis-lock/] }),
    ...options.externals.slice(1),
  ],
  // Short names of classes: nothing may depend on the long ones.
  optimization: { ...options.optimization, minimize: true },
});
