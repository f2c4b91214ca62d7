-- ── Direct uploads: what a merchant has open is counted against a quota ──────────────────────────────────────
create index idx_direct_uploads_open on catalog.uploads (merchant_id) include (expected_size)
  where status in ('pending', 'uploading');
-- How many uploads of a merchant are open, and the bytes that they announced. Whoever asks holds the merchant's lock until
-- the transaction ends, so uploads that begin at the same time count each other; volatile: it sees what was committed
-- while it waited.
create function catalog.direct_open(whose text, unknown bigint, out uploads bigint, out bytes bigint)
  language plpgsql volatile as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('direct quota ' || whose, 0));
  select count(*), coalesce(sum(case expected_size when 0 then unknown else expected_size end), 0) into uploads, bytes
    from catalog.uploads where merchant_id = whose and status in ('pending', 'uploading');
end $$;
