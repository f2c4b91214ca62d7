"""Why a request is not done, in the words and numbers that clients of Google's bucket know."""

TOO_LARGE = "EntityTooLarge"
PRECONDITION_FAILED = "PreconditionFailed"


class Refusal(Exception):
    """`code` is for programs, `message` for people; neither holds anything that was signed."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def malformed(message: str) -> Refusal:
    return Refusal(400, "InvalidArgument", message)


def precondition_failed() -> Refusal:
    return Refusal(412, PRECONDITION_FAILED, "At least one of the pre-conditions you specified did not hold.")


def no_such_object() -> Refusal:
    return Refusal(404, "NoSuchKey", "The specified object does not exist.")


def no_such_session() -> Refusal:
    return Refusal(404, "NoSuchUpload", "There is no such upload session.")


def session_over() -> Refusal:
    return Refusal(410, "UploadSessionExpired", "The upload session is over: begin a new one.")


def too_many(message: str) -> Refusal:
    return Refusal(429, "TooManyRequests", message)


def try_again(message: str) -> Refusal:
    return Refusal(503, "ServiceUnavailable", message)


def too_small(least: int) -> Refusal:
    return Refusal(400, "EntityTooSmall", f"This object has {least} bytes at the least.")


def too_large(most: int) -> Refusal:
    return Refusal(400, TOO_LARGE, f"This object may have {most} bytes at the most.")
