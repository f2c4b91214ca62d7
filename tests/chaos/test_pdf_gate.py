"""A short run of the fuzzer of the PDF gate, and every file that it has ever found."""

import pytest

from tests.chaos.pdf_gate_fuzz import CORPUS, mutated, report, run_apart, seeds
from tests.support.gate import inspected, scanned

FILES, SEED = 150, 20240229


class TestFuzzing:
    def test_no_reader_sees_an_action_in_a_damaged_file_that_is_accepted(self):
        tried = list(run_apart(list(mutated(FILES, SEED))))
        assert not [(each.seed, each.mutators, each.seen) for each in tried if each.is_failure], report(tried)
        assert sum(not each.codes for each in tried) > FILES // 20  # or there was nothing to compare

    def test_the_honest_files_that_it_begins_with_pass(self):
        assert not [name for name, (is_hostile, data) in seeds().items() if not is_hostile and not inspected(data).ok]


class TestFilesFoundBefore:
    @pytest.mark.parametrize("path", sorted(CORPUS.glob("*.pdf")), ids=lambda path: path.stem)
    def test_each_is_refused_even_by_the_scan_of_its_bytes_alone(self, path):
        data = path.read_bytes()
        assert not inspected(data).ok
        assert not scanned(data).ok
