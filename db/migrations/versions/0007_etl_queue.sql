-- ── ETL: places in the queue, and each merchant's part of them ──────────────────────────────────────────────
create index idx_etl_open on etl_task (merchant_id) where status = 'pending';
-- Whether a task of a merchant has to stay out: 'queue' when all places are taken, 'share' when the merchant has its part
-- of them. Who asks holds the door until the transaction ends, and counts after the last one who did: a function, since
-- then asking and inserting can be one statement.
create function etl_kept_out_by(whose text, places int, own_places int) returns text language plpgsql volatile as $$
declare
  waiting int;
  own int;
begin
  perform pg_advisory_xact_lock(hashtextextended('etl queue', 0));
  select count(*), count(*) filter (where merchant_id = whose) into waiting, own
    from (select merchant_id from etl_task where status = 'pending' limit places) open;
  return case when waiting >= places then 'queue' when own >= own_places then 'share' end;
end $$;
