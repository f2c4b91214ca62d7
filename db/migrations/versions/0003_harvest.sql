-- ── Harvest: dictionaries ─────────────────────────────────────────────────────────────────────────────────
create table sys_dict_type (
  type_code text primary key,                        -- http_method, ing_operation, ing_cursor_type …
  name_zh   text not null,
  name_en   text not null
);
create table sys_dict_item (
  type_code text not null references sys_dict_type,
  item_code text not null,
  name_zh   text not null,
  name_en   text not null,
  sort_no   int not null default 0,
  is_active boolean not null default true,
  primary key (type_code, item_code)
);
create table sys_dict_item_alias (
  type_code text not null,
  alias     text not null,
  item_code text not null,
  primary key (type_code, alias),
  foreign key (type_code, item_code) references sys_dict_item
);

-- ── Harvest: the registry, what we know of each source. Written by `penstock harvest apply` ───────────────
-- Codes are the keys; there are no foreign keys between reg_* and ing_*: plans live on their snapshot.
create table reg_provenance (
  provenance_code text primary key,
  name            text not null,
  description     text not null default '',
  defaults        jsonb not null default '{}',       -- sections for all endpoints, overridden by each
  version         int not null default 1,
  document_hash   text not null,                     -- of the canonical document; the same: nothing to apply
  is_active       boolean not null default true,
  created_at      timestamptz not null default now(),
  updated_at      timestamptz not null default now(),
  updated_by      text not null
);
create table reg_provenance_version (                -- every version as it was applied, whole
  provenance_code text not null,
  version         int not null,
  document        jsonb not null,
  document_hash   text not null,
  changes         jsonb not null default '[]',       -- [{path, before, after}] against the version before
  origins         jsonb not null default '{}',       -- dotted key → file:line, for people
  applied_at      timestamptz not null default now(),
  applied_by      text not null,
  primary key (provenance_code, version)
);
create table reg_prov_endpoint_def (
  provenance_code text not null,
  endpoint_name   text not null,
  role_code       text not null,                     -- SEARCH, DETAIL, METRICS
  is_default      boolean not null default false,    -- the one that a command without an endpoint means
  linked_endpoint text,                              -- of a SEARCH: where details come from
  params          jsonb not null default '{}',       -- what is asked for: part of the cursor's namespace
  defaults        jsonb not null default '{}',       -- sections, weaker than the *_cfg rows
  sections        jsonb not null default '{}',       -- as strong as the *_cfg rows: auth, count, planning, mapping.sink
  primary key (provenance_code, endpoint_name)
);
create table reg_prov_http_cfg (
  provenance_code text not null,
  endpoint_name   text not null,
  settings        jsonb not null,
  primary key (provenance_code, endpoint_name)
);
create table reg_prov_pagination_cfg (
  provenance_code text not null,
  endpoint_name   text not null,
  settings        jsonb not null,
  primary key (provenance_code, endpoint_name)
);
create table reg_prov_window_offset_cfg (
  provenance_code text not null,
  endpoint_name   text not null,
  settings        jsonb not null,
  primary key (provenance_code, endpoint_name)
);
create table reg_prov_retry_cfg (
  provenance_code text not null,
  endpoint_name   text not null,
  settings        jsonb not null,
  primary key (provenance_code, endpoint_name)
);
create table reg_prov_rate_limit_cfg (
  provenance_code text not null,
  endpoint_name   text not null,
  settings        jsonb not null,
  primary key (provenance_code, endpoint_name)
);
create table reg_prov_batching_cfg (
  provenance_code text not null,
  endpoint_name   text not null,
  settings        jsonb not null,
  primary key (provenance_code, endpoint_name)
);
create table reg_prov_credential (
  provenance_code text not null,
  credential_code text not null,
  type_code       text not null,                     -- API_KEY, BEARER, OAUTH2, CUSTOM
  reference       jsonb not null,                    -- where the secret is, never the secret
  primary key (provenance_code, credential_code)
);
create table reg_prov_api_param_map (
  provenance_code text not null,
  endpoint_name   text not null,
  param_name      text not null,
  location_code   text not null,                     -- QUERY, HEADER, BODY, PATH
  is_required     boolean not null default false,
  default_value   text,
  expr            text,
  pattern         text,                              -- the rendered value must match it, or the request is not sent
  sort_no         int not null default 0,
  primary key (provenance_code, endpoint_name, param_name)
);
create table reg_prov_expr_capability (
  provenance_code   text not null,
  endpoint_name     text not null,
  allowed_functions text[] not null,
  primary key (provenance_code, endpoint_name)
);
create table reg_prov_expr_render_rule (
  provenance_code text not null,
  endpoint_name   text not null,
  settings        jsonb not null,                    -- timezone, nullPolicy, timeFormat
  primary key (provenance_code, endpoint_name)
);
create table reg_expr_field_dict (
  provenance_code text not null,
  endpoint_name   text not null,
  kind_code       text not null,                     -- RESPONSE (itemsPath, idPath …) or OUTPUT (mapped fields)
  field_name      text not null,
  path            jsonb not null,                    -- a path, or a list of paths, or another setting of the answer
  is_required     boolean not null default false,
  sort_no         int not null default 0,
  primary key (provenance_code, endpoint_name, kind_code, field_name)
);
create table reg_schedule (
  provenance_code text not null,
  endpoint_name   text not null,
  operation_code  text not null,
  cron            text,                              -- five fields, UTC; or
  every           interval,
  params          jsonb not null default '{}',
  is_active       boolean not null default true,
  next_run_at     timestamptz not null default now(),
  last_run_at     timestamptz,
  last_error      text,
  primary key (provenance_code, endpoint_name, operation_code),
  check ((cron is null) <> (every is null))
);
create index idx_schedule_due on reg_schedule (next_run_at) where is_active;

