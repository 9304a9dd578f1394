"""From positions of arrival back to ids; a friend of the store's, in the same room."""

from ocgl.graph.store import Store
from ocgl.types import BoolArray, IntArray, PositionArray


def ids_at(store: Store, positions: PositionArray) -> IntArray:
    """Give the ids of nodes by their positions of arrival."""
    found: IntArray = store._order.rows[positions]
    return found


def arrived(store: Store, ids: IntArray) -> BoolArray:
    """Tell which nodes have arrived."""
    found: BoolArray = store._ids.find(ids) >= 0
    return found
