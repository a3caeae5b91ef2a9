-- health RUNNER TTL RECORD: publishes a runner's record, or removes it when empty.
local key = B .. 'runner:' .. ARGV[1]
if ARGV[3] == '' then
  call('DEL', key)
  call('ZREM', B .. 'runners', ARGV[1])
  return 'ok'
end
call('SET', key, ARGV[3], 'PX', ARGV[2])
call('ZADD', B .. 'runners', int(now + ARGV[2]), ARGV[1])
hold(B .. 'runners', now + ARGV[2])
return 'ok'
