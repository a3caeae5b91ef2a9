-- finish ID ATTEMPT RUNNER RESULT REASON RETENTION
local id, attempt, runner = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local j = load(id)
if not j then return 'gone' end
if j.attempt ~= attempt or j.runner ~= runner then return 'lost' end
if j.state == 'ended' then
  -- A repeated command, or a verdict came first.
  return call('HGET', jobkey(id), 'result') == ARGV[4] and 'ok' or 'lost'
end
if j.state ~= 'leased' then return 'lost' end
finish(id, j, ARGV[4], ARGV[5], tonumber(ARGV[6]))
return 'ok'
