-- release ID ATTEMPT RUNNER FREE: hands a job back. FREE is 1 when nothing of it
-- has run, so that the attempt doesn't count.
local id = ARGV[1]
local j = load(id)
if not j or j.state ~= 'leased' or j.attempt ~= tonumber(ARGV[2]) or j.runner ~= ARGV[3] then return 'lost' end
call('HSET', jobkey(id), 'state', 'queued', 'runner', '', 'free', j.free + ARGV[4], 'start_by', j.end_by)
call('ZADD', leasekey(j.class), 0, id)
call('ZREM', B .. 'running', id)
call('ZADD', B .. 'wait:' .. j.prio, j.end_by, id)
hold(B .. 'wait:' .. j.prio, j.end_by)
call('PUBLISH', B .. 'wake', j.class)
return 'ok'
