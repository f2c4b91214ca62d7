-- ── Harvest: who applied a source, the operator of the machine or somebody over the API ────────────────────
-- Sources from before go on as they are until they are applied again.
alter table reg_provenance add column allows_private boolean not null default true;
alter table reg_provenance alter column allows_private set default false;
