-- stats: waiting interactive and batch jobs, running jobs, then up to 1000 running ones.
local waits, running, jobs = {i = 0, b = 0}, 0, {}
for _, class in ipairs(call('ZRANGE', B .. 'classes', 0, 999)) do
  waits.i = waits.i + call('ZCARD', waitkey('i', class))
  waits.b = waits.b + call('ZCARD', waitkey('b', class))
  running = running + call('ZCARD', leasekey(class))
  for _, id in ipairs(call('ZRANGE', leasekey(class), 0, 999 - #jobs)) do
    local j = load(id)
    if j and j.state == 'queued' then
      running = running - 1 -- handed back: it waits
    elseif j and #jobs < 1000 then
      jobs[#jobs + 1] = {id, j.attempt, j.runner, j.tenant, j.prio, j.class, j.since}
    end
  end
end
return {waits.i, waits.b, running, unpack(jobs)}
