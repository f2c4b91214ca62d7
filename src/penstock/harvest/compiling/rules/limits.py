"""Rule 6: rates, retries and time-outs stay within what the provider allows and what can ever succeed."""

from collections.abc import Iterator
from datetime import timedelta

from penstock.harvest.compiling.problems import Case, Complaint, Found, Rule
from penstock.harvest.spec import RateLimit, Retry, Section, Sections

_NEVER = frozenset({400, 401, 403, 404})  # the same request gets the same answer, or gets us locked out
_LONGEST = timedelta(seconds=120)
_LARGEST = 2_147_483_647  # what a column of the tables holds


def _check(case: Case) -> Found:
    for part in case.parts:
        sections = part.sections
        found = (*_rate(sections.rate_limit), *_retry(sections.retry), *_timeouts(sections), *_sizes(sections))
        yield from ((part, complaint) for complaint in found)


def _rate(rate: RateLimit) -> Iterator[Complaint]:
    if rate.provider_qps is not None and rate.qps > rate.provider_qps:
        yield Complaint(
            "rateLimit.qps",
            f"qps {rate.qps:g} 超过供应商上限 {rate.provider_qps:g}",
            f"qps {rate.qps:g} is more than the provider allows ({rate.provider_qps:g})",
        )
    if rate.min_rate > rate.qps:
        yield Complaint("rateLimit.minRate", "minRate 超过 qps", "minRate is more than qps")
    if rate.cost > rate.burst:
        yield Complaint(
            "rateLimit.cost", "cost 超过 burst，许可永远不会发出", "cost is more than burst: no permit could be given"
        )
    if rate.quota_hourly is not None and rate.quota_daily is not None and rate.quota_hourly > rate.quota_daily:
        yield Complaint("rateLimit.quotaHourly", "每小时配额超过每日配额", "quotaHourly is more than quotaDaily")


def _retry(retry: Retry) -> Iterator[Complaint]:
    for status in retry.retryable_status:
        if status in _NEVER or not 400 <= status <= 599:
            yield Complaint(
                "retry.retryableStatus",
                f"{status} 不可重试：重复请求不会有别的结果",
                f"{status} is not worth another try: the answer would be the same",
            )
    if retry.first > retry.longest:
        yield Complaint("retry.first", "first 超过 longest", "first is more than longest")
    if retry.first <= timedelta(0):
        yield Complaint("retry.first", "必须大于 0", "must be more than 0")


def _timeouts(sections: Sections) -> Iterator[Complaint]:
    http = sections.http
    for key, span in (("connectTimeout", http.connect_timeout), ("readTimeout", http.read_timeout)):
        if not timedelta(0) < span <= _LONGEST:
            yield Complaint(f"http.{key}", "必须大于 0 且不超过 120 秒", "must be more than 0 and 120 s at the most")


def _sizes(sections: Sections) -> Iterator[Complaint]:
    """Numbers that no source means, and that would break what counts with them much later."""
    for name, info in type(sections).model_fields.items():
        section = getattr(sections, name)
        for inner, about in type(section).model_fields.items() if isinstance(section, Section) else ():
            value = getattr(section, inner)
            if isinstance(value, int | float) and abs(value) > _LARGEST:
                key = f"{info.alias}.{about.alias}"
                yield Complaint(key, f"数字过大，至多 {_LARGEST}", f"the number is too large: {_LARGEST} at the most")


LIMITS = Rule(6, "limits", "速率与重试不超过供应商约束", "rates and retries stay within the provider's limits", _check)
