-- append TTL INDEX FRAME CHANNEL MESSAGE; KEYS[1] is the stream of one attempt's
-- output. The entry's id is the frame's index, so that a repeated command adds nothing.
local key, id = KEYS[1], (ARGV[2] + 1) .. '-0'
if redis.call('XLEN', key) > tonumber(ARGV[2]) then return 'ok' end
redis.call('XADD', key, id, 'f', ARGV[3])
if ARGV[2] == '0' then redis.call('PEXPIRE', key, ARGV[1]) end
if ARGV[4] ~= '' then redis.call('PUBLISH', ARGV[4], ARGV[5]) end
return 'ok'
