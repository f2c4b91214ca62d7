-- ── ETL: a document becomes JSON by a rule ──────────────────────────────────────────────────────────────────
create table etl_rule (                              -- the newest version of each rule
  rule_id              bigint generated always as identity (start with 2) primary key,  -- 1 is the built-in rule
  merchant_id          text not null,                -- whose it is
  name                 text not null,
  description          text not null default '',
  json_schema          jsonb,                        -- what the result must fit; null only where it is not asked for
  system_prompt        text,
  postprocess_mode     text not null default 'llm',  -- llm, skip, rules, or the name of an installed post-processor
  postprocess_strategy text,                         -- direct-json, chunked-summarize, chunked-extract; null: by size
  options              jsonb not null default '{}',  -- what the post-processor of this mode understands besides
  version              int not null default 1,
  created_at           timestamptz not null default now(),
  created_by           text not null,
  updated_at           timestamptz not null default now(),
  deleted_at           timestamptz                   -- tasks keep the version that they ran with
);
create unique index uk_rule_name on etl_rule (merchant_id, name) where deleted_at is null;
create table etl_rule_version (                      -- every version that ever was, never changed
  rule_id    bigint not null references etl_rule,
  version    int not null,
  content    jsonb not null,
  created_at timestamptz not null default now(),
  created_by text not null,
  primary key (rule_id, version)
);
create table etl_task (                              -- status: pending, or how it ended; what is between is in Redis
  task_id              bigint generated always as identity primary key,
  merchant_id          text not null,
  user_id              text not null,
  rule_id              bigint not null,
  rule_version         int not null,
  rule                 jsonb not null,               -- the exact rule that it runs with
  source               jsonb not null,               -- what was submitted: upload, object or job
  source_key           text not null,                -- where its bytes are in the object store
  filename             text not null,
  media_type           text not null,
  size_bytes           bigint not null,
  provider             text not null,                -- who reads it: local, mineru, …
  status               text not null default 'pending' check (status in ('pending', 'completed', 'failed', 'cancelled')),
  phase                text not null default 'ocr' check (phase in ('ocr', 'postprocess')),  -- the stage that is due
  generation           int not null default 1,       -- counts the user's retries
  ocr_generation       int not null default 1,       -- the generation that read it; names the folder of its artefacts
  ocr_attempts         int not null default 0,       -- failed ones, of this generation
  postprocess_attempts int not null default 0,
  lost_workers         int not null default 0,       -- leases that ran out, of this generation
  progress             int not null default 0,
  result               jsonb,
  error                jsonb,                        -- stage, code, message, details
  metadata             jsonb not null default '{}',  -- pointers to artefacts, pages, times, versions
  due_at               timestamptz not null default now(),
  started_at           timestamptz,                  -- of this generation: first taken by a worker
  finished_at          timestamptz,
  lease_owner          text,
  leased_until         timestamptz,
  lease_token          bigint not null default 0,
  lease_count          int not null default 0,
  request_hash         text,
  idempotency_key      text,
  created_at           timestamptz not null default now(),
  updated_at           timestamptz not null default now()
);
create index idx_etl_due on etl_task (due_at, task_id) where status = 'pending' and leased_until is null;
create index idx_etl_held on etl_task (leased_until) where leased_until is not null;
create index idx_etl_list on etl_task (merchant_id, created_at desc, task_id desc);
create index idx_etl_ended on etl_task (finished_at) where finished_at is not null;
create index idx_etl_all on etl_task (created_at desc, task_id desc);
create unique index uk_etl_key on etl_task (merchant_id, idempotency_key) where idempotency_key is not null;
create table llm_call (                              -- one call to a language model and what it cost
  call_id         bigint generated always as identity primary key,
  merchant_id     text,
  subject_type    text not null,                     -- etl_task, page, …
  subject_id      text not null,
  purpose         text not null,                     -- the prompt's name
  prompt_version  text not null,
  model           text not null,
  outcome         text not null,                     -- ok, or the code of the failure
  finish_reason   text,
  prompt_tokens   bigint not null default 0,
  output_tokens   bigint not null default 0,
  is_estimated    boolean not null default false,    -- the endpoint did not say; counted by us
  cost_micro_usd  bigint not null default 0,
  latency_ms      int not null default 0,
  retries         int not null default 0,
  request_id      text,
  created_at      timestamptz not null default now()
);
create index idx_llm_subject on llm_call (subject_type, subject_id, call_id);
create index idx_llm_time on llm_call (created_at);
