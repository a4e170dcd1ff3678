"""One measured schedule, as a line of a tuning database."""

from __future__ import annotations

from datetime import datetime, timezone
from importlib.metadata import version
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt

from tvm_sparse.tuning.space import Point, Space
from tvm_sparse.tuning.workload import Workload

Factors = Annotated[tuple[PositiveInt, ...], Field(max_length=8)]


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


Source = Literal["measured", "modelled"]
MEASURED: Source = "measured"
MODELLED: Source = "modelled"


class Record(BaseModel):
    """What was decided, and how fast that was.

    Parameters
    ----------
    operator, computation, target, function
        See :class:`~tvm_sparse.tuning.workload.Workload`.
    rule, rule_version
        The schedule rule whose decisions these are.
    variant, values
        See :class:`~tvm_sparse.tuning.space.Point`.
    default
        Decisions of the rule's default schedule then, which ``default_microseconds`` are of. Once
        the rule begins with others, the ratio says nothing.
    microseconds, default_microseconds
        Times of this schedule and of the default, measured in turns; absent if ``error`` says why.
    source
        Whether the times were measured or modelled.
    confirmed
        The two were measured once more, in many turns, after the search had ended.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)

    schema_version: Literal[1] = 1
    operator: str
    computation: str
    target: str
    function: str
    rule: str
    rule_version: int
    variant: Annotated[int, Field(ge=0)]
    values: tuple[PositiveInt | Factors, ...]
    default: tuple[PositiveInt | Factors, ...]
    microseconds: PositiveFloat | None = None
    default_microseconds: PositiveFloat | None = None
    source: Source = MEASURED
    confirmed: bool = False
    error: str | None = None
    tvm: str = Field(default_factory=lambda: version("apache-tvm"))
    when: str = Field(default_factory=_now)

    @property
    def ratio(self) -> float | None:
        """Time relative to the default schedule's; below one is faster."""
        if self.microseconds is None or self.default_microseconds is None:
            return None
        return self.microseconds / self.default_microseconds

    @property
    def point(self) -> Point:
        """The decisions."""
        return Point(self.variant, self.values)

    @property
    def anchor(self) -> tuple[str, ...]:
        """The key that all records of one operator, rule and target have in common."""
        return anchor_key(
            (self.operator, self.computation, self.target), self.rule, self.rule_version
        )


def anchor_key(anchor: tuple[str, str, str], rule: str, rule_version: int) -> tuple[str, ...]:
    """Return the key of an operator's records under one version of a rule."""
    return (*anchor, rule, str(rule_version))


def record_of(
    workload: Workload,
    space: Space,
    point: Point,
    *,
    seconds: float | None = None,
    default_seconds: float | None = None,
    source: Source = MEASURED,
    confirmed: bool = False,
    error: str | None = None,
) -> Record:
    """Return the record of ``point``; times are seconds of one call."""
    return Record(
        operator=workload.operator,
        computation=workload.computation,
        target=workload.target,
        function=workload.function,
        rule=space.rule_name,
        rule_version=space.rule.version,
        variant=point.variant,
        values=point.values,
        default=space.default.values,
        microseconds=None if seconds is None else seconds * 1e6,
        default_microseconds=None if default_seconds is None else default_seconds * 1e6,
        source=source,
        confirmed=confirmed,
        error=error,
    )
