-- A fixed window that opens with its first call.
-- KEYS[1] the counter; ARGV: limit, window in ms. Answers {allowed, remaining, ms until the window ends}.
-- Every call is counted, refused ones too, so that one INCR is enough.
local used = redis.call('INCR', KEYS[1])
if used == 1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
local left = tonumber(ARGV[1]) - used
local ends = redis.call('PTTL', KEYS[1])
if left < 0 then
  return {0, 0, ends}
end
return {1, left, ends}