-- ── Harvest: intentions. A trigger makes a plan, a plan has slices, a slice has one task ──────────────────
create table ing_schedule_instance (
  id                bigint generated always as identity primary key,
  scheduler_code    text not null,                   -- CLI, API, SCHEDULE
  scheduler_job_id  text,
  scheduler_log_id  text,
  provenance_code   text not null,
  endpoint_name     text not null,
  operation_code    text not null,
  trigger_type_code text not null,                   -- MANUAL, SCHEDULED, RESLICE
  trigger_params    jsonb not null default '{}',
  idempotent_key    text unique,                     -- the same trigger twice is one
  expr_proto_hash   text,
  record_remarks    jsonb not null default '{}',     -- why no plan came of it, if none did
  created_at        timestamptz not null default now()
);
create index idx_sched_src on ing_schedule_instance (scheduler_code, scheduler_job_id, scheduler_log_id);
create table ing_plan (
  id                   bigint generated always as identity primary key,
  schedule_instance_id bigint not null,
  provenance_code      text not null,
  endpoint_name        text not null,
  operation_code       text not null,
  window_from          timestamptz,                  -- half open, UTC
  window_to            timestamptz,
  plan_strategy_code   text not null,                -- TIME, PAGE, ID, SCAN
  expr_proto_hash      text not null,                -- what is asked and how answers are read
  expr_proto_snapshot  jsonb not null,               -- the whole compiled snapshot; never changes
  spec_fingerprint     text not null,                -- of the whole snapshot
  status_code          text not null check (status_code in ('DRAFT', 'SLICING', 'READY', 'PARTIAL', 'FAILED')),
  cursor_key           text not null,
  cursor_type_code     text not null,
  namespace_scope_code text not null,
  namespace_key        text not null,
  direction_code       text not null,
  priority             int not null,
  record_remarks       jsonb not null default '{}',  -- estimates, degradations, warnings, what is left to slice
  created_at           timestamptz not null default now(),
  updated_at           timestamptz not null default now()
);
create index idx_plan_src_op_time on ing_plan (provenance_code, operation_code, created_at);
create index idx_plan_instance on ing_plan (schedule_instance_id);
create index idx_plan_begun on ing_plan (updated_at) where status_code in ('DRAFT', 'SLICING');
create index idx_plan_partial on ing_plan (provenance_code, endpoint_name, operation_code) where status_code = 'PARTIAL';
create table ing_plan_slice (
  id                   bigint generated always as identity primary key,
  plan_id              bigint not null,
  provenance_code      text not null,
  slice_no             int not null,                 -- order within the plan
  slice_spec           jsonb not null,
  slice_signature_hash text not null,
  expr_hash            text not null,
  expr_snapshot        jsonb not null,               -- what this slice adds to the plan's snapshot
  status_code          text not null check (status_code in ('PENDING', 'READY', 'FAILED')),
  parent_slice_id      bigint,                       -- cut out of this one while it ran
  record_remarks       jsonb not null default '{}',
  created_at           timestamptz not null default now(),
  constraint uk_slice_sig unique (plan_id, slice_signature_hash)
);
create index idx_slice_status on ing_plan_slice (plan_id, status_code);
create table ing_task (
  id                   bigint generated always as identity primary key,
  schedule_instance_id bigint not null,
  plan_id              bigint not null,
  slice_id             bigint not null,
  provenance_code      text not null,
  endpoint_name        text not null,
  operation_code       text not null,
  namespace_key        text not null default '',
  credential_id        text,
  params               jsonb not null default '{}',
  expr_hash            text not null,
  idempotent_key       text not null constraint uk_task_idem unique,
  status_code          text not null check (status_code in ('QUEUED', 'DISPATCHED', 'EXECUTING', 'SUCCEEDED', 'FAILED',
                         'PARTIAL', 'CANCELLED')),
  window_from          timestamptz,
  window_to            timestamptz,
  priority             int not null default 100,     -- smaller is more urgent
  scheduled_at         timestamptz not null default now(),
  started_at           timestamptz,
  finished_at          timestamptz,
  attempts             int not null default 0,
  error                jsonb,
  lease_owner          text,
  leased_until         timestamptz,
  lease_token          bigint not null default 0,
  lease_count          int not null default 0,
  created_at           timestamptz not null default now()
);
-- Exactly the tasks that can be claimed, in the order in which they should be, one stretch per partition.
create index idx_task_queue on ing_task (provenance_code, endpoint_name, operation_code, priority, scheduled_at, id)
  where status_code = 'QUEUED' and leased_until is null;
