"""Every setting of ETL comes from the environment, with the defaults that are promised."""

from datetime import timedelta
from pathlib import Path

import pytest

from penstock.bootstrap import load_settings
from penstock.extraction.settings import EtlSettings
from penstock.kernel.settings import SettingsError

SETTINGS = [
    ("ETL_QUEUE_SIZE", "queue_size", "7", 7, 1000),
    ("ETL_WORKER_COUNT", "worker_count", "5", 5, 3),
    ("ETL_TASK_TIMEOUT", "task_timeout", "60", timedelta(seconds=60), timedelta(seconds=600)),
    ("ETL_CACHE_DIR", "cache_dir", "/tmp/c", Path("/tmp/c"), Path(".mineru_cache")),
    ("ETL_RULES_DIR", "rules_dir", "/tmp/r", Path("/tmp/r"), Path(".etl_rules")),
    ("ETL_REDIS_PREFIX", "redis_prefix", "other:", "other:", "etl:"),
    ("ETL_STATE_TTL_SECONDS", "state_ttl_seconds", "90", timedelta(seconds=90), timedelta(days=1)),
    ("ETL_ARQ_QUEUE_NAME", "arq_queue_name", "two", "two", "etl"),
    ("ETL_OCR_MAX_ATTEMPTS", "ocr_max_attempts", "9", 9, 3),
    ("ETL_POSTPROCESS_MAX_ATTEMPTS", "postprocess_max_attempts", "9", 9, 3),
    ("ETL_RETRY_BACKOFF_BASE_SECONDS", "retry_backoff_base_seconds", "2", timedelta(seconds=2), timedelta(seconds=5)),
    ("ETL_RETRY_BACKOFF_MAX_SECONDS", "retry_backoff_max_seconds", "8", timedelta(seconds=8), timedelta(minutes=5)),
    ("ETL_POSTPROCESS_CHUNK_THRESHOLD_CHARS", "postprocess_chunk_threshold_chars", "99", 99, 48_000),
    ("ETL_POSTPROCESS_CHUNK_SIZE_CHARS", "postprocess_chunk_size_chars", "99", 99, 16_000),
    ("ETL_POSTPROCESS_MAX_CHUNKS", "postprocess_max_chunks", "99", 99, 200),
    ("ETL_GLOBAL_RULE_ENABLED", "global_rule_enabled", "false", False, True),
    ("ETL_GLOBAL_RULE_ID", "global_rule_id", "12", 12, None),
    ("ETL_PROVIDER", "provider", "mineru", "mineru", "local"),
]  # fmt: skip


class TestFromTheEnvironment:
    @pytest.mark.parametrize(("variable", "name", "text", "value", "default"), SETTINGS)
    def test_each_has_a_default_and_can_be_set(self, monkeypatch, variable, name, text, value, default):
        """配置项（含 Redis 与 ARQ）"""
        monkeypatch.delenv(variable, raising=False)
        assert getattr(load_settings().etl, name) == default
        monkeypatch.setenv(variable, text)
        assert getattr(load_settings().etl, name) == value

    def test_the_redis_of_its_own_is_kept_secret(self, monkeypatch):
        """配置项（含 Redis 与 ARQ）：ETL_REDIS_URL"""
        assert load_settings().etl.redis_url.get_secret_value() == ""
        monkeypatch.setenv("ETL_REDIS_URL", "redis://:hunter2@127.0.0.1:6379/3")
        settings = load_settings().etl
        assert settings.redis_url.get_secret_value().endswith("/3")
        assert "hunter2" not in repr(settings)

    @pytest.mark.parametrize(
        "variable",
        [
            "ETL_TASK_TIMEOUT", "ETL_STATE_TTL_SECONDS", "ETL_ENDED_TTL_SECONDS", "ETL_SWEEP_SECONDS",
            "ETL_LEASE_SECONDS", "PENSTOCK_OCR_PAGE_SECONDS", "PENSTOCK_OCR_DOCUMENT_SECONDS",
            "PENSTOCK_LLM_TIMEOUT", "PENSTOCK_LLM_BREAKER_PAUSE", "PENSTOCK_MINERU_POLL_FIRST_SECONDS",
            "PENSTOCK_MINERU_READ_TIMEOUT_SECONDS",
        ],
    )  # fmt: skip
    def test_no_time_at_all_is_refused_by_name(self, monkeypatch, variable):
        """A lease of 0 s would be lost as soon as it is had, a run state of 0 s never be seen."""
        monkeypatch.setenv(variable, "0")
        with pytest.raises(SettingsError, match=f"{variable} from the environment is 0s: .* greater than 0"):
            load_settings()

    def test_there_is_none_that_says_nothing_of_itself(self):
        assert [name for name, field in EtlSettings.model_fields.items() if not field.description] == []
