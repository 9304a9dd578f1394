"""How a stream is made of a graph: every choice with its name and default."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

Kind = Literal["class", "time", "domain", "task", "blurry", "iid"]
Share = Annotated[float, Field(ge=0, le=1)]


class StreamConfig(BaseModel):
    """The choices of section 1 of the protocol. `stream_seed` fixes split and order; nothing else does.

    - `kind`: class-, time-, domain- or task-incremental, blurry (class-incremental with `blurry_share` of each class
      outside its task), or iid (shuffled, scored on the class tasks).
    - `class_order`: `label` (0, 1, 2, ...), `random` (from the stream seed), or a list of labels.
    - `batching`: `train` counts training nodes per batch, `all` counts every node.
    - `straddle`: let batches cross task boundaries.
    - `label_delay`: steps between a node's arrival and its label, a number or a range [least, most] drawn uniformly.
    - `missing_labels`: share of training nodes whose label never comes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Kind = "class"
    batch_size: PositiveInt = 10
    stream_seed: NonNegativeInt = 0
    split: tuple[Share, Share, Share] = (0.6, 0.2, 0.2)
    stratify: Literal["task_class", "random"] = "task_class"
    classes_per_task: PositiveInt = 2
    class_order: Literal["label", "random"] | tuple[int, ...] = "label"
    time_tasks: PositiveInt = 10
    ti_bins: Literal["equal_nodes", "equal_timestamps"] = "equal_nodes"
    blurry_share: Share = 0.1
    batching: Literal["train", "all"] = "train"
    straddle: bool = False
    label_delay: NonNegativeInt | tuple[NonNegativeInt, NonNegativeInt] = 0
    missing_labels: Share = 0.0

    @model_validator(mode="after")
    def _whole(self) -> "StreamConfig":
        if abs(sum(self.split) - 1) > 1e-9:
            raise ValueError(f"the shares of the split add up to {sum(self.split)}, not to 1")
        if isinstance(self.label_delay, tuple) and self.label_delay[0] > self.label_delay[1]:
            raise ValueError("label_delay is a range [least, most]")
        return self
