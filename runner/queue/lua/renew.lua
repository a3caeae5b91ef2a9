-- renew RUNNER LEASE (ID ATTEMPT)…: "ok", "lost", or a request to cancel, for each.
local out = {}
for i = 3, #ARGV, 2 do
  local j = load(ARGV[i])
  if not j or j.state ~= 'leased' or j.attempt ~= tonumber(ARGV[i + 1]) or j.runner ~= ARGV[1] or now >= tonumber(j.end_by) then
    out[#out + 1] = 'lost'
  else
    call('ZADD', leasekey(j.class), int(now + ARGV[2]), ARGV[i])
    out[#out + 1] = j.cancel or 'ok'
  end
end
return out
