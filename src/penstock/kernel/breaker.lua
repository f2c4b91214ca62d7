-- The circuit breaker's state changes. KEYS[1] the hash. ARGV: operation, now (ms, 0: Redis's clock), generation,
-- then the policy: failures, ratio, calls, window, pause, probes, successes, probe time. Times in milliseconds.
-- Answers: state, milliseconds until it may change, generation, whether the caller may go.

local now = tonumber(ARGV[2])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local policy = {}
for index, name in ipairs({ 'failures', 'ratio', 'calls', 'window', 'pause', 'probes', 'successes', 'probe_time' }) do
  policy[name] = tonumber(ARGV[3 + index])
end

local names = { 'generation', 'failures', 'good', 'bad', 'since', 'until', 'probes', 'probed', 'successes' }
local read = redis.call('HMGET', KEYS[1], 'state', unpack(names))
local s = { state = read[1] or 'closed' }
for index, name in ipairs(names) do
  s[name] = tonumber(read[index + 1] or 0)
end

-- A generation is one stretch between two changes of state: news of an earlier one is stale.
local function become(state)
  s.state, s.generation = state, s.generation + 1
  s.failures, s.good, s.bad, s.since, s.probes, s.successes = 0, 0, 0, now, 0, 0
  s['until'] = state == 'open' and now + policy.pause or 0
end

if s.state == 'open' and now >= s['until'] then
  become('half_open')
end
if s.state == 'closed' and now - s.since >= policy.window then
  s.good, s.bad, s.since = 0, 0, now
end

local operation, is_current, may_go = ARGV[1], tonumber(ARGV[3]) == s.generation, 1

if operation == 'admit' then
  if s.state == 'open' then
    may_go = 0
  elseif s.state == 'half_open' then
    if now - s.probed >= policy.probe_time then
      s.probes = 0 -- those probes will never report
    end
    if s.probes < policy.probes then
      s.probes, s.probed = s.probes + 1, now
    else
      may_go = 0
    end
  end
elseif operation == 'success' and is_current then
  if s.state == 'half_open' then
    s.probes, s.successes = math.max(0, s.probes - 1), s.successes + 1
    if s.successes >= policy.successes then
      become('closed')
    end
  else
    s.failures, s.good = 0, s.good + 1
  end
elseif operation == 'failure' and is_current then
  s.failures, s.bad = s.failures + 1, s.bad + 1
  local calls = s.good + s.bad
  local too_many = s.failures >= policy.failures or (calls >= policy.calls and s.bad / calls >= policy.ratio)
  if s.state == 'half_open' or too_many then
    become('open')
  end
elseif operation == 'trip' then
  become('open')
elseif operation == 'forget' and is_current then
  s.probes = math.max(0, s.probes - 1)
end

local wait = s.state == 'open' and s['until'] - now or 0
if may_go == 0 and s.state == 'half_open' then
  wait = math.max(0, s.probed + policy.probe_time - now)
end
if operation ~= 'read' then
  local write = { 'state', s.state }
  for _, name in ipairs(names) do
    write[#write + 1] = name
    write[#write + 1] = string.format('%.0f', s[name])
  end
  redis.call('HSET', KEYS[1], unpack(write))
  redis.call('PEXPIRE', KEYS[1], 7 * 86400000)
end
return { s.state, string.format('%.0f', wait), s.generation, may_go }
