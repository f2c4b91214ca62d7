-- ── Deliveries: merchants are served in turn, endpoints that fail are paused ────────────────────────────────
alter table outbox_deliveries add column merchant_id text not null default '';
update outbox_deliveries d set merchant_id = e.merchant_id from outbox_events e
  where e.event_id = d.event_id and e.merchant_id is not null and d.done_at is null;
drop index idx_deliveries_ready;
create index idx_deliveries_lanes on outbox_deliveries (outside, merchant_id, due_at, delivery_id)
  where done_at is null and dead_at is null and leased_until is null;
create table endpoint_breakers (                     -- endpoints whose calls have failed; paused ones are not called
  sink          text primary key,                    -- webhook:<endpoint id>
  merchant_id   text not null,
  failures      int not null default 0,              -- in a row
  failing_since timestamptz,                         -- the first of them
  paused_until  timestamptz,                         -- then one delivery is sent as a probe
  last_error    text,
  told_at       timestamptz                          -- when the merchant was last told that it is paused
);

-- ── ETL: merchants are served in turn ───────────────────────────────────────────────────────────────────────
alter table etl_task add column queue text not null default 'etl';  -- workers of this queue take it
create index idx_etl_lanes on etl_task (queue, merchant_id, phase desc, due_at, task_id)
  where status = 'pending' and leased_until is null;
