import { arg, lua } from '../lua.js';
import { scriptPart } from './script-part.js';

/** What is published to waiters and holders, and whether somebody listens. */
export const MESSAGES = scriptPart(
  { name: 'messages', needs: [], defines: 'counted' },
  lua`
local function process_of(attempt)
  return string.match(attempt, '^[^.]*')
end

-- How many listen for a process at this server; nil when that cannot be known: a cluster, of which one node is listened to.
-- False without the right to ask.
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

-- How many heard it; false without the right to publish: then nobody did.
local function tell(attempt, message)
  local heard = redis.pcall('PUBLISH', ${arg('channelPrefix')} .. process_of(attempt), message)
  return type(heard) == 'number' and heard
end

-- Tells a waiter to come and ask; false when nobody listens.
local function wake(waiter)
  local heard = tell(waiter.attempt, 'wake ' .. waiter.attempt)
  return heard ~= 0 or ${arg('countReceivers')} ~= '1'
end
`,
);
