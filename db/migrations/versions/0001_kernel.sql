-- ── Every change of state, of every entity ─────────────────────────────────────────────────────
create table state_transitions (
  id          bigserial primary key,
  entity_type text not null,
  entity_id   text not null,
  from_status text,                                  -- null: the entity's first state
  to_status   text not null,
  trigger     text,                                  -- why
  operator    text,                                  -- which part of the system, or which person
  "timestamp" timestamptz not null default now()
);
create index idx_transitions_entity on state_transitions (entity_type, entity_id, id);
create index idx_transitions_time on state_transitions ("timestamp");

-- ── Outbox: events are written with the change they tell of, and relayed afterwards ───────────────────────
create table outbox_events (
  event_id    bigint generated always as identity primary key,
  event_type  text not null,                         -- entity.past_participle
  entity_type text not null,
  entity_id   text not null,
  merchant_id text,
  order_key   text not null,                         -- events with one key are delivered in order
  slot        smallint not null check (slot between 0 and 15),
  notice      text,                                  -- name of the server-sent event that people see, if any
  topics      text[] not null default '{}',          -- streams it goes to, besides the dashboards
  payload     jsonb not null default '{}',
  trace       text,                                  -- W3C traceparent of the request that caused it
  occurred_at timestamptz not null default now(),
  attempts    int not null default 0,
  retry_at    timestamptz,                           -- set: this key waits until then
  relayed_at  timestamptz,
  last_error  text
);
create index idx_outbox_pending on outbox_events (slot, event_id) where relayed_at is null;
create index idx_outbox_waiting on outbox_events (order_key) where relayed_at is null and retry_at is not null;
create index idx_outbox_entity on outbox_events (entity_type, entity_id, event_id);
create index idx_outbox_time on outbox_events (occurred_at);

create table outbox_slots (
  slot smallint primary key                          -- a relay works on a slot under this row's lock
);
insert into outbox_slots select generate_series(0, 15);

-- One row per event and receiver. The streams get their events at once; a row here means that they refused one.
create table outbox_deliveries (
  delivery_id  bigint generated always as identity primary key,
  event_id     bigint not null references outbox_events on delete cascade,
  sink         text not null,                        -- reaction:<name>, webhook:<endpoint id>, plugin:<name>, stream:redis
  outside      boolean generated always as (sink not like 'reaction:%') stored,
  order_key    text not null,
  attempts     int not null default 0,
  due_at       timestamptz not null default now(),
  lease_owner  text,
  leased_until timestamptz,
  lease_token  bigint not null default 0,
  lease_count  int not null default 0,
  done_at      timestamptz,
  dead_at      timestamptz,
  last_error   text,
  created_at   timestamptz not null default now(),
  unique (event_id, sink)
);
create index idx_deliveries_ready on outbox_deliveries (outside, due_at, delivery_id)
  where done_at is null and dead_at is null and leased_until is null;
create index idx_deliveries_leased on outbox_deliveries (leased_until) where leased_until is not null;
create index idx_deliveries_head on outbox_deliveries (sink, order_key, event_id) where done_at is null and dead_at is null;
create index idx_deliveries_dead on outbox_deliveries (sink, delivery_id) where dead_at is not null;

-- ── Inbox: a message from outside takes effect once ─────────────────────────────────────────────
create schema catalog;
create table catalog.inbox_events (
  source       text not null,
  dedup_key    text not null,
  first_msg_id text,
  payload      jsonb not null default '{}',
  received_at  timestamptz not null default now(),
  processed_at timestamptz,
  primary key (source, dedup_key)
);

-- ── Webhooks ──────────────────────────────────────────────────────────────────────────────────────────────
create table webhook_endpoints (
  endpoint_id uuid primary key default gen_random_uuid(),
  merchant_id text not null,
  url         text not null,
  secret      text not null,                         -- signs every call; shown once, when it is made
  event_types text[] not null default '{}',          -- empty: all; 'job.*' takes a family
  active      boolean not null default true,
  created_by  text not null,
  created_at  timestamptz not null default now()
);
create index idx_webhooks_merchant on webhook_endpoints (merchant_id) where active;

-- ── Scheduled work: one row per duty, leased and fenced ───────────────────────────────────────────────────
create table schedule (
  name          text primary key,
  next_run_at   timestamptz not null default now(),
  lease_owner   text,
  leased_until  timestamptz,
  lease_token   bigint not null default 0,
  lease_count   int not null default 0,
  last_run_at   timestamptz,
  last_ended_at timestamptz,
  last_error    text
);

-- ── Workers ───────────────────────────────────────────────────────────────────────────────────
create table worker_heartbeats (
  worker_id      text primary key,
  hostname       text not null,
  pod_ip         text,
  started_at     timestamptz not null default now(),
  last_heartbeat timestamptz not null default now(),
  active_job_ids uuid[] not null default '{}',
  status         text not null default 'ALIVE' check (status in ('ALIVE', 'SUSPECT', 'DEAD')),
  version        text
);
create index idx_workers_status on worker_heartbeats (status, last_heartbeat);

-- ── Budgets: what may be spent, has been spent and is promised (in PostgreSQL because Redis may vanish)
create table budgets (
  scope     text not null,                           -- 'llm', 'llm:merchant:M', 'crossref:requests'
  day       date not null,
  allowed   bigint not null check (allowed >= 0),    -- micro-dollars, or requests
  spent     bigint not null default 0,
  reserved  bigint not null default 0,
  primary key (scope, day),
  check (reserved >= 0)
);
create table budget_reservations (
  reservation_id uuid not null,
  scope          text not null,
  day            date not null,
  amount         bigint not null check (amount >= 0),
  expires_at     timestamptz not null,
  primary key (reservation_id, scope)
);
create index idx_reservations_expiry on budget_reservations (expires_at);

-- ── Who did what in someone else's name, or beyond their own data ─────────────────────────────────────────
create table audit_log (
  id          bigserial primary key,
  actor       text not null,
  role        text not null,
  action      text not null,
  merchant_id text,
  subject     text,
  details     jsonb not null default '{}',
  request_id  text,
  at          timestamptz not null default now()
);
create index idx_audit_actor on audit_log (actor, id);
create index idx_audit_time on audit_log (at);

-- ── One-time sign-in links; only a hash is kept ───────────────────────────────────────────────────────────
create table sign_in_codes (
  code_hash  text primary key,
  claims     jsonb not null,
  expires_at timestamptz not null,
  used_at    timestamptz
);

-- ── Retention: what was moved to the object store, and how to find it ─────────────────────────────────────
create table archive_files (
  archive_id  bigserial primary key,
  table_name  text not null,
  object_key  text not null unique,
  sha256      text not null,
  rows        int not null,
  first_id    bigint not null,
  last_id     bigint not null,
  first_at    timestamptz not null,
  last_at     timestamptz not null,
  archived_at timestamptz not null default now()
);
create table archive_index (
  archive_id  bigint not null references archive_files on delete cascade,
  entity_type text not null,
  entity_id   text not null,
  primary key (entity_type, entity_id, archive_id)
);
