-- lookup ID MAXRESULT: state, attempt, runner, reason, nonce, result.
local j = load(ARGV[1], 'reason')
if not j then return {} end
local result = ''
if j.state == 'ended' and call('HSTRLEN', jobkey(ARGV[1]), 'result') <= tonumber(ARGV[2]) then
  result = call('HGET', jobkey(ARGV[1]), 'result') or ''
end
return {j.state, j.attempt, j.runner, j.extra or '', j.nonce, result}
