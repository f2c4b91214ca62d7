-- ── ETL: documents by upload are counted against a quota of their merchant ────────────────────────────────────
create table etl_content (                           -- documents by upload that are kept in the store for a merchant
  merchant_id text not null,
  source_key  text not null,                         -- the SHA-256: the same document counts once
  size_bytes  bigint not null,
  kept_since  timestamptz not null default now(),    -- when it was submitted last
  primary key (merchant_id, source_key)
);
create index idx_content_key on etl_content (source_key);
create index idx_etl_source on etl_task (source_key);
-- Counts a document among those kept for a merchant; false when that would be more than the quota. Whoever counts holds
-- the merchant's sum and the document until the transaction ends, so none is missed, and none is removed meanwhile.
create function etl_keep(whose text, key text, size bigint, quota bigint) returns boolean language plpgsql volatile as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('etl quota ' || whose, 0));
  perform pg_advisory_xact_lock(hashtextextended('etl content ' || key, 0));
  update etl_content set kept_since = clock_timestamp() where merchant_id = whose and source_key = key;
  if found then
    return true;
  end if;
  if (select coalesce(sum(size_bytes), 0) from etl_content where merchant_id = whose) + size > quota then
    return false;
  end if;
  insert into etl_content (merchant_id, source_key, size_bytes) values (whose, key, size);
  return true;
end $$;
insert into etl_content (merchant_id, source_key, size_bytes, kept_since)
  select merchant_id, source_key, max(size_bytes), max(created_at) from etl_task
   where source_key like 'sha256/%' group by merchant_id, source_key;
