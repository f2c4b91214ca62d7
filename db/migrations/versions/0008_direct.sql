create table catalog.videos (
  video_id           uuid primary key default gen_random_uuid(),
  user_id            uuid not null,
  merchant_id        text not null,
  title              text not null default '',
  status             text not null default 'pending_upload'
                     check (status in ('pending_upload','processing','ready','published','failed')),
  raw_file_reference text,                             -- gs://bucket/object, when the file is there
  content_type       text,
  size_bytes         bigint,
  declared_seconds   int,                              -- what the phone said
  duration_seconds   numeric(10,3),                    -- what the file says; null: not looked at yet
  container          text,                             -- likewise
  error_code         text,
  error_message      text,
  created_at         timestamptz not null default now(),
  updated_at         timestamptz not null default now()
);
create index idx_videos_merchant on catalog.videos (merchant_id, created_at desc, video_id desc);
create index idx_videos_newest on catalog.videos (created_at desc, video_id desc);

create table catalog.uploads (
  upload_id         uuid primary key default gen_random_uuid(),
  user_id           uuid not null,
  video_id          uuid references catalog.videos,
  bucket            text not null,
  object_name       text not null,                     -- folder of the policy / user_id / content_md5
  original_filename text not null,
  content_type      text not null,
  expected_size     bigint not null default 0,         -- 0: not known
  size_bytes        bigint not null default 0,
  content_md5       char(32) not null,                 -- as the phone computed it, hex
  status            text not null default 'pending' check (status in ('pending','uploading','completed','failed')),
  gcs_generation    text,
  gcs_etag          text,
  md5_hash          text,                              -- as the bucket computed it, hex
  crc32c            text,
  error_code        text,
  error_message     text,
  created_at        timestamptz not null default now(),
  updated_at        timestamptz not null default now(),
  merchant_id       text not null,
  user_name         text not null,                     -- `sub` of the token; user_id is made from it unless it is one
  policy            text not null,
  declared_seconds  int,
  opened_at         timestamptz not null default now(),  -- begun, or begun again after a failure
  opened_count      int not null default 1,
  completed_at      timestamptz,
  multipart_id      text,                              -- of a bucket that takes parts
  aside_generation  text,                              -- an object that is not what was announced: to be moved aside
  aside_name        text,                              -- where it went
  job_id            uuid,                              -- what a document became
  due_at            timestamptz,                       -- when somebody must look at it again; null: never
  looks             int not null default 0,            -- in vain, since something last happened
  lease_owner       text,
  leased_until      timestamptz,
  lease_token       bigint not null default 0,
  lease_count       int not null default 0
);
create unique index uploads_unique_user_md5 on catalog.uploads (user_id, content_md5);
create unique index uploads_object_unique_idx on catalog.uploads (bucket, object_name);
create unique index uploads_video_unique on catalog.uploads (video_id) where video_id is not null;
create index idx_direct_uploads_merchant on catalog.uploads (merchant_id, created_at desc, upload_id desc);
create index idx_direct_uploads_newest on catalog.uploads (created_at desc, upload_id desc);
-- What has come, right or wrong, is seen to before it is looked for what has not.
create index idx_direct_uploads_due on catalog.uploads ((status in ('pending', 'uploading')), due_at, upload_id)
  where due_at is not null and leased_until is null;
create index idx_direct_uploads_leased on catalog.uploads (leased_until) where leased_until is not null;

-- Messages that were let in and could not be understood: kept for people, not asked for again.
create table catalog.dead_messages (
  message_id  bigint generated always as identity primary key,
  source      text not null,
  reason      text not null,
  body        bytea not null,
  received_at timestamptz not null default now()
);
create index idx_dead_messages on catalog.dead_messages (received_at);
create index idx_inbox_received on catalog.inbox_events (received_at);
