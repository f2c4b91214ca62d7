"""What servers of 3.x and 4.x have in common: a task is made, has an id, and is lost when the server says 404."""

from collections.abc import Callable

from penstock.extraction.providers.mineru.family import Ticket
from penstock.extraction.providers.mineru.refusals import TaskLost, not_understood
from penstock.extraction.providers.mineru.web import Answer

Refusal = Callable[[Answer], Exception]


def ticket_of(answer: Answer, refusal: Refusal) -> Ticket:
    """Of the task that was made. A server that knows no such address is another than it was."""
    if answer.status in {404, 405}:
        raise TaskLost
    if answer.status != 202:
        raise refusal(answer)
    if not isinstance(answer["task_id"], str):
        raise not_understood("NO_TASK_ID")
    return {"id": answer["task_id"]}


def known(answer: Answer, refusal: Refusal) -> Answer:
    """What the server says of a task that it still has."""
    if answer.status == 404:
        raise TaskLost
    if answer.status != 200:
        raise refusal(answer)
    return answer
