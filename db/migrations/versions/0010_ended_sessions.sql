-- ── Sessions that were signed out: their tokens are refused until they expire ─────────────────────────────
create table ended_sessions (
  session_id text primary key,                       -- `jti` of its token
  expires_at timestamptz not null                    -- of the token; the row is of no use afterwards
);
