-- claim RUNNER N LEASE TOKEN TRY MAXRAW CLASS…
-- Returns claimed jobs, {id, raw, attempt, nonce, cancel, reply}, then jobs that only
-- wait for a verdict, {id, reason, nonce}.
local runner, n, lease, token = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local maxraw = tonumber(ARGV[6])
local claimed, dead, handed = {}, {}, {}
local last = B .. 'claim:' .. runner

local function deliver(id, j, raw)
  claimed[#claimed + 1] = {id, raw or '', j.attempt, j.nonce, j.cancel or '', j.reply}
  handed[#handed + 1] = id .. ' ' .. j.attempt
end

-- rawof reads a sealed job again.
local function rawof(j)
  local e = call('XRANGE', streamkey(j), j.entry, j.entry)[1]
  return e and e[2][4]
end

-- The try before may have claimed jobs whose names were lost on the way.
if ARGV[5] ~= '0' then
  local was = call('GET', last)
  if was and string.sub(was, 1, #token) == token then
    for id, attempt in string.gmatch(string.sub(was, #token + 1), '(%S+) (%d+)') do
      local j = load(id)
      if j and j.state == 'leased' and j.runner == runner and j.attempt == tonumber(attempt) then
        deliver(id, j, rawof(j))
      end
    end
    return {claimed, dead}
  end
end

local function condemn(id, j, reason)
  doom(id, j, reason)
  dead[#dead + 1] = {id, reason, j.nonce}
end

-- take leases a job to the runner as its next attempt.
local function take(id, j)
  j.state, j.attempt, j.since, j.runner = 'leased', j.attempt + 1, int(now), runner
  call('HSET', jobkey(id), 'at', at(j))
  local leases = leasekey(j.class)
  call('ZREM', waitkey(j.prio, j.class), id)
  call('ZADD', leases, int(now + lease), id)
  hold(leases, tonumber(j.end_by) + lease)
end

-- A lease that has lapsed, or was handed back, is taken first: it has waited longest.
local function lapsed(class)
  local leases = leasekey(class)
  while #claimed < n and #dead < 64 do
    local id = call('ZRANGEBYSCORE', leases, '-inf', int(now), 'LIMIT', 0, 1)[1]
    if not id then return end
    local j = load(id)
    if not j or j.state == 'ended' then
      call('ZREM', leases, id)
    elseif j.doom or j.cancel or now >= tonumber(j.end_by) or j.attempt - j.free >= tonumber(j.limit) then
      condemn(id, j, j.doom or j.cancel and 'cancelled' or 'outcome_unknown')
      call('ZADD', leases, int(now + lease), id) -- time to give the verdict
    else
      take(id, j)
      deliver(id, j, rawof(j))
    end
  end
end

-- next_turn picks the class and tenant whose turn it is, and says whether there is
-- no other.
local function next_turn(prio)
  local best, class, tenant
  local seen = 0
  for i = 7, #ARGV do
    local r = call('ZRANGE', readykey(prio, ARGV[i]), 0, 1, 'WITHSCORES')
    seen = seen + #r / 2
    if r[1] and (not best or tonumber(r[2]) < best) then best, class, tenant = tonumber(r[2]), ARGV[i], r[1] end
  end
  return class, tenant, seen == 1
end

-- deal looks at an entry that was read from a stream.
local function deal(stream, entry, id, raw)
  local j = load(id)
  if not j or j.state ~= 'queued' or j.entry ~= entry then
    drop(stream, entry) -- nobody's: a stranger's entry, or its job is gone
  elseif now >= tonumber(j.start_by) then
    condemn(id, j, 'expired')
  elseif #raw > maxraw then
    condemn(id, j, 'rejected')
  else
    take(id, j)
    deliver(id, j, raw)
  end
end

local function fresh(prio)
  while #claimed < n and #dead < 64 do
    local class, tenant, alone = next_turn(prio)
    if not class then return end
    local stream, ready = streamkey({prio = prio, class = class, tenant = tenant}), readykey(prio, class)
    turn = turn + 1
    call('ZADD', ready, int(turn), tenant) -- before reading, which a full memory doesn't refuse
    local count = alone and n - #claimed or 1
    local got = redis.pcall('XREADGROUP', 'GROUP', 'runners', runner, 'COUNT', count, 'NOACK', 'STREAMS', stream, '>')
    if got and got.err and string.sub(got.err, 1, 7) ~= 'NOGROUP' then return got end
    if got and not got.err then
      for _, e in ipairs(got[1][2]) do deal(stream, e[1], e[2][2] or '', e[2][4] or '') end
    else
      call('ZREM', ready, tenant)
    end
  end
end

for i = 7, #ARGV do lapsed(ARGV[i]) end
local err = fresh('i') or fresh('b')
if err and #claimed == 0 then return err end
if #claimed == 0 then
  for i = 7, #ARGV do call('SET', B .. 'idle:' .. ARGV[i], '1', 'PX', 10000) end
end
if #handed > 0 then call('SET', last, token .. table.concat(handed, ' '), 'PX', lease) end
return {claimed, dead}
