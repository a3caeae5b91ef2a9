-- KEYS[1] is the prefix of all keys of one queue; its hash tag puts them in one slot.
-- Scripts aren't rolled back: the first write of each is one that a full memory
-- or a replica refuses, so that a refused script has changed nothing.
local B = KEYS[1]
local call = redis.call
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local turn = t[1] * 1000000 + t[2] -- tenants take turns by when they were last served

local function jobkey(id) return B .. 'job:' .. id end
local function streamkey(prio, class, tenant) return B .. 'jobs:' .. prio .. ':' .. class .. ':' .. tenant end
local function readykey(prio, class) return B .. 'ready:' .. prio .. ':' .. class end
local function leasekey(class) return B .. 'lease:' .. class end

-- hold keeps a shared key at least until a time; an hour more makes it rare.
local function hold(key, till)
  if call('PEXPIRETIME', key) < till then call('PEXPIREAT', key, till + 3600000) end
end

-- drop ends a job's place in its stream, and an empty stream with its group.
local function drop(stream, entry)
  redis.pcall('XACK', stream, 'runners', entry)
  call('XDEL', stream, entry)
  if call('XLEN', stream) == 0 then call('DEL', stream) end
end

local function tell(reply, ...)
  if reply and reply ~= '' then call('PUBLISH', 'quavon-sandbox:reply:' .. reply, table.concat({...}, '\n')) end
end

-- finish stores what became of a job and only then acknowledges it.
local function finish(id, j, result, reason, retention)
  local key = jobkey(id)
  call('HSET', key, 'state', 'ended', 'result', result, 'reason', reason, 'ended', now)
  call('HDEL', key, 'raw', 'cancel')
  call('PEXPIREAT', key, math.max(now + retention, tonumber(j.fresh)))
  drop(streamkey(j.prio, j.class, j.tenant), j.entry)
  call('ZREM', B .. 'wait:' .. j.prio, id)
  call('ZREM', B .. 'running', id)
  call('ZREM', leasekey(j.class), id)
  local sent = result
  if #sent > 65536 then sent = '' end
  tell(j.reply, id, 'done', j.attempt, j.runner, reason, sent)
end

-- doom takes a job from whoever had it. It then waits for a verdict by somebody who
-- holds a key.
local function doom(id, j, reason)
  call('HSET', jobkey(id), 'state', 'doomed', 'doom', reason, 'runner', '')
end

local function load(id)
  local v = call('HMGET', jobkey(id), 'state', 'attempt', 'runner', 'tenant', 'prio', 'class', 'entry', 'reply',
    'fresh', 'free', 'limit', 'start_by', 'end_by', 'cancel', 'nonce', 'doom')
  if not v[1] then return nil end
  return {state = v[1], attempt = tonumber(v[2]), runner = v[3], tenant = v[4], prio = v[5], class = v[6], entry = v[7],
    reply = v[8], fresh = v[9], free = tonumber(v[10]), limit = tonumber(v[11]), start_by = tonumber(v[12]),
    end_by = tonumber(v[13]), cancel = v[14], nonce = v[15], doom = v[16]}
end
