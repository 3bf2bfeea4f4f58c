import { arg, lua } from '../lua.js';
import { scriptPart } from './script-part.js';

/** Publishes messages to waiters and holders, and counts their listeners. */
export const MESSAGES = scriptPart(
  { name: 'messages', needs: [], defines: 'counted' },
  lua`
local function process_of(attempt)
  return string.match(attempt, '^[^.]*')
end

-- Returns how many subscribers a process has at this server: nil when that cannot be known, because in a cluster a process
-- listens to one node only; false without the right to ask.
local counted = {}
local function listeners(attempt)
  if ${arg('countReceivers')} ~= '1' then return nil end
  local process = process_of(attempt)
  if counted[process] == nil then
    local reply = redis.pcall('PUBSUB', 'NUMSUB', ${arg('channelPrefix')} .. process)
    counted[process] = not reply.err and tonumber(reply[2])
  end
  return counted[process]
end

-- Publishes a message; returns how many received it, or false without the right to publish.
local function tell(attempt, message)
  local heard = redis.pcall('PUBLISH', ${arg('channelPrefix')} .. process_of(attempt), message)
  return type(heard) == 'number' and heard
end

-- Tells a waiter to send its request; false when nobody listens.
local function wake(waiter)
  local heard = tell(waiter.attempt, 'wake ' .. waiter.attempt)
  return heard ~= 0 or ${arg('countReceivers')} ~= '1'
end
`,
);
