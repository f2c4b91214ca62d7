"""Where a job's results lie: told to callers who can use the address, and no path of the server to others."""

from dataclasses import replace

import pytest
from tests.integration.documents.conftest import opened


class TestOutputAddress:
    async def test_a_path_of_the_server_is_for_operators_and_admins(self, office):
        job = await office.job()
        for role, sees in (("uploader", False), ("annotator", False), ("operator", True), ("admin", True)):
            found = (await office.get(f"/{job['job_id']}", role=role)).json()["output_base_url"]
            assert (found is not None and found.startswith("file:///")) is sees, role
        result = (await office.get(f"/{job['job_id']}/result")).text
        cancelled = (await office.cancel(job["job_id"])).text
        assert "file://" not in result + cancelled

    @pytest.mark.parametrize("bucket", ["s3://catalogues", "gs://catalogues"])
    async def test_the_address_in_a_bucket_is_for_everyone_who_sees_the_job(self, office, bucket):
        desk = replace(office.desk, store_url=bucket)
        async with opened(replace(office.parts, desk=desk), office.examiner) as elsewhere:
            job = await elsewhere.job()
        assert job["output_base_url"] == f"{bucket}/jobs/{job['job_id']}/"
