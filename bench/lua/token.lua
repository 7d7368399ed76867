-- A token bucket that starts full, the clock read inside the script.
-- KEYS[1] the bucket; ARGV: capacity, tokens per ms, cost. Answers {allowed, tokens left, now in ms}.
-- The bucket is written on every call, as is usual: the refill is stored even when the call is refused.
local capacity, per_ms, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'ts')
local tokens = tonumber(bucket[1]) or capacity
local since = tonumber(bucket[2]) or now
tokens = math.min(capacity, tokens + math.max(0, now - since) * per_ms)
local allowed = 0
if tokens >= cost then
  tokens = tokens - cost
  allowed = 1
end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'ts', now)
redis.call('PEXPIRE', KEYS[1], math.ceil(capacity / per_ms * 2))
return {allowed, tostring(tokens), now}
