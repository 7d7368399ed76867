-- A sliding log: one member per admitted call, the clock read inside the script.
-- KEYS[1] the log; ARGV: limit, window in ms, a member that no other call uses.
-- Answers {allowed, remaining, ms to wait}.
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
local used = redis.call('ZCARD', KEYS[1])
if used < limit then
  redis.call('ZADD', KEYS[1], now, ARGV[3])
  redis.call('PEXPIRE', KEYS[1], window * 2)
  return {1, limit - used - 1, 0}
end
local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
local wait = window
if oldest[2] then
  wait = math.max(0, tonumber(oldest[2]) + window - now)
end
return {0, 0, math.floor(wait)}
