-- The database as it is today, to be read from top to bottom.
-- db/migrations/ leads here step by step; a test proves that both give the same database.

-- ── Every change of state, of every entity ─────────────────────────────────────────────────────
create table state_transitions (
  id          bigserial primary key,
  entity_type text not null,
  entity_id   text not null,
  from_status text,                                  -- null: the entity's first state
  to_status   text not null,
  trigger     text,                                  -- why
  operator    text,                                  -- which part of the system, or which person
  "timestamp" timestamptz not null default now()
);
create index idx_transitions_entity on state_transitions (entity_type, entity_id, id);
create index idx_transitions_time on state_transitions ("timestamp");

-- ── Outbox: events are written with the change they tell of, and relayed afterwards ───────────────────────
create table outbox_events (
  event_id    bigint generated always as identity primary key,
  event_type  text not null,                         -- entity.past_participle
  entity_type text not null,
  entity_id   text not null,
  merchant_id text,
  order_key   text not null,                         -- events with one key are delivered in order
  slot        smallint not null check (slot between 0 and 15),
  notice      text,                                  -- name of the server-sent event that people see, if any
  topics      text[] not null default '{}',          -- streams it goes to, besides the dashboards
  payload     jsonb not null default '{}',
  trace       text,                                  -- W3C traceparent of the request that caused it
  occurred_at timestamptz not null default now(),
  attempts    int not null default 0,
  retry_at    timestamptz,                           -- set: this key waits until then
  relayed_at  timestamptz,
  last_error  text
);
create index idx_outbox_pending on outbox_events (slot, event_id) where relayed_at is null;
create index idx_outbox_lanes on outbox_events (slot, coalesce(merchant_id, ''), event_id) where relayed_at is null;
create index idx_outbox_keys on outbox_events (order_key, event_id) where relayed_at is null;
create index idx_outbox_waiting on outbox_events (order_key) where relayed_at is null and retry_at is not null;
create index idx_outbox_entity on outbox_events (entity_type, entity_id, event_id);
create index idx_outbox_time on outbox_events (occurred_at);

create table outbox_slots (
  slot smallint primary key                          -- a relay works on a slot under this row's lock
);
insert into outbox_slots select generate_series(0, 15);

-- One row per event and receiver. The streams get their events at once; a row here means that they refused one.
create table outbox_deliveries (
  delivery_id  bigint generated always as identity primary key,
  event_id     bigint not null references outbox_events on delete cascade,
  sink         text not null,                        -- reaction:<name>, webhook:<endpoint id>, plugin:<name>, stream:redis
  outside      boolean generated always as (sink not like 'reaction:%') stored,
  order_key    text not null,
  attempts     int not null default 0,
  due_at       timestamptz not null default now(),
  lease_owner  text,
  leased_until timestamptz,
  lease_token  bigint not null default 0,
  lease_count  int not null default 0,
  done_at      timestamptz,
  dead_at      timestamptz,
  last_error   text,
  created_at   timestamptz not null default now(),
  merchant_id  text not null default '',             -- of the event; '' when it has none. Merchants are served in turn
  gap_from     bigint,                               -- set: stands for events that were left out, from this one
  gap_to       bigint,                               -- up to this one
  gap_events   int,                                  -- how many they are
  unique (event_id, sink)
);
create index idx_deliveries_lanes on outbox_deliveries (outside, merchant_id, due_at, delivery_id)
  where done_at is null and dead_at is null and leased_until is null;
create index idx_deliveries_leased on outbox_deliveries (leased_until) where leased_until is not null;
create index idx_deliveries_head on outbox_deliveries (sink, order_key, event_id) where done_at is null and dead_at is null;
create index idx_deliveries_dead on outbox_deliveries (sink, delivery_id) where dead_at is not null;

-- ── Inbox: a message from outside takes effect once ─────────────────────────────────────────────
create schema catalog;
create table catalog.inbox_events (
  source       text not null,
  dedup_key    text not null,
  first_msg_id text,
  payload      jsonb not null default '{}',
  received_at  timestamptz not null default now(),
  processed_at timestamptz,
  primary key (source, dedup_key)
);

