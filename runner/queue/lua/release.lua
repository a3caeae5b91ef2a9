-- release ID ATTEMPT RUNNER FREE: hands a job back. FREE is 1 when nothing of it
-- has run, so that the attempt doesn't count.
local id = ARGV[1]
local j = load(id)
if not j or j.state ~= 'leased' or j.attempt ~= tonumber(ARGV[2]) or j.runner ~= ARGV[3] then return 'lost' end
j.state, j.runner, j.free, j.start_by = 'queued', '-', j.free + ARGV[4], j.end_by
call('HSET', jobkey(id), 'at', at(j))
call('ZADD', leasekey(j.class), 0, id)
local wait = waitkey(j.prio, j.class)
call('ZADD', wait, j.end_by, id)
hold(wait, tonumber(j.end_by))
call('PUBLISH', B .. 'wake', j.class)
return 'ok'
