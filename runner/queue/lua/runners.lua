-- runners MAX: the health records of all runners that are alive.
local out = {}
for _, id in ipairs(call('ZRANGEBYSCORE', B .. 'runners', int(now), '+inf', 'LIMIT', 0, 1000)) do
  local key = B .. 'runner:' .. id
  if call('STRLEN', key) <= tonumber(ARGV[1]) then
    local raw = call('GET', key)
    if raw then
      out[#out + 1] = id
      out[#out + 1] = raw
    end
  end
end
return out