-- ── Webhooks ──────────────────────────────────────────────────────────────────────────────────────────────
create table webhook_endpoints (
  endpoint_id uuid primary key default gen_random_uuid(),
  merchant_id text not null,
  url         text not null,
  secret      text not null,                         -- signs every call; shown once, when it is made
  event_types text[] not null default '{}',          -- empty: all; 'job.*' takes a family
  active      boolean not null default true,
  created_by  text not null,
  created_at  timestamptz not null default now()
);
create index idx_webhooks_merchant on webhook_endpoints (merchant_id) where active;
create table endpoint_breakers (                     -- endpoints whose calls have failed; paused ones are not called
  sink          text primary key,                    -- webhook:<endpoint id>
  merchant_id   text not null,
  failures      int not null default 0,              -- in a row
  failing_since timestamptz,                         -- the first of them
  paused_until  timestamptz,                         -- then one delivery is sent as a probe
  last_error    text,
  told_at       timestamptz,                         -- when the merchant was last told that it is paused
  queued        int not null default 0,              -- open deliveries of a paused one, about
  gap_id        bigint                               -- the dead delivery that stands for those which were left out
);

-- ── Scheduled work: one row per duty, leased and fenced ───────────────────────────────────────────────────
create table schedule (
  name          text primary key,
  next_run_at   timestamptz not null default now(),
  lease_owner   text,
  leased_until  timestamptz,
  lease_token   bigint not null default 0,
  lease_count   int not null default 0,
  last_run_at   timestamptz,
  last_ended_at timestamptz,
  last_error    text
);

-- ── Workers ───────────────────────────────────────────────────────────────────────────────────
create table worker_heartbeats (
  worker_id      text primary key,
  hostname       text not null,
  pod_ip         text,
  started_at     timestamptz not null default now(),
  last_heartbeat timestamptz not null default now(),
  active_job_ids uuid[] not null default '{}',
  status         text not null default 'ALIVE' check (status in ('ALIVE', 'SUSPECT', 'DEAD')),
  version        text,
  takes_jobs     boolean not null default false      -- whether it goes through pages: only such are given jobs
);
create index idx_workers_status on worker_heartbeats (status, last_heartbeat);

-- ── Budgets: what may be spent, has been spent and is promised (in PostgreSQL because Redis may vanish)
create table budgets (
  scope     text not null,                           -- 'llm', 'llm:merchant:M', 'crossref:requests'
  day       date not null,
  allowed   bigint not null check (allowed >= 0),    -- micro-dollars, or requests
  spent     bigint not null default 0,
  reserved  bigint not null default 0,
  primary key (scope, day),
  check (reserved >= 0)
);
create table budget_reservations (
  reservation_id uuid not null,
  scope          text not null,
  day            date not null,
  amount         bigint not null check (amount >= 0),
  expires_at     timestamptz not null,
  primary key (reservation_id, scope)
);
create index idx_reservations_expiry on budget_reservations (expires_at);

-- ── Who did what in someone else's name, or beyond their own data ─────────────────────────────────────────
create table audit_log (
  id          bigserial primary key,
  actor       text not null,
  role        text not null,
  action      text not null,
  merchant_id text,
  subject     text,
  details     jsonb not null default '{}',
  request_id  text,
  at          timestamptz not null default now()
);
create index idx_audit_actor on audit_log (actor, id);
create index idx_audit_time on audit_log (at);

-- ── One-time sign-in links; only a hash is kept ───────────────────────────────────────────────────────────
create table sign_in_codes (
  code_hash  text primary key,
  claims     jsonb not null,
  expires_at timestamptz not null,
  used_at    timestamptz
);

-- ── Sessions that were signed out: their tokens are refused until they expire ─────────────────────────────
create table ended_sessions (
  session_id text primary key,                       -- `jti` of its token
  expires_at timestamptz not null                    -- of the token; the row is of no use afterwards
);

-- ── Retention: what was moved to the object store, and how to find it ─────────────────────────────────────
create table archive_files (
  archive_id  bigserial primary key,
  table_name  text not null,
  object_key  text not null unique,
  sha256      text not null,
  rows        int not null,
  first_id    bigint not null,
  last_id     bigint not null,
  first_at    timestamptz not null,
  last_at     timestamptz not null,
  archived_at timestamptz not null default now()
);
create table archive_index (
  archive_id  bigint not null references archive_files on delete cascade,
  entity_type text not null,
  entity_id   text not null,
  primary key (entity_type, entity_id, archive_id)
);

