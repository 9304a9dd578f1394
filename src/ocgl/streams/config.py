"""Options of a stream, with their defaults."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

from ocgl.errors import ConfigError
from ocgl.validation import plain_numbers

Kind = Literal["class", "time", "order", "domain", "task", "blurry", "iid"]
Fraction = Annotated[float, Field(ge=0, le=1)]


class StreamConfig(BaseModel):
    """Options of a stream. All random choices depend on `stream_seed` alone.

    Args:
        kind: class-, time-, domain- or task-incremental, `order` (by row, for a dataset without times), `blurry`
            (class-incremental, with the fraction `blurry_share` of each class in other tasks), or `iid` (shuffled,
            scored on the class tasks).
        batch_size: nodes per batch, counted according to `batching`.
        stream_seed: seed of the split and of the order of arrival.
        split: fractions of training, validation and test nodes.
        stratify: split within each (task, class) cell, or all nodes at random.
        classes_per_task: classes per task, where tasks consist of classes.
        class_order: `label` (0, 1, 2, ...), `random`, or a list of labels.
        time_tasks: tasks of a stream by time or by row order.
        ti_bins: tasks with equally many nodes, or with equal intervals of time.
        blurry_share: fraction of each class that arrives with another task, in a blurry stream.
        batching: `train` counts the training nodes of a batch, `all` counts all nodes.
        straddle: whether batches may cross task boundaries.
        label_delay: steps between a node's arrival and its label; a number, or a range [least, most] to draw from. In
            a stream by time, a graph that tells when its labels become known (`label_time`) goes by that; the delay
            comes on top.
        missing_labels: fraction of training nodes whose label never arrives.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: Kind = "class"
    batch_size: PositiveInt = 10
    stream_seed: NonNegativeInt = 0
    split: tuple[Fraction, Fraction, Fraction] = (0.6, 0.2, 0.2)
    stratify: Literal["task_class", "random"] = "task_class"
    classes_per_task: PositiveInt = 2
    class_order: Literal["label", "random"] | tuple[int, ...] = "label"
    time_tasks: PositiveInt = 10
    ti_bins: Literal["equal_nodes", "equal_timestamps"] = "equal_nodes"
    blurry_share: Fraction = 0.1
    batching: Literal["train", "all"] = "train"
    straddle: bool = False
    label_delay: NonNegativeInt | tuple[NonNegativeInt, NonNegativeInt] = 0
    missing_labels: Fraction = 0.0

    @model_validator(mode="before")
    @classmethod
    def _plain_values(cls, given: Any) -> Any:
        return plain_numbers(given) if isinstance(given, dict) else given

    @model_validator(mode="after")
    def _whole(self) -> "StreamConfig":
        if abs(sum(self.split) - 1) > 1e-9:
            raise ConfigError(f"split {list(self.split)}: the fractions must add up to 1, not {sum(self.split):g}")
        if isinstance(self.label_delay, tuple) and self.label_delay[0] > self.label_delay[1]:
            raise ConfigError(f"label_delay {list(self.label_delay)}: write a range [least, most] with least <= most")
        return self
