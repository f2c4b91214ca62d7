-- One write of a task's run state. Never back: an older generation, an older worker, or an earlier state of the same
-- generation is refused. Progress only grows within a state.
-- KEYS[1] hash; ARGV: generation, token, rank, progress, ttl in ms, then field, value, ...
local generation, token, rank, progress = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local old = redis.call('HMGET', KEYS[1], 'generation', 'token', 'rank', 'progress')
if old[1] then
  local g, t, r, p = tonumber(old[1]), tonumber(old[2]), tonumber(old[3]), tonumber(old[4])
  if generation < g then return 0 end
  if generation == g then
    if token < t or rank < r or (r == 3 and rank == 3 and token == t) then return 0 end
    if rank == r and p > progress then progress = p end
  else
    redis.call('DEL', KEYS[1])
  end
end
local fields = {'generation', generation, 'token', token, 'rank', rank, 'progress', progress}
for i = 6, #ARGV do fields[#fields + 1] = ARGV[i] end
redis.call('HSET', KEYS[1], unpack(fields))
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 1