-- ── Uploads by the tus protocol: how far each has come ────────────────────────────────────────────────────
create table tus_uploads (
  upload_id    text primary key,                     -- upl_ and a nanoid
  merchant_id  text not null,
  created_by   text not null,
  status       text not null default 'UPLOADING'
               check (status in ('UPLOADING', 'FINISHED', 'ADMITTED', 'EXPIRED', 'CANCELLED')),
  filename     text not null default '',
  metadata     text not null default '',             -- Upload-Metadata, as it was sent
  concat       text not null default '',             -- Upload-Concat, as it was sent
  length       bigint check (length >= 0),           -- null: the client has not said yet
  received     bigint not null default 0,            -- the offset: so many bytes are on disk, checked and synced
  lease_owner  text,                                 -- a writer that has paused and may come back
  leased_until timestamptz,                          -- a writer that seems frozen may be fenced off after this
  lease_token  bigint not null default 0,            -- grows when a writer is fenced off: it cannot move the offset
  created_at   timestamptz not null default now(),
  expires_at   timestamptz not null,
  finished_at  timestamptz,
  job_id       uuid,                                 -- what it became
  reserved     bigint not null default 0,            -- so much of the disk is kept for it: its length, once that is known
  check (received >= 0 and received <= coalesce(length, received))
);
create index idx_uploads_expiry on tus_uploads (expires_at) where status in ('UPLOADING', 'FINISHED');
create index idx_uploads_merchant on tus_uploads (merchant_id, status) where status in ('UPLOADING', 'FINISHED');
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

-- ── Profiles: how the machine decides, version by version ─────────────────────────────────────────────────
create table threshold_profiles (
  id                        serial primary key,
  profile_id                text not null,
  version                   text not null,
  previous_version          text,
  category                  text,
  industry                  text,
  thresholds                jsonb not null,          -- {A, B, PV}
  confidence_weights        jsonb not null,
  prescan_rules             jsonb not null,
  classification_thresholds jsonb not null,
  sku_validity_mode         text not null default 'strict' check (sku_validity_mode in ('strict', 'lenient')),
  is_active                 boolean not null default true,
  effective_from            timestamptz not null default now(),
  created_by                text,
  change_reason             text,
  unique (profile_id, version)
);
insert into threshold_profiles
  (profile_id, version, thresholds, confidence_weights, prescan_rules, classification_thresholds, created_by,
   change_reason)
values
  ('default', '1', '{"A": 0.85, "B": 0.45, "PV": 0.65}',
   '{"text_quality": 0.25, "image_quality": 0.2, "layout_regularity": 0.2, "table_structure": 0.15,
     "attribute_coverage": 0.2}',
   '{"min_text_chars_for_blank": 10, "max_ink_for_blank": 0.0005, "ocr_rate_penalty_threshold": 0.3,
     "ocr_rate_penalty_weight": 0.15, "no_images_penalty_weight": 0.1}',
   '{"page_type": 0.7, "layout": 0.7}', 'penstock', 'The profile that every installation starts with');

-- ── Jobs: a file and what becomes of it ───────────────────────────────────────────────────────────────────
create table pdf_jobs (
  job_id                uuid primary key default gen_random_uuid(),
  source_file           text not null,
  file_hash             text not null,               -- SHA-256
  merchant_id           text not null,
  category              text,
  industry              text,
  uploaded_by           text not null,
  uploaded_at           timestamptz not null default now(),
  status                text not null default 'UPLOADED'
                        check (status in ('UPLOADED', 'EVALUATING', 'EVAL_FAILED', 'EVALUATED', 'PROCESSING',
                          'PARTIAL_FAILED', 'PARTIAL_IMPORTED', 'DEGRADED_HUMAN', 'FULL_IMPORTED', 'REJECTED',
                          'ORPHANED', 'CANCELLED')),
  user_status           text not null generated always as (
                          case
                            when status in ('UPLOADED', 'EVALUATING', 'EVALUATED', 'PROCESSING') then 'processing'
                            when status in ('PARTIAL_FAILED', 'PARTIAL_IMPORTED') then 'partial_success'
                            when status = 'FULL_IMPORTED' then 'completed'
                            when status = 'DEGRADED_HUMAN' then 'needs_manual'
                            else 'failed'
                          end) stored,
  action_hint           text,
  route                 text check (route in ('AUTO', 'HYBRID', 'HUMAN_ALL')),
  degrade_reason        text check (degrade_reason in ('eval_failed', 'prescan_reject', 'low_confidence',
                          'budget_exhausted', 'circuit_open')),
  error_message         text,
  frozen_config_version text,
  worker_id             text,
  checkpoint_page       int not null default 0,
  checkpoint_skus       int not null default 0,
  checkpoint_at         timestamptz,
  output_base_url       text,
  completion_source     text check (completion_source in ('AI_ONLY', 'HUMAN_ONLY', 'HYBRID', 'DEGRADED_HUMAN')),
  total_pages           int not null check (total_pages >= 0),
  blank_pages           int[] not null default '{}',
  ai_pages              int[] not null default '{}',
  human_pages           int[] not null default '{}',
  skipped_pages         int[] not null default '{}',
  failed_pages          int[] not null default '{}',
  total_skus            int not null default 0,
  total_images          int not null default 0,
  processing_trace      jsonb,
  token_consumption     jsonb not null default '{"eval_tokens":0,"process_tokens":0,"total_api_calls":0}',
  eval_started_at       timestamptz,
  eval_completed_at     timestamptz,
  process_started_at    timestamptz,
  process_completed_at  timestamptz,
  parse_time_ms         int,
  created_at            timestamptz not null default now(),
  updated_at            timestamptz not null default now(),
  upload_id             text unique,                 -- one upload becomes one job
  file_size             bigint not null,
  source_key            text,                        -- where the file is in the object store; null: not kept
  profile_id            text,
  error_codes           text[] not null default '{}',-- why it was rejected: every reason found
  prescan               jsonb,                       -- what the prescan found, over all pages
  orphaned_at           timestamptz,
  hold_token            bigint not null default 0,   -- grows with every worker that takes it: a late one cannot write
  check (route is distinct from 'AUTO' or degrade_reason is null)
);
create index idx_jobs_status on pdf_jobs (status);
create index idx_jobs_user_status on pdf_jobs (user_status);
create index idx_jobs_merchant on pdf_jobs (merchant_id, created_at desc, job_id);
create index idx_jobs_file_hash on pdf_jobs (file_hash, merchant_id);
create index idx_jobs_worker on pdf_jobs (worker_id) where status in ('EVALUATING', 'PROCESSING');
create index idx_jobs_created on pdf_jobs (created_at desc, job_id);
create index idx_jobs_orphaned on pdf_jobs (orphaned_at) where status = 'ORPHANED';

