"""Settings: typed, with an origin each; a wrong one is refused in a sentence that helps."""

from datetime import timedelta
from pathlib import Path
from typing import Self

import pytest
from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from penstock.bootstrap import GROUPS, load_settings
from penstock.kernel.settings import (
    SettingsError,
    SettingsFile,
    SettingsGroup,
    display,
    mask_url,
    unknown_variables,
)


class Example(SettingsGroup):
    """Something to set."""

    model_config = SettingsConfigDict(env_prefix="EX_")

    count: int = Field(3, gt=0, description="How many")
    wait: timedelta = Field(timedelta(seconds=5), description="How long")
    key: SecretStr = Field(SecretStr(""), description="Secret")
    url: str = Field("", description="Where")


@pytest.fixture
def file(tmp_path: Path):
    def write(text: str) -> SettingsFile:
        path = tmp_path / "penstock.toml"
        path.write_text(text)
        return SettingsFile(path)

    return write


class TestReading:
    def test_the_environment_wins_over_the_file_and_the_file_over_the_default(self, file, monkeypatch):
        source = file("EX_COUNT = 7\nEX_URL = 'from file'\n")
        monkeypatch.setenv("EX_COUNT", "9")
        read = source.load(Example)
        assert (read.count, read.url, read.wait) == (9, "from file", timedelta(seconds=5))
        origins = {row.name: row.origin for row in source.show(read)}
        assert origins == {
            "EX_COUNT": "environment",
            "EX_URL": str(source.path),
            "EX_WAIT": "default",
            "EX_KEY": "default",
        }

    def test_what_the_command_line_gives_wins_and_says_so(self, file):
        source = file("EX_COUNT = 7\n")
        read = source.load(Example, url="given")
        assert {row.name: row.origin for row in source.show(read)}["EX_URL"] == "command line"

    @pytest.mark.parametrize(
        ("text", "seconds"), [("30", 30), ("1.5s", 1.5), ("10m", 600), ("6h", 21600), ("90d", 7776000), (" 2 ", 2)]
    )
    def test_durations_are_written_as_people_do(self, file, monkeypatch, text, seconds):
        monkeypatch.setenv("EX_WAIT", text)
        assert file("").load(Example).wait == timedelta(seconds=seconds)

    def test_an_empty_variable_counts_as_not_set(self, file, monkeypatch):
        monkeypatch.setenv("EX_COUNT", "")
        assert file("").load(Example).count == 3


class TestRefusing:
    def test_a_wrong_value_is_named_with_its_place_and_the_reason(self, file, monkeypatch):
        monkeypatch.setenv("EX_COUNT", "none")
        with pytest.raises(SettingsError, match=r"EX_COUNT from the environment is 'none'.*integer"):
            file("").load(Example)

    def test_a_wrong_duration_shows_how_to_write_one(self, file):
        with pytest.raises(SettingsError, match=r"EX_WAIT from .*penstock\.toml is 'soon'.*such as 30"):
            file("EX_WAIT = 'soon'").load(Example)

    def test_a_misspelt_name_in_the_file_is_refused_with_a_guess(self, file):
        with pytest.raises(SettingsError, match="there is no setting EX_CUONT; did you mean EX_COUNT"):
            file("EX_CUONT = 1").refuse_unknown((Example,))

    def test_a_broken_file_and_a_missing_one_are_sentences(self, file, tmp_path):
        with pytest.raises(SettingsError, match="cannot be read"):
            file("this is not toml")
        with pytest.raises(SettingsError, match="does not exist"):
            SettingsFile.find({"PENSTOCK_CONFIG": str(tmp_path / "missing.toml")})

    def test_a_secret_is_never_shown_even_when_it_is_wrong(self, file):
        source = file("EX_KEY = ['hush', 'hush']")
        with pytest.raises(SettingsError) as refused:
            source.load(Example)
        assert "hush" not in str(refused.value)
        read = file("EX_KEY = 'hush'").load(Example)
        assert "hush" not in str(source.show(read)) + repr(read)

    def test_what_is_wrong_with_a_group_as_a_whole_is_said_as_it_is(self, file):
        class Paired(Example):
            @model_validator(mode="after")
            def _both_or_none(self) -> Self:
                if self.url and not self.key.get_secret_value():
                    raise ValueError("EX_URL needs EX_KEY")
                return self

        with pytest.raises(SettingsError, match=r"^EX_URL needs EX_KEY$"):
            file("EX_URL = 'there'").load(Paired)

    def test_settings_cannot_be_changed_after_the_start(self, file):
        with pytest.raises(ValueError, match="frozen"):
            file("").load(Example).count = 4


class TestAllGroups:
    def test_every_setting_of_the_product_has_a_meaning_and_a_name_of_its_own(self):
        names: list[str] = []
        for group in GROUPS.values():
            for field, info in group.model_fields.items():
                assert info.description, f"{group.__name__}.{field} says nothing"
                names.append(group.variable(field))
        assert len(names) == len(set(names))

    def test_the_names_of_the_first_design_are_kept(self):
        names = {group.variable(field) for group in GROUPS.values() for field in group.model_fields}
        assert {
            "GW_WORKER_ID", "GW_HEARTBEAT_INTERVAL_SEC", "GW_HEARTBEAT_TTL_SEC", "GW_SSE_KEEPALIVE_SEC",
            "GW_SSE_MAX_CONNECTIONS", "GW_SSE_PER_MERCHANT_MAX", "GW_SSE_QUEUE_MAXSIZE",
        } <= names  # fmt: skip

    @pytest.mark.parametrize(
        ("name", "value", "reason"),
        [
            ("PENSTOCK_DATABASE_URL", "mysql://x", "postgresql://"),
            ("PENSTOCK_REDIS_URL", "localhost", "redis://"),
            ("PENSTOCK_PORT", "99999", "65535"),
        ],
    )
    def test_wrong_values_of_the_runtime_stop_the_start(self, monkeypatch, name, value, reason):
        monkeypatch.setenv("PENSTOCK_JWT_SECRET", "x" * 32)
        monkeypatch.setenv(name, value)
        with pytest.raises(SettingsError, match=f"{name} from the environment.*{reason}"):
            load_settings()


