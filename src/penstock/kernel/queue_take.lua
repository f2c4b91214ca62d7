-- One look into the queue: what is done leaves it, and up to `want` others that are due and in nobody's hands are taken.
-- The keys are ARQ's. A wake-up whose body has expired goes without being run. Returns id, body, id, body …
-- KEYS: queue; ARGV: now, how long a job is in progress at most (ms), want, prefixes of in-progress, job and retry
-- keys, then the ids that are done
local queue, want = KEYS[1], tonumber(ARGV[3])
local taken, job, retry = ARGV[4], ARGV[5], ARGV[6]
local function leave(id)
  redis.call('ZREM', queue, id)
  redis.call('DEL', taken .. id, job .. id, retry .. id)
end
for i = 7, #ARGV do leave(ARGV[i]) end
local found, at = {}, 0
while want > 0 and at < 5000 do
  local ids = redis.call('ZRANGEBYSCORE', queue, '-inf', ARGV[1], 'LIMIT', at, 100)
  for _, id in ipairs(ids) do
    if want == 0 then break end
    if redis.call('SET', taken .. id, '1', 'NX', 'PX', ARGV[2]) then
      local body = redis.call('GET', job .. id)
      if body then
        found[#found + 1], found[#found + 2] = id, body
        want = want - 1
      else
        leave(id)
      end
    end
  end
  if #ids < 100 then break end
  at = at + #ids
end
return found
