-- sweep: finds jobs whose time is over, {id, reason, nonce} each.
local out = {}
local function over(set, lapsed)
  for _, id in ipairs(call('ZRANGEBYSCORE', set, '-inf', int(now), 'LIMIT', 0, 256)) do
    local j = load(id)
    if not j or j.state == 'ended' then
      call('ZREM', set, id)
    elseif not lapsed or now >= tonumber(j.end_by) or j.state == 'doomed' then -- else a runner may still take it
      local why = j.doom or j.cancel and 'cancelled' or j.attempt > j.free and 'outcome_unknown' or 'expired'
      doom(id, j, why)
      out[#out + 1] = {id, why, j.nonce}
    end
  end
end
for _, class in ipairs(call('ZRANGE', B .. 'classes', 0, 999)) do
  over(waitkey('i', class), false)
  over(waitkey('b', class), false)
  over(leasekey(class), true)
end
call('ZREMRANGEBYSCORE', B .. 'runners', '-inf', int(now))
return out
