-- stats: waiting interactive and batch jobs, running jobs, then the running jobs' ids.
local out = {call('ZCARD', B .. 'wait:i'), call('ZCARD', B .. 'wait:b'), call('ZCARD', B .. 'running')}
for _, id in ipairs(call('ZRANGE', B .. 'running', 0, 999)) do
  local v = call('HMGET', jobkey(id), 'attempt', 'runner', 'tenant', 'prio', 'class', 'claimed')
  if v[1] then
    out[#out + 1] = {id, v[1], v[2] or '', v[3] or '', v[4] or '', v[5] or '', v[6] or '0'}
  end
end
return out
