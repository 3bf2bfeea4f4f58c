-- The scripts of lib/redis/scripts, which include fragments such as clock.lua and state.lua.
std = 'lua51'
globals = { 'redis', 'struct', 'KEYS', 'ARGV', 'Lock' }
read_globals = { 'micros' }
-- Locals that begin as nil, and shadowing.
ignore = { '311', '331', '4', '542', '6' }
files['**/state.lua'].ignore = { '241' }
files['**/clock.lua'].ignore = { '211' }
