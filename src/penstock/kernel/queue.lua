-- A wake-up is put into the queue, as ARQ does it, unless it is there or its result is.
-- KEYS: queue, job, result; ARGV: id, body, score, how long the body lasts in ms
if redis.call('EXISTS', KEYS[2], KEYS[3]) > 0 then return 0 end
redis.call('PSETEX', KEYS[2], ARGV[4], ARGV[2])
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
return 1
