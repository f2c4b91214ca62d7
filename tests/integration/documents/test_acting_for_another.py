"""Jobs in the name of another merchant: who may ask for one, and what those who may not learn."""

from tests.support.edge import bearer
from tests.support.jobs import pdf


class TestJobsForAnotherMerchant:
    async def test_acting_for_another_merchant_is_written_down(self, office):
        upload = await office.upload()
        job = (await office.post(upload, role="admin", impersonate_merchant_id="m-9")).json()
        assert (job["merchant_id"], job["uploaded_by"]) == ("m-9", "alice")
        [entry] = await office.rows("select actor, action, merchant_id from audit_log")
        assert tuple(entry.values()) == ("alice", "impersonate_merchant", "m-9")
        assert (await office.get(f"/{job['job_id']}")).status_code == 404

    async def test_an_operator_makes_a_job_of_the_merchants_own_upload(self, office):
        upload = await office.upload(merchant="m-9")
        job = (await office.post(upload, role="operator", impersonate_merchant_id="m-9")).json()
        assert (job["merchant_id"], job["uploaded_by"]) == ("m-9", "alice")

    async def test_a_token_acts_for_the_merchants_it_lists_and_no_others(self, office):
        headers = bearer(act_for=("m-9",))
        made = await office.post(await office.upload(), headers=headers, impersonate_merchant_id="m-9")
        assert (made.status_code, made.json()["merchant_id"]) == (201, "m-9")
        upload = await office.upload()
        refused = await office.post(upload, headers=headers, impersonate_merchant_id="m-8")
        assert (refused.status_code, refused.json()["code"]) == (403, "MERCHANT_DENIED")

    async def test_who_acts_for_many_has_one_share_of_the_sandbox(self, office):
        headers = bearer(act_for=("m-7", "m-8", "m-9"))
        for merchant in ("m-7", "m-8", "m-9"):
            await office.post(await office.upload(), headers=headers, impersonate_merchant_id=merchant)
        assert office.examiner.tenants == {"m-1"}

    async def test_an_uploader_cannot_learn_whether_another_merchant_has_a_file(self, office):
        content = pdf("merger plan")
        theirs = await office.job(content, merchant="m-2")
        known, unknown = await office.upload(content), await office.upload(pdf("something else"))
        answers = [await office.post(upload, impersonate_merchant_id="m-2") for upload in (known, unknown)]
        assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(403, "MERCHANT_DENIED")] * 2
        assert theirs["job_id"] not in answers[0].text
        assert len(await office.rows("select 1 from pdf_jobs")) == 1
