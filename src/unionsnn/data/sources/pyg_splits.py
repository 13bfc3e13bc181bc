"""The split that a data set of PyG brings along: masks, or lists of indices."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.data.arrays import PARTS, IntArray
from unionsnn.data.sources.pyg_items import as_array, pyg_fault

logger = logging.getLogger(__name__)

_MASKS = {"train": ("train",), "validation": ("val", "valid", "validation"), "test": ("test",)}
"""How data sets call the parts of their split."""


_KEYS = {
    part: tuple(f"{word}_{kind}" for word in words for kind in ("mask", "idx", "index"))
    for part, words in _MASKS.items()
}


def prescribed_parts(
    dataset: Any, graphs: Sequence[Any], count: int, level: str
) -> IntArray | None:
    """Return the parts of the items by what a set says of its split; None if it says nothing.

    It may have a method get_idx_split, a mapping split_idx, or attributes such as train_idx; the
    graph of a set of nodes may have these attributes, too, such as train_mask.

    Shapes:
        -> [count], or [count, S] for S splits.
    """
    found: dict[str, IntArray] = {}
    owners = [dataset, graphs[0]] if level == "node" else [dataset]
    for owner in owners:

        def has(key: str, owner: Any = owner) -> bool:
            # In-memory sets pass on the attributes of their graphs.
            if owner is dataset:
                return inspect.getattr_static(dataset, key, None) is not None
            return owner.get(key) is not None

        given: dict[str, Mapping[str, Any]] = {}
        if has("get_idx_split"):
            given["get_idx_split()"] = _index_lists(owner)
        if has("split_idx"):
            given["split_idx"] = owner.split_idx
        keys = [key for keys in _KEYS.values() for key in keys if has(key)]
        if keys:
            given[", ".join(keys)] = {key: getattr(owner, key) for key in keys}
        for name, values in given.items():
            if not isinstance(values, Mapping):
                raise pyg_fault(f"its {name} is no mapping of train, valid and test to indices")
            part = _parts(values, name, count, level)
            if part is not None:
                found[name] = part
    if not found:
        for key in ("split", "split_idx", *(key for keys in _KEYS.values() for key in keys)):
            value = graphs[0].get(key)
            # Masks with a value for each node are no split of graphs.
            if value is not None and (
                key == "split"
                or (level == "graph" and (key == "split_idx" or np.asarray(value).size == 1))
            ):
                raise pyg_fault(
                    f"{key} of {'its' if level == 'node' else 'each'} graph may be a split, but "
                    "is not read as one; give the data set a method get_idx_split() that returns "
                    "the indices of train, valid and test, or leave it out for a drawn split"
                )
        return None
    (first, chosen), *others = found.items()
    for name, part in others:
        if not np.array_equal(part, chosen):
            raise pyg_fault(f"its {first} and its {name} are different splits")
    if level == "graph" and getattr(dataset, "_indices", None) is not None:
        raise pyg_fault(
            f"it is a part of a set, and its {first} may number the graphs of the whole"
        )
    return chosen


def _index_lists(dataset: Any) -> Any:
    try:
        return dataset.get_idx_split()
    except Exception as error:  # Third-party code may raise anything.
        raise pyg_fault(f"its get_idx_split() failed ({type(error).__name__}: {error})") from error


def _parts(given: Mapping[str, Any], name: str, count: int, level: str) -> IntArray | None:
    """Return the parts of the items by masks or lists of indices; None for a training part alone.

    A set without validation has none here; it is drawn from the training part when it is needed.

    Shapes:
        -> [count], or [count, S] for masks of S splits.
    """
    masks: dict[str, NDArray[np.bool_]] = {}
    known = [(part, key) for part in _MASKS for key in (*_MASKS[part], *_KEYS[part])]
    if odd := [str(key) for key in given if key not in [key for _, key in known]]:
        raise pyg_fault(f"its {name} names {', '.join(odd[:5])}, which is not train, valid or test")
    for part in _MASKS:
        keys = [key for owner, key in known if owner == part and given.get(key) is not None]
        if len(keys) > 1:
            raise pyg_fault(f"it has {' and '.join(keys)}, which both name the {part} part")
        if keys:
            masks[part] = _mask(given[keys[0]], keys[0], count, level)
    if not masks:
        return None
    if masks.keys() == {"train"}:
        # The karate club of PyG names the nodes that a paper labelled, which is not a split.
        logger.warning("the set has a train_mask alone, which is not used: a split is drawn")
        return None
    lacking = [part for part in ("train", "test") if part not in masks or not masks[part].any()]
    if lacking:
        raise pyg_fault(
            f"its masks name the {' and '.join(masks)} part, but no {' and no '.join(lacking)} "
            f"{level}; give masks for train and test (and for validation), or none for a drawn "
            "split"
        )
    columns = sorted({mask.shape[1] for mask in masks.values()} - {1})
    if len(columns) > 1:
        raise pyg_fault(
            f"its masks have {' and '.join(map(str, columns))} columns, one for a split"
        )
    part_of = np.full((count, *columns[:1]) if columns else (count, 1), len(PARTS))
    for place, part in enumerate(PARTS):
        if part not in masks:
            continue
        mask = np.broadcast_to(masks[part], part_of.shape)
        both = np.argwhere(mask & (part_of != len(PARTS)))
        if len(both):
            other = PARTS[part_of[tuple(both[0])]]
            items = np.unique(both[:, 0])
            raise pyg_fault(
                f"{len(items)} {level}s are both in the {other} and in the {part} part, such as "
                f"{', '.join(map(str, items[:5]))}"
            )
        part_of[mask] = place
    empty = [p for i, p in enumerate(PARTS) if p in masks and not (part_of == i).any(axis=0).all()]
    if set(empty) - {"validation"}:
        raise pyg_fault(f"the {empty[0]} part of one of its {part_of.shape[1]} splits is empty")
    return part_of if columns else part_of[:, 0]


def _mask(value: Any, key: str, count: int, level: str) -> NDArray[np.bool_]:
    """Return a mask, [count, S], from a mask or a list of indices."""
    given = as_array(value, key)
    binary = given.dtype.kind == "b" or bool(np.isin(given, (0, 1)).all())
    if len(given.shape) in (1, 2) and len(given) == count and binary and count > 2:
        return given.reshape(count, -1).astype(bool)
    items = given.astype(np.int64) if given.dtype.kind in "iu" or given.size == 0 else None
    if items is None or items.ndim != 1:
        raise pyg_fault(
            f"{key} is {given.dtype} of shape {list(given.shape)}; it must be a mask, "
            f"[{count}] or [{count}, splits], or a list of {level}s"
        )
    wrong = items[(items < 0) | (items >= count)]
    if len(wrong):
        raise pyg_fault(f"{key} names {level} {wrong[0]}, but there are {level}s 0..{count - 1}")
    if len(np.unique(items)) != len(items):
        raise pyg_fault(f"{key} names a {level} more than once")
    mask = np.zeros((count, 1), dtype=bool)
    mask[items] = True
    return mask
