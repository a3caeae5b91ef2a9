-- end ID NONCE REASON VERDICT RETENTION: ends a job that was doomed for this reason.
local id, nonce, reason = ARGV[1], ARGV[2], ARGV[3]
local j = load(id)
if not j or j.nonce ~= nonce then return 'gone' end
if j.state == 'ended' then return 'ended' end
if j.state ~= 'doomed' or j.doom ~= reason then return 'busy' end
finish(id, j, ARGV[4], reason, tonumber(ARGV[5]))
return 'ended'
