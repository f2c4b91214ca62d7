-- Disk quotas of uploads are reserved by the statement that begins an upload.
alter table tus_uploads add column reserved bigint not null default 0;
update tus_uploads set reserved = greatest(length, received, 4096) where status in ('UPLOADING', 'FINISHED');

-- What a merchant's uploads hold of the disk: the sum of `reserved` over those that are open, or more. What has ended is
-- taken off when the sum stands in somebody's way, so that ending an upload waits for nobody.
create table tus_quotas (
  merchant_id text primary key,
  held_bytes  bigint not null default 0,
  recounts    bigint not null default 0              -- grows with each recount: two must not take off the same
);
-- Adds to a merchant's sum unless that passes the quota. A function, since then reserving and inserting are one statement;
-- the row stays locked until the transaction ends, so reservations made at the same time count each other.
create function tus_reserve(whose text, more bigint, quota bigint) returns boolean language plpgsql volatile as $$
begin
  if more <= 0 then
    return true;
  end if;
  insert into tus_quotas as own (merchant_id, held_bytes) select whose, more where more <= quota
    on conflict (merchant_id) do update set held_bytes = own.held_bytes + excluded.held_bytes
    where own.held_bytes + excluded.held_bytes <= quota;
  return found;
end $$;
insert into tus_quotas (merchant_id, held_bytes)
  select merchant_id, sum(reserved) from tus_uploads where status in ('UPLOADING', 'FINISHED') group by merchant_id;
