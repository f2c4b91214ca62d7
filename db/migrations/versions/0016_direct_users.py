"""Direct uploads: a user whose `sub` is a UUID gets an id for each merchant, as other users have. Only rows change.

Objects keep their names. Rows whose id is of version 5 are changed first: a `sub` may be the id that another user gets.
"""

from uuid import UUID, uuid5

from alembic import op

revision = "0016"
down_revision = "0015"

_USERS = UUID("6f0c2f0e-5a0a-5c0f-9a52-0a6f3b1f7e11")
# Ids that were made from merchant and `sub` are of version 5; a video does not say what its user's `sub` was.
_OLD_IDS = (
    "select merchant_id, user_id from catalog.uploads where user_id::text = lower(user_name)"
    " union select merchant_id, user_id from catalog.videos where substr(user_id::text, 15, 1) <> '5'"
)
_CHANGES = (
    (
        "update catalog.uploads set user_id = new_id from moved where uploads.user_id = old_id"
        " and uploads.merchant_id = whose and old_id::text = lower(user_name) and is_first"
    ),
    (
        "update catalog.uploads set user_id = new_id from moved where uploads.user_id = old_id"
        " and uploads.merchant_id = whose and old_id::text = lower(user_name) and not is_first"
    ),
    (
        "update catalog.videos set user_id = new_id from moved where videos.user_id = old_id"
        " and videos.merchant_id = whose"
    ),
)


def upgrade() -> None:
    connection = op.get_bind().connection.driver_connection
    found = connection.execute(_OLD_IDS).fetchall()
    if not found:
        return
    connection.execute(
        "create temporary table moved (whose text, old_id uuid, new_id uuid, is_first boolean) on commit drop"
    )
    with connection.cursor().copy("copy moved from stdin") as rows:
        for merchant_id, user_id in found:
            made = uuid5(_USERS, f"{merchant_id}\n{user_id}")
            rows.write_row((merchant_id, user_id, made, user_id.version == 5))
    connection.execute("analyze moved")
    for change in _CHANGES:
        connection.execute(change)
