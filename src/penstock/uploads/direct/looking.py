"""Looking for an object in the bucket, as who was told nothing of it has to."""

from dataclasses import replace

from penstock.uploads.direct.ports import Bucket, ObjectFacts


async def look(bucket: Bucket, object_name: str) -> ObjectFacts | None:
    """With its MD5, which takes long where the bucket cannot know it; NOT_FOUND if it changes under our eyes."""
    found = await bucket.find(object_name)
    if found is None or found.md5_hex is not None:
        return found
    return replace(found, md5_hex=await bucket.md5_of(found))
