-- answer NONCE TTL ANSWER: leaves the answer to a challenge.
call('SET', B .. 'answer:' .. ARGV[1], ARGV[3], 'PX', ARGV[2])
return 'ok'
