-- A fixed window whose refusals change nothing: the counter is read before it is raised.
-- KEYS[1] the counter; ARGV: limit, window in ms. Answers {allowed, remaining, ms until the window ends}.
local used = tonumber(redis.call('GET', KEYS[1]) or '0')
local limit = tonumber(ARGV[1])
if used >= limit then
  return {0, 0, redis.call('PTTL', KEYS[1])}
end
if used == 0 then
  redis.call('SET', KEYS[1], '1', 'PX', ARGV[2])
else
  redis.call('INCR', KEYS[1])
end
return {1, limit - used - 1, redis.call('PTTL', KEYS[1])}
