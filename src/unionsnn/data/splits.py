"""Splits into training, validation and test parts: drawn, read, checked, hashed and saved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from unionsnn.base.errors import DamagedFileError, DataError
from unionsnn.base.files import atomic_write, read_json
from unionsnn.data.arrays import PARTS, IntArray

# Each of many splits lists all items.
_SPLIT_BYTES = 2**32


@dataclass(frozen=True, eq=False)
class Split:
    """A split: item numbers of three disjoint parts.

    Args:
        train: Items for fitting a model.
        validation: Items for selecting a model.
        test: Items for the final test.

    Shapes:
        int64, one dimension each.
    """

    train: IntArray
    validation: IntArray
    test: IntArray

    def parts(self) -> dict[str, IntArray]:
        """Return the parts by name, in the usual order."""
        return {name: getattr(self, name) for name in PARTS}

    @classmethod
    def from_parts(cls, part: IntArray) -> Split:
        """Make a split from each item's index in `PARTS`; other values mean no part.

        Shapes:
            part [N].
        """
        return cls(**{name: np.flatnonzero(part == i) for i, name in enumerate(PARTS)})


def repetition_seeds(seed: int, index: int) -> tuple[int, int, int]:
    """Return the seeds of a repetition: of its weights, the order of its items, its control."""
    weights, order, control = np.random.SeedSequence([seed, index]).generate_state(3)
    return int(weights), int(order), int(control)


def check_split(split: Split, num_items: int, cover: bool = True, where: str = "split") -> None:
    """Check that a split's parts are disjoint, in range and, if requested, cover all items.

    Args:
        split: The split.
        num_items: Number of items, which are numbered from 0.
        cover: Whether every item must be in a part.
        where: Name of the split in messages.

    Raises:
        DataError: A part is wrong; says how many items are wrong, with examples.
    """
    for name, part in split.parts().items():
        if part.ndim != 1 or part.dtype != np.int64:
            raise DataError(
                f"{where}: {name} must be a flat int64 array, not {part.dtype} of "
                f"shape {part.shape}",
                code="data.split",
            )
        if not len(part):
            raise DataError(f"{where}: the {name} part is empty", code="data.split")
        _refuse(
            part[(part < 0) | (part >= num_items)],
            f"{where}: {name} has {{count}} item(s) outside 0..{num_items - 1}",
        )
        values, counts = np.unique(part, return_counts=True)
        _refuse(values[counts > 1], f"{where}: {name} has {{count}} item(s) more than once")
    for first, second in (("train", "validation"), ("train", "test"), ("validation", "test")):
        both = np.intersect1d(getattr(split, first), getattr(split, second))
        _refuse(both, f"{where}: {first} and {second} overlap in {{count}} item(s)")
    if cover:
        missing = np.setdiff1d(np.arange(num_items), np.concatenate([*split.parts().values()]))
        _refuse(missing, f"{where}: {{count}} of {num_items} items are in no part")


def _refuse(items: IntArray, message: str) -> None:
    if len(items):
        examples = ", ".join(str(item) for item in items[:5])
        more = ", ..." if len(items) > 5 else ""
        raise DataError(
            f"{message.replace('{count}', str(len(items)))}: {examples}{more}", code="data.split"
        )


def split_hash(splits: Sequence[Split]) -> str:
    """Hash splits; the order of splits and of items matters.

    Args:
        splits: One or several splits.

    Returns:
        64 hexadecimal digits of SHA-256.
    """
    digest = hashlib.sha256(b"unionsnn-splits-1")
    for split in splits:
        for name, part in split.parts().items():
            digest.update(f"{name} {len(part)};".encode())
            digest.update(np.ascontiguousarray(part, dtype="<i8").tobytes())
    return digest.hexdigest()


def save_splits(
    path: str | Path, splits: Sequence[Split], num_items: int, *, cover: bool = True
) -> str:
    """Check splits and write them as JSON, atomically.

    Args:
        path: The file's name.
        splits: One or several splits of the same items.
        num_items: How many items there are.
        cover: Whether every item must be in a part of every split.

    Returns:
        The hash of the splits, which is also in the file.

    Raises:
        DataError: A split is wrong; nothing is written.
    """
    for number, split in enumerate(splits):
        check_split(split, num_items, cover, where=f"split {number}")
    checksum = split_hash(splits)
    content = {
        "num_items": num_items,
        "cover": cover,
        "hash": checksum,
        "splits": [{n: part.tolist() for n, part in s.parts().items()} for s in splits],
    }
    text = json.dumps(content).encode()
    atomic_write(Path(path), lambda file: file.write(text))
    return checksum


def load_splits(path: str | Path, num_items: int | None = None) -> list[Split]:
    """Read splits written by `save_splits`, verify their hash and check every split.

    Args:
        path: The file's name.
        num_items: How many items the data set has; taken from the file if left out.

    Returns:
        The splits, in their order.

    Raises:
        FileNotFoundError: There is no such file.
        DamagedFileError: The file is truncated or altered.
        DataError: The file belongs to a data set of another size.
    """
    try:
        content = read_json(path, _SPLIT_BYTES)
        stored, cover = int(content["num_items"]), bool(content["cover"])
        splits = [
            Split(**{name: np.array(part[name], dtype=np.int64) for name in PARTS})
            for part in content["splits"]
        ]
        intact = split_hash(splits) == content["hash"]
    except (DamagedFileError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise DamagedFileError(f"{path} does not hold splits ({error}); delete it") from error
    if not intact:
        raise DamagedFileError(f"{path} fails its checksum: its splits were altered; delete it")
    if num_items is not None and stored != num_items:
        raise DataError(
            f"{path} splits {stored} items, but the data set has {num_items}: it "
            "belongs to another set; delete it or use the other set",
            code="data.other_set",
        )
    for number, split in enumerate(splits):
        check_split(split, stored, cover, where=f"{path}, split {number}")
    return splits


def _by_class(y: IntArray, items: IntArray, generator: np.random.Generator) -> IntArray:
    """Shuffle the items that have a class, then sort them by it."""
    shuffled = generator.permutation(items[y[items] >= 0])
    return shuffled[np.argsort(y[shuffled], kind="stable")]


def _spread(count: int, size: int, generator: np.random.Generator) -> IntArray:
    """Choose `count` evenly spaced positions of `size`, so that each class gets its share."""
    return ((np.arange(count) + generator.random()) * size / max(count, 1)).astype(np.int64)


def _labels(y: ArrayLike) -> IntArray:
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataError(
            "stratified splits need one class number per graph, which this set does not have: type "
            "protocol=holdout or protocol=repeated_seeds, which split a set of "
            "data.task=graph_regression, graph_multilabel_classification or link_prediction "
            "without classes",
            code="data.classes",
        )
    if len(np.unique(labels[labels >= 0])) < 2:
        raise DataError(
            f"all {len(labels)} graphs are of one class: there is nothing to classify "
            "or to stratify; check the labels of the data set",
            code="data.classes",
        )
    return labels.astype(np.int64)


def _eight_to_one_to_one(order: IntArray, generator: np.random.Generator) -> Split:
    tenth = round(len(order) / 10)
    if tenth < 1:
        raise DataError(
            f"{len(order)} items are too few for parts of 8:1:1: one part would be empty",
            code="data.too_few",
        )
    return _cut(order, tenth, tenth, generator)


def _cut(order: IntArray, validation: int, test: int, generator: np.random.Generator) -> Split:
    in_test = np.zeros(len(order), dtype=bool)
    in_test[_spread(test, len(order), generator)] = True
    return _cut_validation(order[in_test], order[~in_test], validation, generator)


def _cut_validation(
    test: IntArray, rest: IntArray, count: int, generator: np.random.Generator
) -> Split:
    chosen = np.zeros(len(rest), dtype=bool)
    chosen[_spread(count, len(rest), generator)] = True
    return Split(train=np.sort(rest[~chosen]), validation=np.sort(rest[chosen]), test=np.sort(test))


def stratified_holdout(y: ArrayLike, *, generator: np.random.Generator) -> Split:
    """Draw one split of 8:1:1 in which every part holds each class in the set's own proportion.

    Args:
        y: Class of each item; those of class -1 are in no part, in this and the other draws.
        generator: Source of randomness.

    Returns:
        Sorted item numbers; each class is within one item of its share of the test part, and
        within two in the others.

    Shapes:
        y [N].

    Raises:
        DataError: There is only one class, no class numbers, or a part is empty.
    """
    labels = _labels(y)
    order = _by_class(labels, np.arange(len(labels)), generator)
    return _eight_to_one_to_one(order, generator)


def stratified_shares(
    y: ArrayLike, train: float, validation: float, *, generator: np.random.Generator
) -> Split:
    """Draw a split with a small training part; the remaining items are the test part.

    Args:
        y: Class of each item.
        train: Share of training items, stratified by class.
        validation: Share of validation items.
        generator: Source of randomness.

    Returns:
        Sorted item numbers; each class is within one item of its share of the training part, and
        within two in the others.

    Shapes:
        y [N].

    Raises:
        DataError: There is only one class, no class numbers, or a part is empty.
    """
    labels = _labels(y)
    order = _by_class(labels, np.arange(len(labels)), generator)
    sizes = [round(len(order) * share) for share in (train, validation)]
    if min(train, validation) <= 0 or min(*sizes, len(order) - sum(sizes)) < 1:
        raise DataError(
            f"shares of {train} for training and {validation} for validation leave a part of the "
            f"{len(order)} items empty: give two positive shares whose sum is below 1",
            code="data.shares",
        )
    drawn = _cut(order, sizes[1], sizes[0], generator)
    return Split(train=drawn.test, validation=drawn.validation, test=drawn.train)


def with_validation(split: Split, y: ArrayLike, *, generator: np.random.Generator) -> Split:
    """Give a prescribed split without validation a ninth of its training part, as in 8:1:1.

    The test part is the source's own and stays as it is.

    Args:
        split: The split; one that has a validation part is returned as it is.
        y: Class of each item, by which the draw is stratified, or its targets.
        generator: Source of randomness.

    Shapes:
        y [N] or [N, T].

    Raises:
        DataError: The training part is too small to be divided.
    """
    if len(split.validation):
        return split
    labels = np.asarray(y)
    if labels.ndim == 1 and labels.dtype.kind in "iu":
        order = _by_class(labels, split.train, generator)
    else:
        order = generator.permutation(split.train)
    count = round(len(order) / 9)
    if count < 1:
        raise DataError(
            f"the set prescribes {len(split.train)} training items and no validation; these are "
            "too few to draw a validation part from: give the set a mask for validation",
            code="data.too_few",
        )
    return _cut_validation(split.test, order, count, generator)


def random_holdout(num_items: int, *, generator: np.random.Generator) -> Split:
    """Draw one split of 8:1:1 without regard to targets.

    Args:
        num_items: How many items there are.
        generator: Source of randomness.

    Returns:
        Sorted item numbers.

    Raises:
        DataError: A part would be empty.
    """
    return _eight_to_one_to_one(generator.permutation(num_items), generator)


def stratified_k_fold(y: ArrayLike, folds: int, *, generator: np.random.Generator) -> list[Split]:
    """Draw k splits: every item is tested once, and another 1/k of the items validates.

    Source: the setup of benchmarking-gnns (10 folds of 8:1:1, stratified).

    Args:
        y: Class of each item.
        folds: The number k, at least 3, so that all three parts have items.
        generator: Source of randomness.

    Returns:
        k splits with sorted item numbers; test and validation parts differ by at most one item
        in size; each class is within one item of its share of a test part, within two elsewhere.

    Shapes:
        y [N].

    Raises:
        DataError: k is too small, larger than the smallest class, or there is only one class.
    """
    labels = _labels(y)
    num_items = int((labels >= 0).sum())
    if folds < 3:
        raise DataError(
            f"protocol.folds={folds} leaves no items for training in addition to validation "
            "and test: type protocol.folds=3 or more",
            code="data.folds",
        )
    if folds > num_items:
        advice = (
            f"type protocol.folds={num_items} or less"
            if num_items >= 3
            else "training, validation and test need at least one each, so add graphs to the set"
        )
        raise DataError(
            f"protocol.folds={folds} is more than the {num_items} graphs: {advice}",
            code="data.folds",
        )
    classes, counts = np.unique(labels[labels >= 0], return_counts=True)
    if counts.min() < folds:
        smallest = int(counts.min())
        advice = (
            f"type protocol.folds={smallest} or less"
            if smallest >= 3
            else "it is too small for cross-validation, type protocol=holdout"
        )
        raise DataError(
            f"protocol.folds={folds}, but class {classes[counts.argmin()]} has only "
            f"{smallest} graphs, fewer than folds: {advice}",
            code="data.folds",
        )
    order = _by_class(labels, np.arange(len(labels)), generator)
    fold = np.full(len(labels), -1)
    fold[order] = np.arange(num_items) % folds
    splits = []
    for k in range(folds):
        rest = _by_class(labels, np.flatnonzero(fold != k), generator)
        count = round(num_items / folds)
        splits.append(_cut_validation(np.flatnonzero(fold == k), rest, count, generator))
    return splits


def read_index_files(folder: str | Path, name: str, num_items: int) -> list[Split]:
    """Read splits in the format of benchmarking-gnns: one line of item numbers per fold.

    Args:
        folder: Folder with NAME_train.index, NAME_val.index and NAME_test.index.
        name: Data set; without files for PROTEINS, those of PROTEINS_full are used.
        num_items: How many items the set has.

    Returns:
        One split per line, items sorted.

    Raises:
        DataError: A file is missing or a fold is wrong.
    """
    folder = Path(folder)
    stem = name
    if not (folder / f"{name}_train.index").exists() and name == "PROTEINS":
        stem = "PROTEINS_full"
    paths = [folder / f"{stem}_{part}.index" for part in ("train", "val", "test")]
    rows = [_read_index_file(path) for path in paths]
    if len({len(part) for part in rows}) != 1:
        given = ", ".join(f"{p.name} {len(r)}" for p, r in zip(paths, rows, strict=True))
        raise DataError(
            f"the index files of {name} in {folder} differ in their folds ({given}): "
            "all three need one line per fold",
            code="data.split",
        )
    splits = []
    for number, (train, validation, test) in enumerate(zip(*rows, strict=True)):
        split = Split(train=train, validation=validation, test=test)
        where = f"{folder / stem}_{{train,val,test}}.index, fold {number} (line {number + 1})"
        check_split(split, num_items, where=where)
        splits.append(split)
    return splits


def _read_index_file(path: Path) -> list[IntArray]:
    try:
        lines = path.read_text(encoding="ascii").rstrip().splitlines()
    except FileNotFoundError:
        raise DataError(
            f"{path} is missing: splits need NAME_train.index, NAME_val.index and "
            "NAME_test.index in that folder",
            code="data.missing",
        ) from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not a text file of comma-separated numbers", code="data.split"
        ) from error
    folds = []
    for number, line in enumerate(lines):
        try:
            items = np.array([int(item) for item in line.split(",")], dtype=np.int64)
        except (ValueError, OverflowError):
            raise DataError(
                f"{path}, fold {number} (line {number + 1}): every item must be an "
                "integer, separated by commas",
                code="data.split",
            ) from None
        if (items < 0).any():
            raise DataError(
                f"{path}, fold {number} (line {number + 1}): item numbers are "
                f"non-negative, but {items.min()} is negative",
                code="data.split",
            )
        folds.append(np.sort(items))
    return folds
