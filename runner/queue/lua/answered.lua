-- answered NONCE MAX: the answer to a challenge: what it is, and its bytes.
local key = B .. 'answer:' .. ARGV[1]
local n = call('STRLEN', key)
if n == 0 then return {'none', ''} end
if n > tonumber(ARGV[2]) then return {'large', ''} end
return {'here', call('GET', key)}