class TestStrangers:
    def test_variables_that_look_like_ours_but_set_nothing_are_named(self):
        environ = {"PENSTOCK_PRT": "1", "PENSTOCK_PORT": "8000", "PENSTOCK_CONFIG": "x", "HOME": "/"}
        assert unknown_variables(GROUPS.values(), environ) == {"PENSTOCK_PRT": ""}

    def test_of_prefixes_that_others_use_too_only_what_is_nearly_a_name_of_ours(self):
        environ = {"ETL_OCR_MAX_ATTEMPT": "9", "ETL_WAREHOUSE": "x", "ETL_OCR_MAX_ATTEMPTS": "3", "GW_JOB_BRUST": "1"}
        assert unknown_variables(GROUPS.values(), environ) == {"ETL_OCR_MAX_ATTEMPT": "", "GW_JOB_BRUST": ""}

    def test_names_of_the_first_design_that_set_nothing_are_told_with_the_reason(self, file):
        told = unknown_variables(GROUPS.values(), {"GW_JOB_DATA_DIR": "/data/jobs", "GW_SECURITY_SAMPLE_PAGES": "50"})
        assert "PENSTOCK_STORE_URL" in told["GW_JOB_DATA_DIR"]
        assert "all pages" in told["GW_SECURITY_SAMPLE_PAGES"]
        with pytest.raises(SettingsError, match=r"GW_ORPHAN_SCAN_LOCK_TTL_SEC: the scan takes no lock"):
            file("GW_ORPHAN_SCAN_LOCK_TTL_SEC = 600").refuse_unknown(tuple(GROUPS.values()))


_UNITS = {"ms": 0.001, "sec": 1, "seconds": 1, "min": 60, "minutes": 60, "hours": 3600, "days": 86400}
_DURATIONS = [
    (group, name)
    for group in GROUPS.values()
    for name, field in group.model_fields.items()
    if field.annotation is timedelta
]


class TestBareNumbers:
    """`GW_TUS_EXPIRY_HOURS=6` is six hours."""

    @pytest.mark.parametrize(("group", "name"), _DURATIONS, ids=[group.variable(name) for group, name in _DURATIONS])
    def test_each_has_the_unit_in_the_name_of_its_setting_in_the_environment_and_in_the_file(
        self, group, name, file, monkeypatch
    ):
        default = group.model_fields[name].default
        unit = _UNITS.get(name.rpartition("_")[2], 1)
        number = f"{default.total_seconds() / unit:g}"
        assert getattr(file(f"{group.variable(name)} = {number}\n").load(group), name) == default
        monkeypatch.setenv(group.variable(name), number)
        assert getattr(file("").load(group), name) == default

    def test_the_values_of_the_first_design_mean_what_they_meant_there(self, file):
        """Seed 000, section 10."""
        written = {
            "GW_TUS_MAX_SIZE_GB": 16, "GW_TUS_EXPIRY_HOURS": 6, "GW_TUS_CHUNK_TIMEOUT_SEC": 60, "GW_MAX_PAGES": 1000,
            "GW_SECURITY_PARSE_TIMEOUT_SEC": 30, "GW_SECURITY_MAX_OBJECT_COUNT": 500_000,
            "GW_SECURITY_MEMORY_LIMIT_MB": 512, "GW_HEARTBEAT_INTERVAL_SEC": 30, "GW_HEARTBEAT_TTL_SEC": 90,
            "GW_ORPHAN_SCAN_INTERVAL_SEC": 60, "GW_ORPHAN_REQUEUE_MAX": 3, "GW_ORPHAN_REQUEUE_COOLDOWN_SEC": 300,
            "GW_SSE_KEEPALIVE_SEC": 30, "GW_SSE_MAX_CONNECTIONS": 1000, "GW_SSE_PER_MERCHANT_MAX": 50,
            "GW_SSE_QUEUE_MAXSIZE": 100,
        }  # fmt: skip
        source = file("".join(f"{name} = {value}\n" for name, value in written.items()))
        groups = [source.load(group) for group in GROUPS.values()]
        read = {group.variable(name): getattr(group, name) for group in groups for name in type(group).model_fields}
        defaults = {
            group.variable(name): field.get_default()
            for group in GROUPS.values()
            for name, field in group.model_fields.items()
        }
        assert {name: read.get(name) for name in written} == {name: defaults.get(name) for name in written}
        assert read["GW_TUS_EXPIRY_HOURS"] == timedelta(hours=6)


class TestShowing:
    @pytest.mark.parametrize(
        ("seconds", "shown"), [(43200, "12h"), (7776000, "90d"), (90, "90s"), (60, "1m"), (0.05, "0.05s"), (0, "0s")]
    )
    def test_durations_are_shown_as_people_write_them(self, seconds, shown):
        assert display(timedelta(seconds=seconds)) == shown


class TestMasking:
    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("postgresql://me:pw@host/db", "postgresql://me:********@host/db"),
            ("postgresql://me@host/db", "postgresql://me@host/db"),
            ("redis://:p@ss@host:1/0", "redis://:********@host:1/0"),
            ("file:///data", "file:///data"),
            ("no url", "no url"),
        ],
    )
    def test_only_the_password_of_an_address_is_hidden(self, url, shown):
        assert mask_url(url) == shown
