-- ask RUNNER NONCE TTL CHALLENGE: leaves a challenge for a runner; "full" when too many
-- wait for it.
local list = B .. 'asks:' .. ARGV[1]
if call('ZCARD', list) >= 64 then
  call('ZREMRANGEBYSCORE', list, '-inf', int(now))
  if call('ZCARD', list) >= 64 then return 'full' end
end
call('SET', B .. 'ask:' .. ARGV[2], ARGV[4], 'PX', ARGV[3])
call('ZADD', list, int(now + ARGV[3]), ARGV[2])
hold(list, now + ARGV[3])
call('PUBLISH', B .. 'ask', ARGV[1])
return 'ok'