create index idx_task_held on ing_task (leased_until) where leased_until is not null;
create index idx_task_live on ing_task (provenance_code, endpoint_name, operation_code, namespace_key)
  where status_code in ('QUEUED', 'DISPATCHED', 'EXECUTING');
create index idx_task_slice on ing_task (slice_id);
create index idx_task_plan on ing_task (plan_id, status_code);
create table ing_partition (                         -- what executors share about a source's endpoint and operation
  provenance_code text not null,
  endpoint_name   text not null,
  operation_code  text not null,
  c_max           int not null default 4,            -- tasks at once, over all executors
  source_max      int not null default 1000000,      -- tasks at once of the whole source
  not_before      timestamptz not null default '-infinity',  -- cooling, or its quota is used up
  reason          text,
  clock_behind    interval not null default '0',     -- how far the source's clock is behind ours, as last seen
  updated_at      timestamptz not null default now(),
  primary key (provenance_code, endpoint_name, operation_code)
);
create table ing_slot (                              -- one row per task that may run at once; a free one has no task
  scope   text not null,                             -- '*' for all, the source, or source/endpoint/OPERATION
  slot_no int not null,
  task_id bigint,
  primary key (scope, slot_no)
);
create index idx_slot_task on ing_slot (task_id) where task_id is not null;
create table ing_task_run (
  id              bigint generated always as identity primary key,
  task_id         bigint not null,
  provenance_code text not null,
  endpoint_name   text not null,
  operation_code  text not null,
  attempt_no      int not null,
  status_code     text not null check (status_code in ('PLANNED', 'RUNNING', 'SUCCEEDED', 'PARTIAL', 'FAILED',
                    'CANCELLED')),
  executor        text not null,
  checkpoint      jsonb,                             -- where the next batch begins
  stats           jsonb not null default '{}',
  window_from     timestamptz,
  window_to       timestamptz,
  error           jsonb,
  created_at      timestamptz not null default now(),
  finished_at     timestamptz,
  constraint uk_run_attempt unique (task_id, attempt_no)
);
create index idx_run_task on ing_task_run (task_id, status_code, created_at);
create table ing_task_run_batch (                    -- one request and what came of it; written once, never changed
  id              bigint generated always as identity primary key,
  run_id          bigint not null,
  task_id         bigint not null,
  slice_id        bigint not null,
  plan_id         bigint not null,
  expr_hash       text not null,
  provenance_code text not null,
  endpoint_name   text not null,
  operation_code  text not null,
  batch_no        int not null,
  page_no         int,
  page_size       int,
  before_token    text,
  after_token     text,
  before_url      text,
  next_url        text,
  window_from     timestamptz,
  window_to       timestamptz,
  request         jsonb not null default '{}',       -- without secrets
  response_digest jsonb not null default '{}',
  stats           jsonb not null default '{}',
  status_code     text not null check (status_code in ('PLANNED', 'RUNNING', 'SUCCEEDED', 'SKIPPED', 'FAILED')),
  error           jsonb,
  ids_hash        bytea,                             -- 8 bytes for each id of a list, where the source names a total
  idempotent_key  text not null constraint uk_batch_idem unique,
  created_at      timestamptz not null default now(),
  constraint uk_run_batch_no unique (run_id, batch_no)
);
create unique index uk_run_before_tok on ing_task_run_batch (run_id, md5(before_token)) where before_token is not null;
create index idx_batch_time on ing_task_run_batch (run_id, created_at);
create index idx_batch_status on ing_task_run_batch (run_id, status_code);
create index idx_batch_src_time on ing_task_run_batch (provenance_code, operation_code, created_at);

