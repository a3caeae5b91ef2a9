-- lookup ID MAXRESULT: state, attempt, runner, reason, nonce, reply, result.
local v = call('HMGET', jobkey(ARGV[1]), 'state', 'attempt', 'runner', 'reason', 'nonce', 'reply')
if not v[1] then return {} end
local result = ''
if call('HSTRLEN', jobkey(ARGV[1]), 'result') <= tonumber(ARGV[2]) then
  result = call('HGET', jobkey(ARGV[1]), 'result') or ''
end
return {v[1], v[2] or '', v[3] or '', v[4] or '', v[5] or '', v[6] or '', result}
