"""Configuration of a service, kept in `config.toml`."""

import json
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt, ValidationError

from ocgl.errors import ConfigError, DamagedFileError
from ocgl.files import write_whole
from ocgl.validation import explained

FILE = "config.toml"


class ServiceConfig(BaseModel):
    """What a service is.

    Args:
        strategy: name of the strategy, or `path/to/file.py:Class`.
        features: number of features of a node.
        sparse: whether features are stored as sparse rows.
        hyperparameters: hyperparameters of the strategy.
        seed: its seed.
        shadows: strategies that learn beside the main one and are scored, with their defaults.
        batch_size: labels that are learned together.
        batch_seconds: seconds after which waiting labels are learned though the batch is not full; 0 for never.
        window: answers that the recent accuracy is taken over.
        most_events: most events of a request.
        most_bytes: most bytes of a request.
        most_classes: most different labels.
        queue: most requests that wait; more are answered with 429.
        least_free: bytes that must be free on the disk; with less, events are refused until there is room.
        snapshot_records: records between two snapshots.
        keys_kept: idempotency keys that are remembered.
        store: address of the graph on Redis; None for the folder of the service.
        follows: address of the service whose log this one follows; None for one that takes events.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    schema_version: Literal[1] = 1
    strategy: str
    features: PositiveInt
    sparse: bool = False
    hyperparameters: dict[str, Any] = Field(default_factory=dict)
    seed: NonNegativeInt = 0
    shadows: list[str] = Field(default_factory=list)
    batch_size: PositiveInt = 10
    batch_seconds: float = Field(default=5.0, ge=0)
    window: PositiveInt = 1000
    most_events: PositiveInt = 10_000
    most_bytes: PositiveInt = 32 << 20
    most_classes: PositiveInt = 1_000
    queue: PositiveInt = 256
    least_free: NonNegativeInt = 64 << 20
    snapshot_records: PositiveInt = 20_000
    keys_kept: PositiveInt = 100_000
    answer_seconds: PositiveFloat = 30.0
    store: str | None = None
    follows: str | None = None

    def fixed(self) -> dict[str, Any]:
        """Return what the state of a service depends on; it cannot be changed later."""
        names = {"schema_version", "strategy", "features", "sparse", "hyperparameters", "seed", "shadows", "window"}
        return self.model_dump(mode="json", include=names | {"keys_kept"})

    def check_begun(self, begun: dict[str, Any]) -> None:
        """Raise `ConfigError` unless the state of this service was begun with this configuration."""
        own = self.fixed()
        other = sorted(name for name in own if begun.get(name) != own[name])
        if other:
            text = f"the log was begun with other values of {', '.join(other)}"
            raise ConfigError(f"{text}; set them back in {FILE}, or begin a new service and play the log into it")

    @classmethod
    def read(cls, folder: Path) -> "ServiceConfig":
        """Read the configuration of a service."""
        path = folder / FILE
        try:
            return cls.model_validate(tomllib.loads(path.read_text()))
        except FileNotFoundError as error:
            raise ConfigError(f"{folder} holds no service; begin one with --strategy and --features") from error
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise DamagedFileError(path, f"it is no readable TOML file ({error})") from error
        except ValidationError as error:
            raise explained(error, f"{path}: ") from error

    def write(self, folder: Path) -> None:
        """Write the configuration of a new service."""
        values = self.model_dump(mode="json", exclude_none=True)
        tables = {key: values.pop(key) for key in ("hyperparameters",)}
        lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
        for name, table in tables.items():
            lines += ["", f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
        write_whole(folder / FILE, ("\n".join(lines) + "\n").encode())
        if self.store is not None:
            (folder / FILE).chmod(0o600)  # it may hold a password