-- ── Harvest: how far we have come ─────────────────────────────────────────────────────────────────────────
create table ing_cursor (
  id                   bigint generated always as identity primary key,
  provenance_code      text not null,
  endpoint_name        text not null,
  operation_code       text not null,
  cursor_key           text not null,                -- updated_at, refresh_checked_at, provider_id, page_token
  namespace_scope_code text not null check (namespace_scope_code in ('GLOBAL', 'EXPR', 'CUSTOM')),
  namespace_key        text not null,
  cursor_type_code     text not null check (cursor_type_code in ('TIME', 'ID', 'TOKEN')),
  direction_code       text not null check (direction_code in ('FORWARD', 'BACKFILL')),
  cursor_value         text,                         -- the end of the stretch that is whole
  normalized_instant   timestamptz,
  normalized_numeric   numeric,
  observed_max_value   text,
  origin_instant       timestamptz,                  -- where the stretch begins
  origin_numeric       numeric,
  covered              tstzmultirange not null default '{}',   -- windows that are wholly stored, in any order
  covered_numeric      nummultirange not null default '{}',
  version              bigint not null default 0,
  schedule_instance_id bigint,
  plan_id              bigint,
  slice_id             bigint,
  task_id              bigint,
  run_id               bigint,
  batch_id             bigint,
  expr_hash            text,
  created_at           timestamptz not null default now(),
  updated_at           timestamptz not null default now(),
  constraint uk_cursor_ns unique (provenance_code, operation_code, cursor_key, namespace_scope_code, namespace_key)
);
create index idx_cursor_sort_time on ing_cursor (provenance_code, operation_code, normalized_instant);
create index idx_cursor_sort_id on ing_cursor (provenance_code, operation_code, normalized_numeric);
create table ing_cursor_event (                      -- append only
  id                   bigint generated always as identity primary key,
  provenance_code      text not null,
  endpoint_name        text not null,
  operation_code       text not null,
  cursor_key           text not null,
  namespace_scope_code text not null,
  namespace_key        text not null,
  cursor_type_code     text not null,
  direction_code       text not null,
  prev_value           text,
  new_value            text,
  prev_instant         timestamptz,
  new_instant          timestamptz,
  prev_numeric         numeric,
  new_numeric          numeric,
  covered_from         text,                         -- the window that was closed
  covered_to           text,
  observed_max_value   text,
  idempotent_key       text not null constraint uk_cur_evt_idem unique,
  schedule_instance_id bigint,
  plan_id              bigint,
  slice_id             bigint,
  task_id              bigint,
  run_id               bigint,
  batch_id             bigint,
  expr_hash            text,
  record_remarks       jsonb not null default '{}',
  created_at           timestamptz not null default now()
);
create index idx_cur_evt_timeline on ing_cursor_event
  (provenance_code, operation_code, namespace_scope_code, namespace_key, created_at);
