"""The Past Information Store on Redis or Valkey, single or as a cluster. It needs the extra `redis`."""

from typing import TYPE_CHECKING, Any

from ocgl.errors import MissingExtraError

if TYPE_CHECKING:
    from ocgl.graph.redis.store import RedisStore

__all__ = ["RedisStore"]


def __getattr__(name: str) -> Any:
    if name != "RedisStore":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from ocgl.graph.redis.store import RedisStore
    except ImportError as error:
        raise MissingExtraError("a store on Redis", "redis") from error
    return RedisStore
