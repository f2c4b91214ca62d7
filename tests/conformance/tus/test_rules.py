"""Every rule that tus 1.0.0 lays on a server, and the test that holds us to it.

Rules for clients are left out, and so are those of extensions that we do not announce (`checksum-trailer`,
`concatenation-unfinished`); that we do not announce them is a rule. `must` and `should` are the protocol's words.
"""

import ast
from pathlib import Path

import pytest

RULES = {
    "core: headers": {
        "must: an offset is a non-negative integer": "TestPatch.test_an_offset_that_is_no_number_is_400",
        "must: a length is a non-negative integer": "TestCreation.test_a_length_that_is_no_number_is_400",
        "must: Tus-Version lists what is spoken, the preferred first": (
            "TestOptions.test_it_says_what_the_server_can_do"
        ),
        "must: Tus-Resumable is in every answer": "TestVersion.test_every_answer_names_the_version",
        "must: another version is 412 with Tus-Version": (
            "TestVersion.test_any_other_or_none_is_412_with_those_we_speak"
        ),
        "must not: process a request of another version": (
            "TestVersion.test_a_request_of_another_version_is_not_processed"
        ),
        "must: Tus-Extension lists the extensions": "TestOptions.test_it_says_what_the_server_can_do",
        "must: Tus-Max-Size is a non-negative integer": "TestOptions.test_it_says_what_the_server_can_do",
        "must: the override header is the method": (
            "TestMethodOverride.test_the_method_of_the_header_is_the_one_that_counts"
        ),
        "must: the actual method is ignored then": "TestMethodOverride.test_the_actual_method_is_ignored",
    },
    "core: HEAD": {
        "must: the offset is there even if 0": "TestHead.test_a_new_upload_stands_at_0",
        "must: the offset is there even if complete": "TestHead.test_a_finished_upload_still_tells_its_offset",
        "must: a known length is there": "TestHead.test_a_known_length_is_told",
        "should: what is not found has no offset": "TestHead.test_an_unknown_upload_is_404_without_an_offset",
        "should: success is 200 or 204": "TestHead.test_a_new_upload_stands_at_0",
        "must: answers are not cached": "TestHead.test_no_answer_may_be_cached",
    },
    "core: PATCH": {
        "should: bytes are applied at the offset": "TestPatch.test_bytes_are_applied_at_the_offset",
        "should: another type is 415": "TestPatch.test_another_content_type_is_415_and_changes_nothing",
        "must: another offset is 409 and changes nothing": (
            "TestPatch.test_an_offset_that_differs_from_the_resource_is_409_and_changes_nothing"
        ),
        "must: success is 204 with the new offset": "TestPatch.test_bytes_are_applied_at_the_offset",
        "must: the new offset is the old one plus what was received": (
            "TestPatch.test_the_new_offset_is_the_old_one_plus_what_was_received"
        ),
        "should: an unknown upload is 404": "TestPatch.test_an_unknown_upload_is_404",
        "should: broken connections are handled": "TestDroppedConnections.test_after_a_reset_the_offset_is_a_true_one",
        "should: as much as possible is stored": "TestDroppedConnections.test_what_arrived_is_kept",
    },
    "core: OPTIONS": {
        "must: Tus-Version is in the answer": "TestOptions.test_it_says_what_the_server_can_do",
        "must: the client's Tus-Resumable is ignored": "TestOptions.test_it_ignores_the_version_of_the_client",
    },
    "creation": {
        "must: it is announced": "TestOptions.test_it_says_what_the_server_can_do",
        "must: a POST names a length or defers it": "TestCreation.test_without_any_length_it_is_400",
        "must: success is 201": "TestCreation.test_it_is_201_with_the_address_of_the_upload",
        "must: Location is the address, absolute or relative": "TestCreation.test_the_address_is_right_behind_a_proxy",
        "must: a length beyond the maximum is 413": "TestCreation.test_a_length_beyond_the_maximum_is_413",
        "may: a length of 0 is complete at once": "TestCreation.test_an_empty_file_is_complete_at_once",
        "must: metadata are pairs; a key is not empty, not twice": "TestMetadata.test_a_malformed_one_is_refused",
        "may: a value is empty": "TestMetadata.test_head_repeats_it_as_it_was_sent",
        "must: HEAD repeats the metadata": "TestMetadata.test_head_repeats_it_as_it_was_sent",
        "should: values cannot smuggle headers": "TestMetadata.test_no_value_can_smuggle_a_header",
    },
    "creation-defer-length": {
        "must: it is announced": "TestOptions.test_it_says_what_the_server_can_do",
        "must: Upload-Defer-Length is 1": "TestDeferredLength.test_any_other_value_than_1_is_400",
        "must: it is absent when the length is not deferred": "TestHead.test_a_known_length_is_told",
        "must: HEAD says it until the length is known": (
            "TestDeferredLength.test_head_says_so_until_the_length_is_known"
        ),
        "must: a later PATCH sets the length": "TestDeferredLength.test_a_later_patch_names_the_length",
        "must not: change a length once set": "TestDeferredLength.test_once_known_it_cannot_be_changed",
    },
    "creation-with-upload": {
        "must: it is announced": "TestOptions.test_it_says_what_the_server_can_do",
        "must: the body has the type of a chunk": (
            "TestCreationWithUpload.test_a_body_of_another_type_is_not_taken_for_the_file"
        ),
        "must: the answer has the offset": "TestCreationWithUpload.test_the_answer_tells_how_far_it_came",
        "should: Expect is answered early": (
            "TestCreationWithUpload.test_a_refusal_comes_before_the_body_when_the_client_waits_for_it"
        ),
    },
    "expiration": {
        "must: it is announced": "TestOptions.test_it_says_what_the_server_can_do",
        "must: Upload-Expires is in answers to POST and PATCH": (
            "TestExpiration.test_an_unfinished_upload_says_when_it_ends"
        ),
        "must: it is a date of HTTP": "TestExpiration.test_an_unfinished_upload_says_when_it_ends",
        "may: it moves": "TestExpiration.test_going_on_moves_the_end_away",
        "should: an expired upload is 404 or, if known, 410": (
            "TestExpiration.test_an_expired_upload_is_410_and_its_bytes_are_gone"
        ),
    },
    "checksum": {
        "must: it is announced": "TestOptions.test_it_says_what_the_server_can_do",
        "must: the chunk is verified": "TestChecksum.test_a_right_one_is_204",
        "must: sha1 is known": "TestChecksum.test_a_right_one_is_204",
        "must: an unknown algorithm is 400 and nothing counts": (
            "TestChecksum.test_an_unknown_algorithm_is_400_and_the_chunk_does_not_count"
        ),
        "must: a mismatch is 460 and nothing counts": (
            "TestChecksum.test_a_wrong_one_is_460_and_the_chunk_does_not_count"
        ),
        "must: it is a name, a space and base64": (
            "TestChecksum.test_a_malformed_one_is_refused_and_the_chunk_does_not_count"
        ),
        "must: nothing counts before the whole body was checked": (
            "TestDroppedConnections.test_with_a_checksum_nothing_counts_before_it_was_checked"
        ),
        "must: names of algorithms are lower-case ASCII": "TestChecksum.test_names_of_algorithms_are_lower_case",
        "must: OPTIONS lists the algorithms": "TestOptions.test_it_names_the_checksum_algorithms",
        "must: trailers are announced if read": "TestChunkedBodies.test_a_checksum_in_a_trailer_is_not_announced",
    },
    "termination": {
        "must: it is announced": "TestOptions.test_it_says_what_the_server_can_do",
        "must: success is 204": "TestTermination.test_a_delete_is_204_and_the_upload_is_gone_for_good",
        "should: resources are freed": "TestTermination.test_a_delete_is_204_and_the_upload_is_gone_for_good",
        "should: later requests are 404 or 410": (
            "TestTermination.test_a_delete_is_204_and_the_upload_is_gone_for_good"
        ),
    },
    "concatenation": {
        "must: it is announced": "TestOptions.test_it_says_what_the_server_can_do",
        "must: the length is the sum of the parts": "TestJoining.test_its_length_is_the_sum_and_equals_the_offset",
        "must: the order is that of the list": "TestJoining.test_the_whole_is_its_parts_in_the_order_named",
        "must: the client sends no length with it": "TestJoining.test_a_length_with_it_is_400",
        "must: unfinished parts are taken only if announced": (
            "TestJoining.test_an_unfinished_part_is_refused_as_we_do_not_announce_that"
        ),
        "shall not: metadata of parts become the whole's": (
            "TestJoining.test_metadata_of_parts_is_not_that_of_the_whole"
        ),
        "may: a part is used more than once": "TestJoining.test_a_part_may_be_used_again_or_is_said_to_be_gone",
        "must: PATCH of a whole is 403 and changes nothing": (
            "TestJoining.test_writing_to_the_whole_is_403_and_changes_nothing"
        ),
        "must: offset and length of the whole are equal": (
            "TestJoining.test_its_length_is_the_sum_and_equals_the_offset"
        ),
        "must: HEAD of a part has the offset": "TestParts.test_a_part_needs_no_metadata_and_tells_its_offset",
        "must: HEAD repeats Upload-Concat": "TestJoining.test_head_repeats_the_list_as_it_was_sent",
        "must: it is partial, or final and a list": "TestParts.test_any_other_word_is_400",
        "may: addresses of parts are absolute or relative": "TestJoining.test_addresses_may_be_absolute_or_relative",
    },
}


def all_tests() -> set[str]:
    found = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return found


class TestTheTableOfRules:
    @pytest.mark.parametrize("section", RULES)
    def test_every_rule_has_a_test(self, section: str):
        assert set(RULES[section].values()) <= all_tests()
