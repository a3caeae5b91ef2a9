-- sweep: finds jobs whose time is over, {id, reason, nonce} each.
local out = {}
local function over(set, reason)
  for _, id in ipairs(call('ZRANGEBYSCORE', set, '-inf', now, 'LIMIT', 0, 64)) do
    local j = load(id)
    if not j or j.state == 'ended' then
      call('ZREM', set, id)
    else
      local why = j.doom or (j.cancel and 'cancelled') or (j.attempt > j.free and 'outcome_unknown') or reason
      doom(id, j, why)
      out[#out + 1] = {id, why, j.nonce}
    end
  end
end
over(B .. 'wait:i', 'expired')
over(B .. 'wait:b', 'expired')
over(B .. 'running', 'expired')
call('ZREMRANGEBYSCORE', B .. 'runners', '-inf', now)
return out
