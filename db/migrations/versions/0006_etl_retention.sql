-- ── ETL: what ended tasks have left is removed after a time ─────────────────────────────────────────────────
alter table etl_task add column cleared_at timestamptz;
drop index idx_etl_ended;
create index idx_etl_ended on etl_task (finished_at) where finished_at is not null and cleared_at is null;
create index idx_etl_cleared on etl_task (finished_at) where cleared_at is not null;
