-- submit ID NONCE RAW TENANT PRIO CLASS LIMIT START_IN END_IN RETENTION REPLY CAP
local id, nonce, raw, tenant, prio, class = unpack(ARGV, 1, 6)
local start_by, end_by = now + ARGV[8], now + ARGV[9]
local retention, reply, cap = tonumber(ARGV[10]), ARGV[11], tonumber(ARGV[12])
local old = call('HGET', jobkey(id), 'nonce')
if old == nonce then return 'ok' end -- the same again: a repeated command
if old then return 'exists' end
if start_by <= now then return 'expired' end
local stream = streamkey(prio, class, tenant)
local len = call('XLEN', stream)
if len >= cap then return 'full' end
local entry = call('XADD', stream, '*', 'job', id)
if len == 0 then redis.pcall('XGROUP', 'CREATE', stream, 'runners', '0') end
call('HSET', jobkey(id), 'state', 'queued', 'nonce', nonce, 'raw', raw, 'tenant', tenant, 'prio', prio, 'class', class,
  'limit', ARGV[7], 'start_by', start_by, 'end_by', end_by, 'fresh', start_by + 600000, 'reply', reply, 'entry', entry,
  'attempt', 0, 'free', 0, 'runner', '', 'queued', now)
local till = end_by + retention
call('PEXPIREAT', jobkey(id), till)
hold(stream, till)
call('ZADD', B .. 'wait:' .. prio, start_by, id)
hold(B .. 'wait:' .. prio, till)
local ready = readykey(prio, class)
call('ZADD', ready, 'NX', turn, tenant) -- behind the tenants that wait already
hold(ready, till)
call('PUBLISH', B .. 'wake', class)
return 'ok'
