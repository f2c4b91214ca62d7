"""What a PDF may do beyond being read is found wherever it hides; what only looks like it passes."""

import pytest
from tests.support.action_pdfs import HIDDEN_SCRIPTS, HONEST, OTHER_ACTIONS, SCRIPT
from tests.support.pdfs import FONT, JS, document, encrypted, stream


def codes(inspection) -> set[str]:
    return {issue.code for issue in inspection.issues}


class TestScripts:
    @pytest.mark.parametrize("place", HIDDEN_SCRIPTS)
    async def test_a_script_is_found_wherever_it_hides(self, examiner, saved, place):
        assert SCRIPT in codes(await examiner.inspect(saved(HIDDEN_SCRIPTS[place])))

    async def test_the_place_is_told_in_words(self, examiner, saved):
        data = document(
            page="/Annots[5 0 R 6 0 R]", objects={5: "<</Subtype/Link>>", 6: "<</Subtype/Link/A 7 0 R>>", 7: JS}
        )
        (issue,) = (await examiner.inspect(saved(data))).issues
        assert issue.place == "page 1, annotation 2 (object 7)"

    async def test_what_nothing_refers_to_is_refused_and_said_to_be_unreached(self, examiner, saved):
        (issue,) = (await examiner.inspect(saved(document(objects={9: JS})))).issues
        assert issue.place.startswith("not reached from any page")


class TestOtherActions:
    @pytest.mark.parametrize("place", OTHER_ACTIONS)
    async def test_an_action_that_leaves_the_file_is_refused(self, examiner, saved, place):
        code, data = OTHER_ACTIONS[place]
        assert code in codes(await examiner.inspect(saved(data)))


class TestHonestFiles:
    @pytest.mark.parametrize("place", HONEST)
    async def test_what_only_looks_like_an_action_passes(self, examiner, saved, place):
        found = await examiner.inspect(saved(HONEST[place]))
        assert found.issues == []
        assert found.page_count == 1


class TestListing:
    async def test_all_issues_are_listed_not_only_the_first(self, examiner, saved):
        data = document(
            f"/OpenAction<</S/Launch/F(a)>>/AA<</WC {JS}>>",
            page="/MediaBox[0 0 9000000 10]/Annots[<</A<</S/SubmitForm/F(http://x)>>>>]",
        )
        assert codes(await examiner.inspect(saved(data))) == {
            "SECURITY_LAUNCH_ACTION",
            SCRIPT,
            "SECURITY_SUBMIT_ACTION",
            "SECURITY_DIMENSIONS_EXCEEDED",
        }

    async def test_thousands_of_one_kind_do_not_crowd_out_another(self, examiner, saved):
        objects = dict.fromkeys(range(5, 3005), JS) | {4000: "<</S/Launch/F(a)>>"}
        found = await examiner.inspect(saved(document(objects=objects)))
        assert codes(found) == {SCRIPT, "SECURITY_LAUNCH_ACTION"}
        assert found.issue_count == 3001
        assert len(found.issues) < 50

    async def test_a_strangers_bytes_do_not_reach_the_text_as_they_are(self, examiner, saved):
        data = document(page="/Annots[<</A<</S/URI/URI(evil:\\033[31m\\000)>>>>]")
        (issue,) = (await examiner.inspect(saved(data))).issues
        assert issue.detail.isprintable()


class TestSaidTwice:
    """Of two values of a key one reader takes the first, another the last."""

    @pytest.mark.parametrize(
        "data",
        [
            document(f"/OpenAction {JS}/OpenAction[3 0 R/Fit]"),
            document(objects={5: f"<</A {JS}/A<</S/GoTo>>>>"}),
            document(objects=dict.fromkeys(range(5, 3000), "<</Foo 1/Foo 2>>") | {3001: f"<</AA<</O {JS}>>/AA null>>"}),
        ],
        ids=["on opening", "in an annotation", "behind thousands of others"],
    )
    async def test_what_decides_on_actions_may_not_be(self, examiner, saved, data):
        found = await examiner.inspect(saved(data))
        assert codes(found) == {"SECURITY_PARSE_FAILED"}
        assert "said twice" in found.issues[0].detail

    async def test_a_script_that_is_also_a_link_is_a_script(self, examiner, saved):
        data = document("/OpenAction<</S/JavaScript/JS 5 0 R/S/Named>>", objects={5: stream(b"x()")})
        assert SCRIPT in codes(await examiner.inspect(saved(data)))

    async def test_anything_else_may_be(self, examiner, saved):
        assert (await examiner.inspect(saved(document(objects={5: "<</Title(a)/Title(b)>>"})))).ok


class TestEncryption:
    @pytest.mark.parametrize("user", ["", "secret"])
    async def test_any_encryption_is_refused(self, examiner, saved, user):
        found = await examiner.inspect(saved(encrypted(document(resources=FONT), user)))
        assert codes(found) == {"SECURITY_ENCRYPTED_PDF"}
