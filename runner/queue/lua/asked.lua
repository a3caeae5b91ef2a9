-- asked RUNNER MAX NONCE…: drops the challenges that a runner has heard, by their nonces, and
-- shows those that wait for it: each one's nonce and bytes. They stay until the next call
-- drops them, so that none is lost with a reply.
local list, out = B .. 'asks:' .. ARGV[1], {}
local function forget(nonce)
  call('DEL', B .. 'ask:' .. nonce)
  call('ZREM', list, nonce)
end
for i = 3, #ARGV do forget(ARGV[i]) end
for _, nonce in ipairs(call('ZRANGE', list, 0, 15)) do
  local n = call('STRLEN', B .. 'ask:' .. nonce)
  if n == 0 or n > tonumber(ARGV[2]) or #nonce > 64 then
    forget(nonce)
  else
    out[#out + 1] = {nonce, call('GET', B .. 'ask:' .. nonce)}
  end
end
return out
