-- ── Relay: merchants in turn, and a limit on what waits for a paused endpoint ──────────────────────────────
create index idx_outbox_lanes on outbox_events (slot, coalesce(merchant_id, ''), event_id) where relayed_at is null;
create index idx_outbox_keys on outbox_events (order_key, event_id) where relayed_at is null;
alter table outbox_deliveries add column gap_from bigint;
alter table outbox_deliveries add column gap_to bigint;
alter table outbox_deliveries add column gap_events int;
alter table endpoint_breakers add column queued int not null default 0;
alter table endpoint_breakers add column gap_id bigint;
