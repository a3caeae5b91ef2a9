-- asked RUNNER MAX: takes the challenges that wait for a runner.
local list, out = B .. 'asks:' .. ARGV[1], {}
for _, nonce in ipairs(call('ZRANGE', list, 0, 15)) do
  local key = B .. 'ask:' .. nonce
  if call('STRLEN', key) <= tonumber(ARGV[2]) then
    local raw = call('GET', key)
    if raw then out[#out + 1] = raw end
  end
  call('DEL', key)
  call('ZREM', list, nonce)
end
return out
