-- The rate gate's only script: every change of a bucket is one call of this, atomic and by one clock.
-- KEYS[1] the bucket. ARGV: the operation, the policy, the question (both MessagePack; times in microseconds).
-- `gate.py` explains the algorithm. Invariant: max(level, 0) + tokens in leases <= burst, at every moment.

local policy, ask = cmsgpack.unpack(ARGV[2]), cmsgpack.unpack(ARGV[3])
local SECOND, HOUR, DAY = 1e6, 3600e6, 86400e6
local GRACE = 2 * SECOND -- a line whose last place is overdue by this much has been deserted
local HANDOVER = ask.handover -- after a restart, until every process has left its local gate
local EPSILON = 1e-9

-- Redis's clock; a given time is for simulations only.
local now = ask.now
if not now then
  local time = redis.call('TIME')
  now = time[1] * SECOND + time[2]
end
-- A restarted or promoted server may have lost its last second: its run id tells.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''

local raw = redis.call('GET', KEYS[1])
local s = raw and cmsgpack.unpack(raw)
local is_born = not s
if is_born and not ask.age then
  return cmsgpack.pack({ kind = 'missing' })
end

local function new_line()
  s.epoch, s.taken, s.passed, s.due, s.tasks = now, 0, 0, 0, {}
end

-- Leases that this bucket has forgotten may still be out there: keep their room until they have expired.
local function ghost_lease(age)
  if policy.prefetch > 1 and age < policy.lease_ttl then
    s.leases.ghost = { policy.burst, now + policy.lease_ttl - age }
  end
end

if is_born then
  local rate = math.min(policy.rate, ask.rate or policy.rate)
  local level = policy.warmup > 0 and 0 or math.min(policy.burst, rate * ask.age / SECOND)
  s = { run = run, born = now, level = level, at = now, rate = rate, raised = now, demoted = 0, cool = 0 }
  s.leases, s.windows = {}, {}
  new_line()
  ghost_lease(ask.age)
elseif s.run ~= run then
  s.run = run
  new_line()
  if HANDOVER > 0 then -- forgiving gates have none: what was left is left
    s.level, s.at = 0, math.max(s.at, now + HANDOVER)
    ghost_lease(0)
  end
end

-- Bring the bucket to the present ---------------------------------------------------------------------------
local function effective_rate(moment)
  local floor = math.min(policy.min_rate, policy.rate)
  local ceiling = policy.rate
  if policy.warmup > 0 and moment < s.born + policy.warmup then
    ceiling = floor + (policy.rate - floor) * math.max(0, moment - s.born) / policy.warmup
  end
  return math.max(floor, math.min(s.rate, ceiling))
end

-- A clock that was set back must not close the gate until it has caught up.
if s.at > math.max(now + HANDOVER, s.cool) then
  s.at, s.raised, s.level = now, now, math.min(s.level, 0)
end