create index idx_cur_evt_instant on ing_cursor_event (provenance_code, operation_code, new_instant);
create index idx_cur_evt_lineage on ing_cursor_event (plan_id, slice_id, task_id, run_id);

-- ── Harvest: the records, and what could not become one ───────────────────────────────────────────────────
create table ing_record (
  provenance_code text not null,
  endpoint_name   text not null,
  provider_id     text not null,
  updated_at      timestamptz not null,              -- as the source says; a newer one replaces, an equal one does not
  version         text,                              -- decides between equal ones, where the source has it
  is_deleted      boolean not null default false,    -- the source says that it is gone
  body            text not null,                     -- as it came
  fields          jsonb,                             -- as mapped, where the source has a mapping
  expr_hash       text not null,                     -- of the plan's snapshot that produced it
  batch_run_id    bigint not null,                   -- the batch that wrote it: its run
  batch_no        int not null,
  revision        int not null default 1,            -- 1 and one more for each version we stored
  first_seen_at   timestamptz not null default now(),
  changed_at      timestamptz not null default now(),
  checked_at      timestamptz not null default now(),
  primary key (provenance_code, endpoint_name, provider_id)
);
-- The time first: an index that begins as the key does is taken for it while the table has no statistics.
create index idx_record_checked on ing_record (checked_at, provenance_code, endpoint_name);
create table ing_quarantine (                        -- items that are not records, each with its evidence
  id              bigint generated always as identity primary key,
  provenance_code text not null,
  endpoint_name   text not null,
  operation_code  text not null,
  provider_id     text,                              -- when that much could be read
  reason_code     text not null,                     -- NO_ID, BAD_UPDATED_AT, NO_DETAIL, FIELD_MISSING, NOT_READABLE
  reason          text not null,
  sample          text not null,                     -- at most 1 KB, masked
  request         jsonb not null default '{}',
  run_id          bigint not null,
  batch_no        int not null,
  item_no         int not null,
  created_at      timestamptz not null default now(),
  released_at     timestamptz,                       -- a later version of it became a record
  unique (run_id, batch_no, item_no)
);
create index idx_quarantine_open on ing_quarantine (provenance_code, endpoint_name, provider_id) where released_at is null;
create table ing_signal (                            -- somebody says that a record should be looked at again
  provenance_code text not null,
  endpoint_name   text not null,
  provider_id     text not null,
  reason_code     text not null,                     -- QUARANTINE, RETRACTION, CORRECTION, MISSING_FIELD …
  note            text,
  created_at      timestamptz not null default now(),
  created_by      text not null,
  plan_id         bigint,                            -- taken up by this plan
  primary key (provenance_code, endpoint_name, provider_id, reason_code)
);
create index idx_signal_open on ing_signal (provenance_code, endpoint_name) where plan_id is null;
