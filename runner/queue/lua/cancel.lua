-- cancel ID NONCE REQUEST VERDICT RETENTION: ends a job that nobody runs, and asks
-- the runner of one that somebody runs.
local id = ARGV[1]
local j = load(id)
if not j or j.nonce ~= ARGV[2] then return 'gone' end
if j.state == 'ended' or j.state == 'doomed' then return 'ended' end
if j.state == 'queued' then
  finish(id, j, ARGV[4], 'cancelled', tonumber(ARGV[5]))
  return 'ended'
end
call('HSET', jobkey(id), 'cancel', ARGV[3])
call('PUBLISH', B .. 'control', id .. '\n' .. j.attempt .. '\n' .. ARGV[3])
return 'told'