local leased, lapsing = 0, {}
for id, lease in pairs(s.leases) do
  leased = leased + lease[1]
  lapsing[#lapsing + 1] = { id = id, amount = lease[1], ends = lease[2] }
end
table.sort(lapsing, function(a, b)
  return a.ends < b.ends
end)

-- The bucket grows under the cap that held at the time: a lease's room is free only from its end on.
-- The rate of the interval's start is never above the true one: waiting never mints tokens.
local function grow_until(moment)
  if moment > s.at then
    local grown = s.level + effective_rate(s.at) * (moment - s.at) / SECOND
    s.level, s.at = math.min(policy.burst - leased, grown), moment
  end
end

local function end_lease(id, amount, unspent)
  s.leases[id] = nil
  leased = leased - amount
  s.level = s.level + unspent
  for _, window in pairs(s.windows) do
    window.left = window.left + unspent
  end
end

for _, lease in ipairs(lapsing) do
  if lease.ends <= now then
    grow_until(lease.ends)
    end_lease(lease.id, lease.amount, 0)
  end
end
grow_until(now)
local done = ask.done and s.leases[ask.done.lease]
if done then
  end_lease(ask.done.lease, done[1], math.min(ask.done.unspent, done[1]))
end
local cap = policy.burst - leased
s.level = math.min(s.level, cap)

local periods = math.floor((now - s.raised) / policy.cool_down)
if periods > 0 then
  s.rate = s.rate + periods * policy.raise
  s.raised = s.raised + periods * policy.cool_down
end
s.rate = math.min(s.rate, policy.rate)
local rate = effective_rate(now)

if s.passed < s.taken and now > s.due + GRACE then
  s.passed, s.tasks = s.taken, {}
end

local function chill(moment)
  s.cool = math.max(s.cool, moment)
  s.at = math.max(s.at, s.cool)
  s.level = math.min(s.level, 0)
end
if ask.cool then
  chill(now + ask.cool)
end

-- Quotas: a window is what is left and when it ends; the provider's word replaces ours in `feedback`.
local function refresh_window(name, length, limit)
  local window, known = s.windows[name], ask.windows and ask.windows[name]
  if window and now >= window.ends then
    window = nil
  end
  if known and known.ends <= now then
    known = nil
  end
  if is_born and known then
    window = known
  elseif not window and limit then
    window = { left = limit, ends = (math.floor(now / length) + 1) * length }
  end
  if window and known and known.ends == window.ends then
    window.left = math.min(window.left, known.left)
  end
  s.windows[name] = window
end
refresh_window('hour', HOUR, policy.hourly)
refresh_window('day', DAY, policy.daily)

-- Answers ---------------------------------------------------------------------------------------------------
local function answer(kind, wait, more)
  local reply = more or {}
  reply.kind, reply.wait, reply.rate, reply.level = kind, math.ceil(wait), rate, s.level
  reply.cool = math.max(0, s.cool - now)
  reply.windows = next(s.windows) and s.windows or nil
  return reply
end

local function spend_quota(amount)
  for _, window in pairs(s.windows) do
    window.left = window.left - amount
  end
end

local function quota_wait(amount)
  local wait = 0
  for _, window in pairs(s.windows) do
    if window.left < amount then
      wait = math.max(wait, window.ends - now)
    end
  end
  return wait
end

local function lease_more()
  local more = math.min(ask.prefetch - 1, math.floor(s.level / 2))
  for _, window in pairs(s.windows) do
    more = math.min(more, math.floor(window.left))
  end
  if more < 1 then
    return 0
  end
  s.level = s.level - more
  s.leases[ask.lease] = { more, now + policy.lease_ttl }
  spend_quota(more)
  return more
end

-- The places that a task still holds; those the line has passed are forgotten, served or not.
local function places_of(task)
  local places = {}
  for _, place in ipairs(task and s.tasks[task] or {}) do
    if place > s.passed then
      places[#places + 1] = place
    end
  end
  return places
end

local function keep_places(task, places)
  if task then
    s.tasks[task] = #places > 0 and places or nil
  end
end

local function leave_line(place)
  local rest = {}
  for _, other in ipairs(places_of(ask.task)) do
    if other ~= place then
      rest[#rest + 1] = other
    end
  end
  keep_places(ask.task, rest)
end

local function grant(place, wait)
  s.level = s.level - ask.cost
  spend_quota(ask.cost)
  s.streak = ask.task and ask.task == s.last and s.streak + 1 or 1
  s.last = ask.task
  if place then
    leave_line(place)
    s.passed = math.max(s.passed, place)
  end
  local uncontended = not place and s.passed >= s.taken
  local leased_now = uncontended and ask.prefetch and lease_more() or 0
  return answer('allow', wait, { leased = leased_now, at = now + wait })
end

-- A place in the line. A task that holds its quantum of places gets none: it comes back after its first.
local function queue(place, wait)
  if not place then
    local places = places_of(ask.task)
    if #places >= policy.quantum then
      local first = s.at - now + math.max(ask.cost, places[1] - s.passed - s.level) / rate * SECOND
      return answer('wait', math.min(first * (1 + ask.jitter), wait), {})
    end
    s.taken = s.taken + ask.cost
    place = s.taken
    places[#places + 1] = place
    keep_places(ask.task, places)
  end
  s.due = math.max(s.due, now + wait)
  -- Places are apart already; more delay than the bucket can store would waste tokens.
  local slack = math.max(0, policy.burst - ask.cost) / rate * SECOND
  local jittered = math.min(wait + ask.jitter * math.min(wait, slack), math.max(wait, ask.deadline))
  return answer('wait', jittered, { place = place, epoch = s.epoch })
end

local function refuse(reason, wait, place)
  if place and place == s.taken and place - ask.cost >= s.passed then
    s.taken = s.taken - ask.cost
    leave_line(place)
  end
  return answer('reject', wait, { reason = reason })
end

local operations = {}

function operations.take()
  local place = ask.epoch == s.epoch and ask.place or nil
  local closed = quota_wait(ask.cost)
  if closed > ask.deadline then
    return refuse('quota_exhausted', closed, place)
  elseif closed > 0 then
    return answer('wait', closed * (1 + ask.jitter), {})
  end
  local need = ask.cost
  if place then
    need = math.max(need, place - s.passed)
  elseif s.level < math.max(cap, need) - EPSILON or (ask.task and ask.task == s.last and s.streak >= policy.quantum) then
    -- The line comes first. But a full bucket means that the line sleeps or is dead, and tokens would be lost:
    -- then anybody may have them who has not just had its quantum.
    need = need + s.taken - s.passed
  end
  local short = need - s.level
  local wait = s.at - now + (short > EPSILON and math.ceil(short / rate * SECOND) or 0)
  if wait <= ask.lead then
    return grant(place, wait)
  elseif wait <= ask.deadline then
    return queue(place, wait)
  end
  return refuse(s.cool - now > ask.deadline and 'cooling_down' or 'over_deadline', wait, place)
end

function operations.feedback()
  if ask.retry_after then
    chill(now + ask.retry_after * (1 + ask.jitter))
  end
  if ask.outcome == 'HTTP_429' then
    s.level = math.min(s.level, 0)
  end
  -- A volley of refusals that were in flight together is one piece of news.
  if ask.outcome ~= 'OK' and now - s.demoted >= policy.volley then
    s.rate = math.max(s.rate / policy.demote, math.min(policy.min_rate, policy.rate))
    s.demoted = now
    s.raised = math.max(now, s.cool)
    rate = effective_rate(now)
  end
  if ask.remaining then
    s.level = math.min(s.level, ask.remaining)
    if ask.reset and ask.reset > now then
      local name = ask.reset - now > HOUR and 'day' or 'hour'
      local known = s.windows[name]
      local is_same = known and math.abs(known.ends - ask.reset) < SECOND
      local left = is_same and math.min(known.left, ask.remaining) or ask.remaining
      s.windows[name] = { left = left, ends = is_same and known.ends or ask.reset }
    end
  end
  return answer('noted', 0)
end

function operations.estimate()
  local open = math.max(0, ask.horizon - (s.at - now))
  local permits = math.max(0, math.max(0, s.level) - (s.taken - s.passed) + rate * open / SECOND)
  for _, window in pairs(s.windows) do
    permits = math.min(permits, math.max(0, window.left))
  end
  return answer('estimate', s.at - now, { permits = math.floor(permits + EPSILON) })
end

-- Only to note `done`, which has happened above.
function operations.give_back()
  return answer('noted', 0)
end

local reply = operations[ARGV[1]]()
local fill = policy.burst / rate * SECOND
redis.call('SET', KEYS[1], cmsgpack.pack(s), 'PX', string.format('%.0f', (DAY + fill + s.at - now) / 1000))
return cmsgpack.pack(reply)
