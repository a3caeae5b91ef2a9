-- KEYS[1] is the prefix of all keys of one queue; its hash tag puts them in one slot.
-- Scripts aren't rolled back: the first write of each is one that a full memory
-- or a replica refuses, so that a refused script has changed nothing.
local B = KEYS[1]
local call = redis.call
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local turn = t[1] * 1000000 + t[2] -- tenants take turns by when they were last served

-- Numbers above 2^31 in all digits, as keys' times need them.
local function int(n) return string.format('%.0f', n) end

local function jobkey(id) return B .. 'job:' .. id end
local function streamkey(j) return B .. 'jobs:' .. j.prio .. ':' .. j.class .. ':' .. j.tenant end
local function readykey(prio, class) return B .. 'ready:' .. prio .. ':' .. class end
local function waitkey(prio, class) return B .. 'wait:' .. prio .. ':' .. class end
local function leasekey(class) return B .. 'lease:' .. class end

-- hold keeps a shared key at least until a time; an hour more makes it rare.
local function hold(key, till)
  if call('PEXPIRETIME', key) < till then call('PEXPIREAT', key, int(till + 3600000)) end
end

local function tell(reply, ...)
  call('PUBLISH', 'quavon-sandbox:reply:' .. reply, table.concat({...}, '\n'))
end

-- A record is a hash of few fields, because each costs: meta never changes, at does.
local function meta(j)
  return table.concat({j.tenant, j.prio, j.class, j.entry, j.limit, j.end_by, j.fresh, j.nonce, j.reply}, ' ')
end
local function at(j) return table.concat({j.state, j.attempt, j.free, j.start_by, j.since, j.runner}, ' ') end

-- load reads a record, nil when there is none or when it isn't as we write it.
local function load(id, field)
  local v = call('HMGET', jobkey(id), 'meta', 'at', 'cancel', 'doom', field or 'doom')
  if not v[1] or not v[2] then return nil end
  local j = {cancel = v[3], doom = v[4], extra = v[5]}
  j.tenant, j.prio, j.class, j.entry, j.limit, j.end_by, j.fresh, j.nonce, j.reply =
    string.match(v[1], '^(%S+) (%S+) (%S+) (%S+) (%d+) (%d+) (%d+) (%x+) (%x+)$')
  j.state, j.attempt, j.free, j.start_by, j.since, j.runner = string.match(v[2], '^(%l+) (%d+) (%d+) (%d+) (%d+) (%S+)$')
  if not j.tenant or not j.state then return nil end
  j.attempt, j.free = tonumber(j.attempt), tonumber(j.free)
  return j
end

-- drop ends an entry's place in its stream, and an empty stream with its group. There
-- is nothing to acknowledge: groups hand out without a list of what is pending, since
-- the set of leases is that list, for all streams at once.
local function drop(stream, entry)
  call('XDEL', stream, entry)
  if call('XLEN', stream) == 0 then call('DEL', stream) end
end

-- finish stores what became of a job and only then removes its entry.
local function finish(id, j, result, reason, retention)
  local key, leased = jobkey(id), j.state == 'leased'
  j.state = 'ended'
  call('HSET', key, 'at', at(j), 'result', result, 'reason', reason)
  call('PEXPIREAT', key, int(math.max(now + retention, tonumber(j.fresh))))
  drop(streamkey(j), j.entry)
  call('ZREM', leasekey(j.class), id)
  if not leased then call('ZREM', waitkey(j.prio, j.class), id) end
  local sent = result
  if #sent > 65536 then sent = '' end
  tell(j.reply, id, 'done', j.attempt, j.runner, reason, sent)
end

-- doom takes a job from whoever had it. It then waits for a verdict by somebody who
-- holds a key.
local function doom(id, j, reason)
  j.state, j.runner = 'doomed', '-'
  call('HSET', jobkey(id), 'at', at(j), 'doom', reason)
end
