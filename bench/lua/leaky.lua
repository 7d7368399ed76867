-- A leaky bucket that polices: what would overflow is refused. The clock is read inside the script.
-- KEYS[1] the bucket; ARGV: capacity, units drained per ms, cost. Answers {allowed, level, now in ms}.
-- The bucket is written on every call, as is usual: the drained level is stored even when the call is refused.
local capacity, per_ms, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local bucket = redis.call('HMGET', KEYS[1], 'level', 'ts')
local level = tonumber(bucket[1]) or 0
local since = tonumber(bucket[2]) or now
level = math.max(0, level - math.max(0, now - since) * per_ms)
local allowed = 0
if level + cost <= capacity then
  level = level + cost
  allowed = 1
end
redis.call('HSET', KEYS[1], 'level', level, 'ts', now)
redis.call('PEXPIRE', KEYS[1], math.ceil(capacity / per_ms * 2))
return {allowed, tostring(level), now}
