-- submit ID NONCE RAW TENANT PRIO CLASS LIMIT START_IN END_IN RETENTION REPLY CAP
local id, nonce = ARGV[1], ARGV[2]
local old = load(id)
if old then return old.nonce == nonce and 'ok' or 'exists' end -- ok: a repeated command
local start_by, end_by = now + ARGV[8], now + ARGV[9]
if start_by <= now then return 'expired' end
local j = {tenant = ARGV[4], prio = ARGV[5], class = ARGV[6], limit = ARGV[7], end_by = int(end_by),
  fresh = int(start_by + 600000), nonce = nonce, reply = ARGV[11],
  state = 'queued', attempt = 0, free = 0, start_by = int(start_by), since = int(now), runner = '-'}
local stream = streamkey(j)
local len = call('XLEN', stream)
if len >= tonumber(ARGV[12]) then return 'full' end
local till = end_by + ARGV[10]
j.entry = call('XADD', stream, '*', 'job', id, 'raw', ARGV[3])
if len == 0 then
  redis.pcall('XGROUP', 'CREATE', stream, 'runners', '0')
  call('ZADD', B .. 'classes', int(now), j.class)
  hold(B .. 'classes', till)
end
call('HSET', jobkey(id), 'meta', meta(j), 'at', at(j))
call('PEXPIREAT', jobkey(id), int(till))
hold(stream, till)
local wait, ready = waitkey(j.prio, j.class), readykey(j.prio, j.class)
call('ZADD', wait, j.start_by, id)
hold(wait, till)
-- Behind the tenants that wait already; a new member may have made the key anew.
if call('ZADD', ready, 'NX', int(turn), j.tenant) == 1 then hold(ready, till) end
-- Workers that found nothing left word that they wait.
if call('DEL', B .. 'idle:' .. j.class) == 1 then call('PUBLISH', B .. 'wake', j.class) end
return 'ok'