create table pages (
  id                        serial primary key,
  job_id                    uuid not null references pdf_jobs,
  page_number               int not null check (page_number >= 1),
  attempt_no                int not null default 1,
  status                    text not null default 'PENDING'
                            check (status in ('PENDING', 'BLANK', 'AI_QUEUED', 'AI_PROCESSING', 'AI_COMPLETED',
                              'AI_FAILED', 'HUMAN_QUEUED', 'HUMAN_PROCESSING', 'HUMAN_COMPLETED',
                              'IMPORTED_CONFIRMED', 'IMPORTED_ASSUMED', 'IMPORT_FAILED', 'SKIPPED', 'DEAD_LETTER')),
  worker_id                 text,
  claimed_at                timestamptz,
  retry_count               int not null default 0,
  processed_by              text,
  import_confirmation       text not null default 'not_imported',
  page_confidence           real,
  page_type                 text check (page_type in ('A', 'B', 'C', 'D')),
  layout_type               text check (layout_type in ('L1', 'L2', 'L3', 'L4')),
  classification_confidence real,
  needs_review              boolean not null default false,
  table_continuation_from   int,
  validation_errors         text[],
  parser_backend            text not null default 'legacy',
  features                  jsonb,                   -- what the prescan measured
  product_description       jsonb,
  screenshot_path           text,
  parse_time_ms             int,
  ocr_time_ms               int,
  llm_time_ms               int,
  llm_model_used            text,
  created_at                timestamptz not null default now(),
  updated_at                timestamptz not null default now(),
  lease_owner               text,
  leased_until              timestamptz,
  lease_token               bigint not null default 0,
  lease_count               int not null default 0,
  unique (job_id, page_number, attempt_no)
);
create index idx_pages_job_status on pages (job_id, status);
create index idx_pages_poll on pages (status, updated_at);
create index idx_pages_claim on pages (job_id, page_number)
  where status in ('AI_QUEUED', 'AI_PROCESSING') and leased_until is null;
create index idx_pages_leased on pages (leased_until) where leased_until is not null;
create index idx_pages_dead_letter on pages (job_id) where status = 'DEAD_LETTER';

-- Every time an orphaned job was given to another worker; three in 24 hours is the most without a person.
create table job_requeues (
  id           bigserial primary key,
  job_id       uuid not null references pdf_jobs,
  method       text not null check (method in ('auto', 'manual')),
  from_worker  text,
  to_worker    text,
  resumed_from int not null,                         -- the last page that was done
  requested_by text not null,
  requeued_at  timestamptz not null default now()
);
create index idx_requeues_job on job_requeues (job_id, requeued_at);

-- One row per upload that is becoming a job, so that ten requests at once do the work once.
create table job_admissions (
  upload_id     text primary key,
  lease_owner   text,
  leased_until  timestamptz,
  lease_token   bigint not null default 0,
  lease_count   int not null default 0,
  job_ids       uuid[] not null default '{}',        -- one per attempt: what an attempt that died left in the store
  refusal       jsonb,                               -- how the last attempt ended, for those who waited for it
  refused_token bigint,
  created_at    timestamptz not null default now()
);
create index idx_admissions_age on job_admissions (created_at);

