-- ── ETL: rules with examples ────────────────────────────────────────────────────────────────────────────────
alter table etl_rule add column examples jsonb not null default '[]';