-- Files of a job that are to go; whoever takes the row removes them.
create table job_file_removals (
  job_id       uuid primary key references pdf_jobs,
  reason       text not null,
  requested_at timestamptz not null default now()
);

-- A key the caller chose for a request it may have to repeat.
create table idempotency_keys (
  merchant_id  text not null,
  key          text not null,
  request_hash text not null,                        -- the same key with another request is refused
  job_id       uuid,                                 -- null until the job is there
  created_at   timestamptz not null default now(),
  primary key (merchant_id, key)
);
create index idx_idempotency_age on idempotency_keys (created_at);

-- What the evaluator found; unique per file and configuration, so that the same file is judged once.
create table evaluations (
  id               serial primary key,
  file_hash        text not null,
  config_version   text not null,
  doc_confidence   real not null,
  route            text not null check (route in ('AUTO', 'HYBRID', 'HUMAN_ALL')),
  route_reason     text,
  degrade_reason   text,
  dimension_scores jsonb not null,
  weights_snapshot jsonb not null,
  thresholds_used  jsonb,
  prescan          jsonb not null,
  sampling         jsonb not null,
  page_evaluations jsonb,
  model_used       text not null,
  prompt_version   text,
  evaluated_at     timestamptz not null default now(),
  unique (file_hash, config_version)
);

create table skus (
  id                  serial primary key,
  sku_id              text not null,
  job_id              uuid not null references pdf_jobs,
  page_number         int not null,
  attempt_no          int not null default 1,
  revision            int not null default 1,
  validity            text not null check (validity in ('valid', 'invalid')),
  superseded          boolean not null default false,
  attributes          jsonb not null,
  custom_attributes   jsonb not null default '[]',
  source_text         text,
  source_bbox         int[],
  attribute_source    text not null default 'AI_EXTRACTED'
                      check (attribute_source in ('AI_EXTRACTED', 'HUMAN_CORRECTED', 'CROSS_PAGE_MERGED', 'PROMOTED')),
  import_status       text not null default 'pending',
  import_confirmation text not null default 'pending'
                      check (import_confirmation in ('confirmed', 'assumed', 'failed', 'pending')),
  status              text not null default 'EXTRACTED'
                      check (status in ('EXTRACTED', 'VALIDATED', 'CONFIRMED', 'BOUND', 'EXPORTED', 'SUPERSEDED',
                        'PARTIAL', 'INVALID')),
  created_at          timestamptz not null default now(),
  updated_at          timestamptz not null default now()
);
create index idx_skus_job on skus (job_id, page_number);
create index idx_skus_status on skus (status);
create unique index idx_skus_active on skus (sku_id) where not superseded;
create index idx_skus_attribute_source on skus (attribute_source);
create index idx_skus_import_confirmation on skus (import_confirmation);

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
  updated_by      text not null,
  allows_private  boolean not null default false     -- applied by the command line: may lead into our own network
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
  examples             jsonb not null default '[]',  -- texts and the JSON that is right for each; for a model
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
  cleared_at           timestamptz,                  -- its artefacts are no longer in the store
  lease_owner          text,
  leased_until         timestamptz,
  lease_token          bigint not null default 0,
  lease_count          int not null default 0,
  request_hash         text,
  idempotency_key      text,
  created_at           timestamptz not null default now(),
  updated_at           timestamptz not null default now(),
  queue                text not null default 'etl'   -- workers of this queue take it; merchants are served in turn
);
create index idx_etl_lanes on etl_task (queue, merchant_id, phase desc, due_at, task_id)
  where status = 'pending' and leased_until is null;
create index idx_etl_due on etl_task (due_at, task_id) where status = 'pending' and leased_until is null;
create index idx_etl_held on etl_task (leased_until) where leased_until is not null;
create index idx_etl_list on etl_task (merchant_id, created_at desc, task_id desc);
create index idx_etl_ended on etl_task (finished_at) where finished_at is not null and cleared_at is null;
create index idx_etl_cleared on etl_task (finished_at) where cleared_at is not null;
create index idx_etl_all on etl_task (created_at desc, task_id desc);
create unique index uk_etl_key on etl_task (merchant_id, idempotency_key) where idempotency_key is not null;
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

-- ── Direct uploads: from a phone straight to the bucket ──────────────────────────────────────────────────
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
  user_name         text not null,                     -- `sub` of the token; user_id is made of it and the merchant
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
